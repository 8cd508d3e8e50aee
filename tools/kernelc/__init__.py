"""Compiles SYCL device modules ahead of time: parallel, incremental, safe against compiler crashes."""
