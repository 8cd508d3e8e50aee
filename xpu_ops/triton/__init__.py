"""Triton on the xpu device: a backend for stock `triton`, found by it through the entry point group `triton.backends`.

Nothing here is imported unless the program imports triton. The way of a kernel:

    Python source -- triton --> TTIR -- ttir.py --> objects -- lower/ --> SYCL source -- xpu_ops.jit --> native code

`XPU_OPS_TRITON_DUMP=1` prints the TTIR and the SYCL source of every kernel that is lowered. docs/triton.md has the rest.
"""
