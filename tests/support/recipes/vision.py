"""Recipes of torchvision's operators; support.vision has what they are compared with."""

from __future__ import annotations

from typing import Any

import torch

from support import vision
from support.recipe import gradient, recipe

Args = dict[str, Any]


def oracle(name: str) -> Any:
    return vision.REFERENCES[name.rpartition("::")[2]]


def regions(d: Any, images: int) -> torch.Tensor:
    """Some well formed, some with corners the other way round or outside."""
    corners = d.plain(d.int(0, 5), 4, low=-3, high=12)
    if d.flag():
        corners = torch.cat([corners[:, :2].minimum(corners[:, 2:]), corners[:, :2].maximum(corners[:, 2:])], 1)
    return torch.cat([d.whole((len(corners), 1), images).to(corners.dtype), corners], 1)


@recipe("torchvision::nms", oracle=oracle("nms"))
def nms(d: Any) -> Args:
    n = d.pick(0, 1, 7, 40, 1100)
    corners = d.plain(n, 4, low=0, high=10)
    boxes = torch.cat([corners[:, :2].minimum(corners[:, 2:]), corners[:, :2].maximum(corners[:, 2:])], 1)
    return {"dets": boxes, "scores": d.tensor((n,)), "iou_threshold": d.pick(0.0, 0.3, 0.5, 0.9)}


def pooling(d: Any, sensitive: bool = False) -> Args:
    rows, columns = d.ints(2, 1, 3)
    channels = d.int(1, 3) * rows * columns if sensitive else d.pick(1, 3, 16, 70)
    x = d.plain(d.int(1, 2), channels, d.int(2, 8), d.int(2, 8))
    return {"input": x, "rois": regions(d, len(x)), "spatial_scale": d.pick(1.0, 0.5, 0.37), "pooled_height": rows,
            "pooled_width": columns}  # fmt: skip


def sizes(d: Any, values: Args) -> Args:
    return dict(zip(("batch_size", "channels", "height", "width"), values["input"].shape, strict=True))


@recipe("torchvision::roi_align", oracle=oracle("roi_align"))
def roi_align(d: Any) -> Args:
    return pooling(d) | {"sampling_ratio": d.pick(-1, 0, 1, 2, 3), "aligned": d.flag()}


@recipe("torchvision::roi_pool", oracle=oracle("roi_pool"))
def roi_pool(d: Any) -> Args:
    return pooling(d)


@recipe("torchvision::ps_roi_align", oracle=oracle("ps_roi_align"))
def ps_roi_align(d: Any) -> Args:
    return pooling(d, True) | {"sampling_ratio": d.pick(-1, 0, 1, 2)}


@recipe("torchvision::ps_roi_pool", oracle=oracle("ps_roi_pool"))
def ps_roi_pool(d: Any) -> Args:
    return pooling(d, True)


@recipe("torchvision::deform_conv2d", oracle=oracle("deform_conv2d"))
def deform_conv2d(d: Any) -> Args:
    groups, offset_groups = d.pick((1, 1), (2, 1), (1, 2), (2, 3), (6, 2))
    channels, kernel, stride = 6 * d.pick(1, 3), d.ints(2, 1, 3), d.ints(2, 1, 2)
    padding, dilation = d.ints(2, 0, 2), d.ints(2, 1, 2)
    x = d.plain(d.int(0, 3), channels, d.int(5, 8), d.int(5, 8))
    out = [(s + 2 * p - t * (k - 1) - 1) // u + 1
           for s, p, t, k, u in zip(x.shape[2:], padding, dilation, kernel, stride, strict=True)]  # fmt: skip
    taps, use_mask = kernel[0] * kernel[1], d.flag()
    outer = groups * d.int(1, 3)
    return {
        "input": x, "weight": d.plain(outer, channels // groups, *kernel),
        "offset": d.plain(len(x), 2 * offset_groups * taps, *out, low=-2, high=2),
        "mask": d.plain(len(x), offset_groups * taps, *out) if use_mask else d.plain(len(x), 1), "bias": d.plain(outer),
        "stride_h": stride[0], "stride_w": stride[1], "pad_h": padding[0], "pad_w": padding[1],
        "dilation_h": dilation[0], "dilation_w": dilation[1], "groups": groups, "offset_groups": offset_groups,
        "use_mask": use_mask,
    }  # fmt: skip


for _name, _given in {"roi_align": {}, "roi_pool": {"argmax": 1}, "ps_roi_align": {"channel_mapping": 1},
                      "ps_roi_pool": {"channel_mapping": 1}}.items():  # fmt: skip
    gradient(
        f"torchvision::_{_name}_backward", f"torchvision::{_name}", sizes, oracle=oracle(f"_{_name}_backward"), **_given
    )
gradient("torchvision::_deform_conv2d_backward", "torchvision::deform_conv2d", oracle=oracle("_deform_conv2d_backward"))
