"""The language of kernels that are made at run time: what torch.compile, Triton and xpu_ops.jit write becomes C++ here.

Nothing in this package knows Inductor or Triton, and nothing imports torch: a dtype is found by its name.
"""
