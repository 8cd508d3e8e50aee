"""torch's own kernels in Triton, which a CUDA build lays over those registered before. Runs after torch._native."""

from __future__ import annotations

import warnings
from typing import Any

from xpu_ops.upstream.registry import uses


@uses(
    "torch._native.registry.deregister_op_overrides",
    since="2.13",
    why="takes the keys of xpu back: with torch's kernels "
    "bmm would pass through Python at every call, 43 us instead of 4 for outer products of 8 by 8",
    test="tests/runtime/test_cuda_build.py::test_torch_lays_no_kernel_over_ours",
)
def keep_kernels(deregister: Any) -> None:
    try:
        deregister(disable_dispatch_keys="XPU")
    except Exception as e:
        warnings.warn(f"torch's kernels in Triton may serve xpu: {type(e).__name__}: {e}", RuntimeWarning, stacklevel=2)
