"""torchvision's operators in plain torch: references for the kernels, and CPU kernels where its binary does not load.

Each is written from the definition of its operator, region by region, in float64 or the type given, and differentiable; the
gradients are autograd's. `register_on_cpu` puts them under torch.ops.torchvision for models that run on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from xpu_ops.upstream import torchvision as _torchvision

LOWEST = -3.4028234663852886e38  # of float32, also for other types: what torchvision's maxima begin with


def compute_type(x: Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Greedy suppression: a box goes that overlaps one of a higher score, which stays, by more than the threshold."""
    boxes = dets.to(compute_type(dets))
    left = scores.sort(descending=True, stable=True).indices
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[Tensor] = []
    while left.numel():
        first, left = left[0], left[1:]
        kept.append(first)
        low, high = boxes[left, :2].maximum(boxes[first, :2]), boxes[left, 2:].minimum(boxes[first, 2:])
        w, h = torch.where((high - low).isnan(), 0, high - low).clamp(min=0).unbind(1)
        inter = w * h
        left = left[~((inter / (area[first] + area[left] - inter)).double() > iou_threshold)]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


def taps(at: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of places on one axis: whether they count, the two pixels around them, the weight of the second."""
    inside = (at >= -1) & (at <= size)
    at = torch.where(inside, at, 0).clamp(min=0)
    low = at.long().clamp(max=size - 1)
    high = (low + 1).clamp(max=size - 1)
    return inside, low, high, torch.where(low == high, 0, at - low)


def interpolate(image: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Values [C, *y.shape, *x.shape] at the places (y, x) of an image [C, H, W]."""
    (in_y, y0, y1, wy), (in_x, x0, x1, wx) = taps(y, image.shape[1]), taps(x, image.shape[2])
    shape = (*y.shape, *x.shape)

    def pixels(rows: Tensor, columns: Tensor) -> Tensor:
        return image[:, rows.reshape(-1, 1), columns.reshape(1, -1)].reshape(len(image), *shape)

    def product(rows: Tensor, columns: Tensor) -> Tensor:
        return torch.outer(rows.reshape(-1), columns.reshape(-1)).reshape(shape)

    value = (
        pixels(y0, x0) * product(1 - wy, 1 - wx) + pixels(y0, x1) * product(1 - wy, wx)
        + pixels(y1, x0) * product(wy, 1 - wx) + pixels(y1, x1) * product(wy, wx)
    )  # fmt: skip
    return torch.where(product(in_y.double(), in_x.double()).bool(), value, 0)


def samples(low: Tensor, high: Tensor, bins: int, ratio: int, grow: bool) -> tuple[Tensor, int]:
    """Places [bins, samples] of the samples of one axis of a region."""
    size = (high - low).clamp(min=1) if grow else high - low
    step = size / bins
    count = ratio if ratio > 0 else int(step.ceil()) if step.isfinite() else 0
    at = low + torch.arange(bins)[:, None] * step + (torch.arange(max(count, 0)) + 0.5) * step / count if count else low
    return (at if count else at.new_zeros(bins, 0)).to(low.dtype), count


def image_of(input: Tensor, roi: Tensor) -> Tensor:
    number = int(roi[0])
    if not 0 <= number < input.shape[0]:
        raise IndexError(f"index {number} is out of bounds for dimension 0 with size {input.shape[0]}")
    return input[number]


def roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int,
    aligned: bool,
) -> Tensor:  # fmt: skip
    wide, out = input.to(compute_type(input)), []
    for roi in rois.to(wide.dtype):
        x1, y1, x2, y2 = roi[1:] * spatial_scale - (0.5 if aligned else 0)
        y, rows = samples(y1, y2, pooled_height, sampling_ratio, not aligned)
        x, columns = samples(x1, x2, pooled_width, sampling_ratio, not aligned)
        out.append(interpolate(image_of(wide, roi), y, x).sum((2, 4)) / max(rows * columns, 1))
    empty = wide.new_zeros(0, input.shape[1], pooled_height, pooled_width)
    return (torch.stack(out) if out else empty + wide.sum() * 0).to(input.dtype)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    wide, out = input.to(compute_type(input)), []
    for roi in rois.to(wide.dtype):
        x1, y1, x2, y2 = roi[1:] * spatial_scale - 0.5
        y, rows = samples(y1, y2, pooled_height, sampling_ratio, False)
        x, columns = samples(x1, x2, pooled_width, sampling_ratio, False)
        sums = interpolate(image_of(wide, roi), y, x).sum((2, 4))
        out.append(own_bins(sums) / torch.tensor(rows * columns, dtype=wide.dtype))
    return finish_ps(input, out, pooled_height, pooled_width)


def own_bins(every: Tensor) -> Tensor:
    """Of every bin of every channel [C, rows, columns] that which the channel stands for."""
    channels, rows, columns = every.shape
    parts = every.reshape(channels // (rows * columns), rows * columns, rows * columns)
    return parts.diagonal(dim1=1, dim2=2).reshape(-1, rows, columns)


def finish_ps(input: Tensor, out: list[Tensor], rows: int, columns: int) -> tuple[Tensor, Tensor]:
    channels = input.shape[1] // (rows * columns)
    empty = input.new_zeros(0, channels, rows, columns) + input.sum() * 0
    mapping = torch.arange(input.shape[1], dtype=torch.int32).reshape(1, channels, rows, columns)
    return (torch.stack(out) if out else empty).to(input.dtype), mapping.repeat(len(out), 1, 1, 1)


def bounds(low: int, high: int, bins: int, dtype: torch.dtype) -> list[tuple[int, int]]:
    """First and last pixel of every bin of an axis, the last excluded, before they are clipped."""
    step = torch.tensor(max(high - low, 1), dtype=dtype) / bins
    return [(int((b * step).floor()) + low, int(((b + 1) * step).ceil()) + low) for b in range(bins)]


def pixels(roi: Tensor, scale: float) -> list[int]:
    """Corners in whole pixels; halves are rounded away from zero."""
    scaled = roi[1:] * torch.tensor(scale, dtype=roi.dtype)
    return [int(math.copysign(math.floor(abs(v) + 0.5), v)) for v in scaled.tolist()]


def clip(span: tuple[int, int], most: int) -> slice:
    return slice(*(min(max(v, 0), most) for v in span))


def largest(image: Tensor, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
    """Of every channel the largest value that is a number, and its pixel; 0 and -1 of an empty region."""
    region = image[:, rows, columns].reshape(len(image), -1)
    nowhere = torch.full((len(image),), -1, dtype=torch.int32)
    if not region.shape[1]:
        return region.sum(1), nowhere
    usable = region > LOWEST  # neither NaN nor the value that a maximum begins with
    value, place = torch.where(usable, region, -math.inf).max(1)
    y, x = place // (columns.stop - columns.start) + rows.start, place % (columns.stop - columns.start) + columns.start
    found = usable.any(1)
    return torch.where(found, value, LOWEST), torch.where(found, y * image.shape[2] + x, -1).int()


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    wide = input.to(compute_type(input))
    shape = (len(rois), pooled_height, pooled_width, input.shape[1])
    values, places = [], []
    for roi in rois.to(wide.dtype):
        x1, y1, x2, y2 = pixels(roi, spatial_scale)
        for rows in bounds(y1, y2 + 1, pooled_height, wide.dtype):
            for columns in bounds(x1, x2 + 1, pooled_width, wide.dtype):
                image = image_of(wide, roi)
                value, place = largest(image, clip(rows, input.shape[2]), clip(columns, input.shape[3]))
                values.append(value)
                places.append(place)
    if not values:
        return input.new_zeros(shape).permute(0, 3, 1, 2) + input.sum() * 0, torch.zeros(shape).permute(
            0, 3, 1, 2
        ).int()
    out, index = (torch.stack(v).reshape(shape).permute(0, 3, 1, 2).contiguous() for v in (values, places))
    return out.to(input.dtype), index


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, edge: int = 1
) -> tuple[Tensor, Tensor]:
    """`edge`: lines and columns at the end that are left out; torchvision's gradient leaves none out."""
    wide, out = input.to(compute_type(input)), []
    height, width = input.shape[2] - edge, input.shape[3] - edge
    for roi in rois.to(wide.dtype):
        x1, y1, x2, y2 = pixels(roi, spatial_scale)
        image = image_of(wide, roi)
        means = [
            image[:, clip(rows, height), clip(columns, width)].reshape(len(image), -1)
            for rows in bounds(y1, y2, pooled_height, wide.dtype)
            for columns in bounds(x1, x2, pooled_width, wide.dtype)
        ]
        every = torch.stack([m.mean(1) if m.shape[1] else m.sum(1) for m in means], 1)
        out.append(own_bins(every.reshape(-1, pooled_height, pooled_width)))
    return finish_ps(input, out, pooled_height, pooled_width)


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dilation_h: int, dilation_w: int, groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    n, channels = input.shape[:2]
    kernel_h, kernel_w = weight.shape[2:]
    out_h, out_w = offset.shape[2:]
    wide = input.to(compute_type(input))
    offsets = offset.to(wide.dtype).reshape(n, offset_groups, kernel_h, kernel_w, 2, out_h, out_w)
    y0 = (torch.arange(out_h) * stride_h - pad_h)[None, :, None] + (torch.arange(kernel_h) * dilation_h)[:, None, None]
    x0 = (torch.arange(out_w) * stride_w - pad_w)[None, :] + (torch.arange(kernel_w) * dilation_w)[:, None]
    y = y0[:, None].reshape(kernel_h, 1, out_h, 1) + offsets[..., 0, :, :]
    x = x0.reshape(1, kernel_w, 1, out_w) + offsets[..., 1, :, :]
    # At -1 the value is 0 and has a gradient: get_coordinate_weight of torchvision leaves nothing out there.
    inside = (y >= -1) & (y < input.shape[2]) & (x >= -1) & (x < input.shape[3])
    y, x = torch.where(inside, y, 0), torch.where(inside, x, 0)
    padded = pad(wide, (1, 1, 1, 1)).flatten(2).unflatten(1, (offset_groups, channels // offset_groups))
    stride = input.shape[3] + 2

    def pixel(down: int, right: int) -> Tensor:
        at = (y.floor().long() + 1 + down) * stride + x.floor().long() + 1 + right
        every = at.flatten(2)[:, :, None].expand(-1, -1, padded.shape[2], -1)
        return padded.gather(3, every).reshape(n, offset_groups, padded.shape[2], *at.shape[2:])

    wy, wx = (y - y.floor())[:, :, None], (x - x.floor())[:, :, None]
    value = (pixel(0, 0) * (1 - wx) + pixel(0, 1) * wx) * (1 - wy) + (pixel(1, 0) * (1 - wx) + pixel(1, 1) * wx) * wy
    value = torch.where(inside[:, :, None], value, 0)
    if use_mask:
        value = value * mask.to(wide.dtype).reshape(n, offset_groups, 1, kernel_h, kernel_w, out_h, out_w)
    columns = value.reshape(n, groups, channels // groups, kernel_h, kernel_w, out_h, out_w)
    weights = weight.to(wide.dtype).unflatten(0, (groups, weight.shape[0] // groups))
    out = torch.einsum("ngcijyx,gocij->ngoyx", columns, weights).flatten(1, 2)
    return (out + bias.to(wide.dtype)[:, None, None]).to(input.dtype)


# ---- gradients, by autograd
def gradients(function: Callable[..., Tensor], given: list[Tensor], grad: Tensor) -> tuple[Tensor, ...]:
    leaves = [t.detach().to(compute_type(t)).requires_grad_() for t in given]

    def record() -> tuple[Tensor | None, ...]:
        out = function(*leaves)
        return torch.autograd.grad(out, leaves, grad.to(out.dtype), allow_unused=True)

    # A kernel runs below autograd, where nothing is recorded; a thread begins above.
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(record).result()
    return tuple(torch.zeros_like(t) if g is None else g.to(t.dtype) for t, g in zip(given, made, strict=True))


def input_gradient(function: Callable[[Tensor], Tensor], grad: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return gradients(function, [torch.zeros(sizes, dtype=grad.dtype)], grad)[0]


def roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, batch_size: int,
    channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    call = (spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return input_gradient(lambda x: roi_align(x, rois.to(x.dtype), *call), grad, (batch_size, channels, height, width))


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    out = torch.zeros(batch_size, channels, height * width, dtype=compute_type(grad))
    for roi, values, places in zip(rois.tolist(), grad, argmax.long(), strict=True):
        there = torch.where(places.flatten(1) >= 0, values.flatten(1), 0).to(out.dtype)
        out[int(roi[0])].scatter_add_(1, places.flatten(1).clamp(min=0), there)
    return out.reshape(batch_size, channels, height, width).to(grad.dtype)


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    call = (spatial_scale, pooled_height, pooled_width, sampling_ratio)
    return input_gradient(
        lambda x: ps_roi_align(x, rois.to(x.dtype), *call)[0], grad, (batch_size, channels, height, width)
    )


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    call = (spatial_scale, pooled_height, pooled_width, 0)
    return input_gradient(
        lambda x: ps_roi_pool(x, rois.to(x.dtype), *call)[0], grad, (batch_size, channels, height, width)
    )


def deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *rest: Any, **named: Any
) -> tuple[Tensor, ...]:
    return gradients(lambda *given: deform_conv2d(*given, *rest, **named), [input, weight, offset, mask, bias], grad)


REFERENCES: dict[str, Callable[..., Any]] = {
    "nms": nms,
    "roi_align": roi_align,
    "_roi_align_backward": roi_align_backward,
    "roi_pool": roi_pool,
    "_roi_pool_backward": roi_pool_backward,
    "ps_roi_align": ps_roi_align,
    "_ps_roi_align_backward": ps_roi_align_backward,
    "ps_roi_pool": ps_roi_pool,
    "_ps_roi_pool_backward": ps_roi_pool_backward,
    "deform_conv2d": deform_conv2d,
    "_deform_conv2d_backward": deform_conv2d_backward,
}

_library: torch.library.Library | None = None


def register_on_cpu() -> None:
    """Give torch.ops.torchvision the references as CPU kernels, where its binary has brought none."""
    global _library
    _torchvision.make_known()
    if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        return
    _library = torch.library.Library("torchvision", "IMPL", "CPU")
    for name, function in REFERENCES.items():
        _library.impl(name, function)
