"""Rows of torchvision's operators at the sizes of a detection model: one image of 800x1088, 1000 proposals, 256 channels.

torchvision's CPU kernels are in its binary: where that does not load there is nothing to compare with, and there are no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from xpu_ops.upstream import torchvision as _torchvision

from .core import Case, with_gradients


def comparable() -> bool:
    """Whether the CPU has torchvision's kernels."""
    try:
        _torchvision.make_known()
    except RuntimeError:  # a torchvision for another torch
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU")


def _boxes(n: int, height: float, width: float) -> torch.Tensor:
    corner = torch.rand(n, 2) * torch.tensor([width, height])
    return torch.cat([corner, corner + torch.rand(n, 2) * 200 + 10], 1)


def cases() -> Iterator[Case]:
    """Each operator alone, then with its gradient."""
    if not comparable():
        return
    ops: Any = torch.ops.torchvision
    boxes, scores = _boxes(4000, 800, 1088), torch.rand(4000)
    yield Case("vision", "nms 1000", lambda b, s: ops.nms(b, s, 0.5), (boxes[:1000], scores[:1000]))
    yield Case("vision", "nms 4000", lambda b, s: ops.nms(b, s, 0.7), (boxes, scores))
    rois = torch.cat([torch.zeros(1000, 1), _boxes(1000, 800, 1088)], 1)
    on = {device: rois.to(device) for device in ("cpu", "xpu")}  # no argument of theirs: it has no gradient
    features, sensitive = torch.rand(1, 256, 50, 68), torch.rand(1, 490, 50, 68)
    pools: dict[str, Any] = {
        "roi_align 7x7": lambda x: ops.roi_align(x, on[x.device.type], 1 / 16, 7, 7, 2, False),
        "roi_pool 7x7": lambda x: ops.roi_pool(x, on[x.device.type], 1 / 16, 7, 7)[0],
    }
    sensitive_pools: dict[str, Any] = {
        "ps_roi_align 7x7": lambda x: ops.ps_roi_align(x, on[x.device.type], 1 / 16, 7, 7, 2)[0],
        "ps_roi_pool 7x7": lambda x: ops.ps_roi_pool(x, on[x.device.type], 1 / 16, 7, 7)[0],
    }
    for x, functions in ((features, pools), (sensitive, sensitive_pools)):
        for name, function in functions.items():
            yield Case("vision", name, function, (x,))
            yield Case("vision", f"{name} gradient", with_gradients(function), (x,))

    def deform(
        x: torch.Tensor, w: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, b: torch.Tensor
    ) -> torch.Tensor:
        return ops.deform_conv2d(x, w, offset, mask, b, 1, 1, 1, 1, 1, 1, 1, 1, True)

    args = (
        torch.rand(2, 64, 56, 56), torch.rand(64, 64, 3, 3) / 24, torch.randn(2, 18, 56, 56), torch.rand(2, 9, 56, 56),
        torch.rand(64),
    )  # fmt: skip
    yield Case("vision", "deform_conv2d 3x3", deform, args)
    yield Case("vision", "deform_conv2d 3x3 gradient", with_gradients(deform), args)
