"""Kernels from C++ source at run time, compiled by the SYCL compiler that intel-sycl-rt brings and cached on disk.

    gelu_mul = xpu_ops.jit.elementwise("gelu_mul", "float a, float b", "xpu::gelu_erf(a) * b")
    gelu_mul(x, y)

See docs/custom-kernels.md.
"""

from __future__ import annotations

from xpu_ops.jit.kernels import kernel
from xpu_ops.jit.pointwise import elementwise
from xpu_ops.jit.reductions import reduction
from xpu_ops.jit.sources import load_inline
from xpu_ops.jit.worker import CompileError

__all__ = ["CompileError", "elementwise", "kernel", "load_inline", "reduction"]
