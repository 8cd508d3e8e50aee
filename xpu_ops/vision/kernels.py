"""torchvision's operators as Triton kernels. Nothing here knows a device: the same source runs on any backend of Triton.

Definitions follow torchvision's CPU kernels. Values are computed in `T`: float64 for float64, else float32.
"""

# mypy: disable-error-code="no-untyped-def, type-arg"
from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def _round(x):
    """Half away from zero, as C's round."""
    return tl.where(x < 0, tl.ceil(x - 0.5), tl.floor(x + 0.5)).to(tl.int32)


@triton.jit
def _part(extent, parts, T: tl.constexpr):
    """extent / parts, rounded to nearest: a GPU's own float32 division may move the edge of a bin to the next pixel."""
    return extent.to(T) / parts if tl.float64 == T else tl.div_rn(extent.to(T), tl.full([], parts, T))


@triton.jit
def _bilinear(image, H, W, y, x, mask, T: tl.constexpr):
    """A sample of an image whose border is repeated for one pixel."""
    inside = mask & (y >= -1.0) & (y <= H) & (x >= -1.0) & (x <= W)
    y = tl.where(inside, tl.maximum(y, 0.0), 0.0)
    x = tl.where(inside, tl.maximum(x, 0.0), 0.0)
    y0 = tl.minimum(y.to(tl.int32), H - 1)
    x0 = tl.minimum(x.to(tl.int32), W - 1)
    y1 = tl.minimum(y0 + 1, H - 1)
    x1 = tl.minimum(x0 + 1, W - 1)
    ly = tl.where(y0 >= H - 1, 0.0, y - y0)
    lx = tl.where(x0 >= W - 1, 0.0, x - x0)
    v00 = tl.load(image + y0 * W + x0, mask=inside, other=0.0).to(T)
    v01 = tl.load(image + y0 * W + x1, mask=inside, other=0.0).to(T)
    v10 = tl.load(image + y1 * W + x0, mask=inside, other=0.0).to(T)
    v11 = tl.load(image + y1 * W + x1, mask=inside, other=0.0).to(T)
    return (1 - ly) * ((1 - lx) * v00 + lx * v01) + ly * ((1 - lx) * v10 + lx * v11)


@triton.jit
def _place(C_OUT, PH: tl.constexpr, PW: tl.constexpr, BY_POSITION: tl.constexpr, BLOCK: tl.constexpr):
    """Region, place in `out`, mask, row and column of the bin, and channel of a program's results. BY_POSITION: every bin has
    its own channel."""
    k = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = C_OUT * PH * PW
    pw = at % PW
    ph = at // PW % PH
    c = at // (PW * PH)
    if BY_POSITION:
        c = (c * PH + ph) * PW + pw
    return k, k.to(tl.int64) * n + at, at < n, ph, pw, c


@triton.jit
def roi_align_kernel(
    image, rois, out, mapping, scale: tl.float64, C, H, W, C_OUT, PH: tl.constexpr, PW: tl.constexpr, RATIO: tl.constexpr,
    ALIGNED: tl.constexpr, BY_POSITION: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program has one region and a block of its results. BY_POSITION is ps_roi_align."""
    k, to, mask, ph, pw, c = _place(C_OUT, PH, PW, BY_POSITION, BLOCK)
    if BY_POSITION:
        tl.store(mapping + to, c, mask=mask)
    roi = rois + k * 5
    scale = scale.to(T)
    batch = tl.load(roi).to(tl.int64)
    shift = 0.5 if ALIGNED or BY_POSITION else 0.0
    left = tl.load(roi + 1).to(T) * scale - shift
    top = tl.load(roi + 2).to(T) * scale - shift
    width = tl.load(roi + 3).to(T) * scale - shift - left
    height = tl.load(roi + 4).to(T) * scale - shift - top
    if not (ALIGNED or BY_POSITION):
        width = tl.maximum(width, 1.0)
        height = tl.maximum(height, 1.0)
    bin_h = _part(height, PH, T)
    bin_w = _part(width, PW, T)
    if RATIO > 0:
        rows = RATIO
        columns = RATIO
    else:
        rows = tl.ceil(bin_h).to(tl.int32)
        columns = tl.ceil(bin_w).to(tl.int32)
    base = image + (batch * C + c) * H * W
    total = tl.zeros([BLOCK], T)
    for iy in range(rows):
        y = top + ph * bin_h + (iy + 0.5) * bin_h / rows
        for ix in range(columns):
            x = left + pw * bin_w + (ix + 0.5) * bin_w / columns
            total += _bilinear(base, H, W, y, x, mask, T)
    count = rows * columns
    if not BY_POSITION:
        count = tl.maximum(count, 1)
    tl.store(out + to, total / count, mask=mask)


@triton.jit
def roi_pool_kernel(
    image, rois, out, which, scale: tl.float64, C, H, W, C_OUT, PH: tl.constexpr, PW: tl.constexpr, BY_POSITION: tl.constexpr,
    T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """roi_pool, the largest value of a bin and where it is; BY_POSITION is ps_roi_pool, the mean of a bin of its channel."""
    k, to, mask, ph, pw, c = _place(C_OUT, PH, PW, BY_POSITION, BLOCK)
    roi = rois + k * 5
    scale = scale.to(T)
    batch = tl.load(roi).to(tl.int64)
    left = _round(tl.load(roi + 1).to(T) * scale)
    top = _round(tl.load(roi + 2).to(T) * scale)
    one: tl.constexpr = 0 if BY_POSITION else 1
    width = tl.maximum(_round(tl.load(roi + 3).to(T) * scale) - left + one, 1)
    height = tl.maximum(_round(tl.load(roi + 4).to(T) * scale) - top + one, 1)
    bin_h = _part(height, PH, T)
    bin_w = _part(width, PW, T)
    last: tl.constexpr = 1 if BY_POSITION else 0
    y0 = tl.minimum(tl.maximum(tl.floor(ph.to(T) * bin_h).to(tl.int32) + top, 0), H - last)
    y1 = tl.minimum(tl.maximum(tl.ceil((ph + 1).to(T) * bin_h).to(tl.int32) + top, 0), H - last)
    x0 = tl.minimum(tl.maximum(tl.floor(pw.to(T) * bin_w).to(tl.int32) + left, 0), W - last)
    x1 = tl.minimum(tl.maximum(tl.ceil((pw + 1).to(T) * bin_w).to(tl.int32) + left, 0), W - last)
    empty = (y1 <= y0) | (x1 <= x0)
    base = image + (batch * C + c) * H * W
    best = tl.full([BLOCK], -float("inf"), T)
    place = tl.full([BLOCK], -1, tl.int32)
    total = tl.zeros([BLOCK], T)
    for dy in range(tl.max(tl.where(mask, y1 - y0, 0), 0)):
        for dx in range(tl.max(tl.where(mask, x1 - x0, 0), 0)):
            y = y0 + dy
            x = x0 + dx
            inside = mask & (y < y1) & (x < x1)
            v = tl.load(base + y * W + x, mask=inside, other=0.0).to(T)
            larger = inside & (v > best)
            best = tl.where(larger, v, best)
            place = tl.where(larger, y * W + x, place)
            total += tl.where(inside, v, 0.0)
    if BY_POSITION:
        area = tl.where(empty, 1, (y1 - y0) * (x1 - x0))
        tl.store(out + to, tl.where(empty, 0.0, total / area), mask=mask)
        tl.store(which + to, c, mask=mask)
    else:
        tl.store(out + to, tl.where(place < 0, 0.0, best), mask=mask)
        tl.store(which + to, place, mask=mask)


@triton.jit
def overlap_kernel(boxes, over, n, threshold, T: tl.constexpr, BLOCK: tl.constexpr):
    """over[i, j]: box j > i overlaps box i by more than the threshold."""
    i = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = j < n
    ax0 = tl.load(boxes + i * 4).to(T)
    ay0 = tl.load(boxes + i * 4 + 1).to(T)
    ax1 = tl.load(boxes + i * 4 + 2).to(T)
    ay1 = tl.load(boxes + i * 4 + 3).to(T)
    bx0 = tl.load(boxes + j * 4, mask=mask, other=0.0).to(T)
    by0 = tl.load(boxes + j * 4 + 1, mask=mask, other=0.0).to(T)
    bx1 = tl.load(boxes + j * 4 + 2, mask=mask, other=0.0).to(T)
    by1 = tl.load(boxes + j * 4 + 3, mask=mask, other=0.0).to(T)
    w = tl.maximum(tl.minimum(ax1, bx1) - tl.maximum(ax0, bx0), 0.0)
    h = tl.maximum(tl.minimum(ay1, by1) - tl.maximum(ay0, by0), 0.0)
    common = w * h
    union = (ax1 - ax0) * (ay1 - ay0) + (bx1 - bx0) * (by1 - by0) - common
    tl.store(over + i.to(tl.int64) * n + j, ((common / union > threshold) & (j > i)).to(tl.int8), mask=mask)


@triton.jit
def suppress_kernel(over, removed, n, BLOCK: tl.constexpr):
    """One program walks over the boxes, best first; a box that stays removes what overlaps it."""
    for i in range(n):
        gone = tl.load(removed + i)
        if gone == 0:
            for start in range(0, n, BLOCK):
                j = start + tl.arange(0, BLOCK)
                mask = j < n
                row = tl.load(over + tl.cast(i, tl.int64) * n + j, mask=mask, other=0)
                old = tl.load(removed + j, mask=mask, other=0)
                tl.store(removed + j, row | old, mask=mask)
        tl.debug_barrier()


@triton.jit
def columns_kernel(
    image, offset, weights, columns, n, C, H, W, OH, OW, KH: tl.constexpr, KW: tl.constexpr, stride_h, stride_w, pad_h,
    pad_w, dilation_h, dilation_w, OFFSET_GROUPS, USE_MASK: tl.constexpr, T: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """deform_conv2d: the samples under the kernel, columns[batch, channel * KH * KW, OH * OW]."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    ow = at % OW
    oh = at // OW % OH
    kw = at // (OW * OH) % KW
    kh = at // (OW * OH * KW) % KH
    c = at // (OW * OH * KW * KH) % C
    b = at // (OW * OH * KW * KH * C)
    group = c // (C // OFFSET_GROUPS)
    tap = ((b * OFFSET_GROUPS + group) * KH * KW + kh * KW + kw).to(tl.int64)
    here = oh * OW + ow
    dy = tl.load(offset + tap * 2 * OH * OW + here, mask=mask, other=0.0).to(T)
    dx = tl.load(offset + (tap * 2 + 1) * OH * OW + here, mask=mask, other=0.0).to(T)
    y = oh * stride_h - pad_h + kh * dilation_h + dy
    x = ow * stride_w - pad_w + kw * dilation_w + dx
    inside = mask & (y > -1.0) & (y < H) & (x > -1.0) & (x < W)
    y0 = tl.floor(tl.where(inside, y, 0.0)).to(tl.int32)
    x0 = tl.floor(tl.where(inside, x, 0.0)).to(tl.int32)
    ly = tl.where(inside, y, 0.0) - y0
    lx = tl.where(inside, x, 0.0) - x0
    base = image + (b * C + c).to(tl.int64) * H * W + y0 * W + x0
    top = inside & (y0 >= 0)
    low = inside & (y0 + 1 <= H - 1)
    v00 = tl.load(base, mask=top & (x0 >= 0), other=0.0).to(T)
    v01 = tl.load(base + 1, mask=top & (x0 + 1 <= W - 1), other=0.0).to(T)
    v10 = tl.load(base + W, mask=low & (x0 >= 0), other=0.0).to(T)
    v11 = tl.load(base + W + 1, mask=low & (x0 + 1 <= W - 1), other=0.0).to(T)
    v = (1 - ly) * ((1 - lx) * v00 + lx * v01) + ly * ((1 - lx) * v10 + lx * v11)
    if USE_MASK:
        v *= tl.load(weights + tap * OH * OW + here, mask=mask, other=0.0).to(T)
    tl.store(columns + at, v, mask=mask)


# ---- the operators


def _compute(t: torch.Tensor) -> tl.dtype:
    return tl.float64 if t.dtype == torch.float64 else tl.float32


def _checked(input: torch.Tensor, rois: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if rois.dim() != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"rois must have shape as Tensor[K, 5], got {list(rois.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"Expected tensor for argument #1 'input' to have the same type as 'rois', got {input.dtype} and {rois.dtype}"
        )
    return input.contiguous(), rois.contiguous()


def _align(input, rois, scale, ph, pw, ratio, aligned, by_position):
    input, rois = _checked(input, rois)
    _, C, H, W = input.shape
    channels = C // (ph * pw) if by_position else C
    out = input.new_empty(rois.shape[0], channels, ph, pw)
    mapping = torch.empty(out.shape if by_position else 0, dtype=torch.int32, device=out.device)
    if out.numel():
        grid = (rois.shape[0], triton.cdiv(channels * ph * pw, BLOCK))
        roi_align_kernel[grid](
            input, rois, out, mapping, scale, C, H, W, channels, PH=ph, PW=pw, RATIO=max(ratio, 0), ALIGNED=aligned,
            BY_POSITION=by_position, T=_compute(input), BLOCK=BLOCK,
        )  # fmt: skip
    return out, mapping


def _pool(input, rois, scale, ph, pw, by_position):
    input, rois = _checked(input, rois)
    _, C, H, W = input.shape
    channels = C // (ph * pw) if by_position else C
    out = input.new_empty(rois.shape[0], channels, ph, pw)
    which = torch.empty(out.shape, dtype=torch.int32, device=out.device)
    if out.numel():
        grid = (rois.shape[0], triton.cdiv(channels * ph * pw, BLOCK))
        roi_pool_kernel[grid](
            input, rois, out, which, scale, C, H, W, channels, PH=ph, PW=pw, BY_POSITION=by_position,
            T=_compute(input), BLOCK=BLOCK,
        )  # fmt: skip
    return out, which


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """As torchvision::roi_align."""
    return _align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned, False)[0]


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    """As torchvision::ps_roi_align: the result and the channel of each element."""
    if input.shape[1] % (pooled_height * pooled_width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return _align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, False, True)


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """As torchvision::roi_pool: the result and the place of each maximum."""
    return _pool(input, rois, spatial_scale, pooled_height, pooled_width, False)


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    """As torchvision::ps_roi_pool: the result and the channel of each element."""
    if input.shape[1] % (pooled_height * pooled_width):
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")
    return _pool(input, rois, spatial_scale, pooled_height, pooled_width, True)


def nms(dets, scores, iou_threshold):
    """As torchvision::nms: the boxes that stay, best first."""
    n = dets.shape[0]
    order = torch.argsort(scores, descending=True, stable=True)
    boxes = dets[order].contiguous()
    removed = torch.zeros(n, dtype=torch.int8, device=dets.device)
    if n:
        over = torch.empty(n, n, dtype=torch.int8, device=dets.device)
        overlap_kernel[(n, triton.cdiv(n, 1024))](boxes, over, n, iou_threshold, T=_compute(boxes), BLOCK=1024)
        suppress_kernel[(1,)](over, removed, n, BLOCK=1024)
    return order[removed == 0]


def deform_conv2d(
    input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups,
    use_mask,
):  # fmt: skip
    """As torchvision::deform_conv2d: the samples in Triton, their product with the weight in torch."""
    B, C, H, W = input.shape
    filters, _, KH, KW = weight.shape
    OH, OW = offset.shape[2:]
    columns = input.new_empty(B, groups, C // groups * KH * KW, OH * OW)
    n = columns.numel()
    if n:
        columns_kernel[(triton.cdiv(n, BLOCK),)](
            input.contiguous(), offset.contiguous(), mask.contiguous(), columns, n, C, H, W, OH, OW, KH=KH, KW=KW,
            stride_h=stride_h, stride_w=stride_w, pad_h=pad_h, pad_w=pad_w, dilation_h=dilation_h,
            dilation_w=dilation_w, OFFSET_GROUPS=offset_groups, USE_MASK=use_mask, T=_compute(input), BLOCK=BLOCK,
        )  # fmt: skip
    out = torch.matmul(weight.reshape(groups, filters // groups, -1), columns)
    return out.reshape(B, filters, OH, OW) + bias.reshape(1, -1, 1, 1)


OPERATORS = {f.__name__: f for f in (nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d)}
