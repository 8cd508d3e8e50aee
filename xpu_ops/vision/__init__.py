"""Which kernels serve torchvision's operators on xpu: the native ones, or the same operators written in Triton.

    xpu_ops.vision.use("triton")   # torchvision::nms, roi_align, ... run xpu_ops/vision/kernels.py
    xpu_ops.vision.use("native")   # back to SYCL, the default

Gradients are the native kernels' in both cases.
"""

from __future__ import annotations

from typing import Any

__all__ = ["current", "use"]

_library: Any = None


def current() -> str:
    """The kernels in use: "native" or "triton".

    Source: the registrations of `torch.ops.torchvision` for XPU.
    """
    return "native" if _library is None else "triton"


def use(kernels: str) -> None:
    """Choose the kernels of nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool and deform_conv2d for this process.

    Args:
        kernels: "native" or "triton". "triton" needs the extra `xpu_ops[triton]`.

    Raises:
        ValueError: for another name.
        ImportError: where Triton is not installed.

    Source: xpu_ops/vision/kernels.py; the operators are torchvision's (torchvision.ops).
    """
    global _library
    if kernels not in ("native", "triton"):
        raise ValueError(f'kernels must be "native" or "triton", got {kernels!r}')
    if kernels == current():
        return
    if kernels == "native":
        _library._destroy()
        _library = None
        return
    import torch

    from xpu_ops.upstream import torchvision as _torchvision

    try:
        from xpu_ops.vision.kernels import OPERATORS
    except ImportError as error:
        raise ImportError(
            f'xpu_ops.vision.use("triton") needs Triton: pip install "xpu_ops[triton]" ({error})'
        ) from error
    _torchvision.make_known()
    library = torch.library.Library("torchvision", "IMPL")
    for name, function in OPERATORS.items():
        library.impl(name, function, "XPU", allow_override=True)
    _library = library
