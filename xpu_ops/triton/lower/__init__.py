"""Triton IR to SYCL: `kernel.lower`."""
