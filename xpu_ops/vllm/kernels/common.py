"""Helpers of the operators: results that fit their place, heads, blocks with a scale."""

from __future__ import annotations

import torch
from torch import Tensor

fused = torch.ops.xpu_ops


def require(holds: bool, text: str) -> None:
    """Raise RuntimeError where a call does not fit its operator."""
    if not holds:
        raise RuntimeError(text)


def put(out: Tensor, value: Tensor) -> None:
    """Copy a result into its place; the shapes must be equal."""
    require(out.shape == value.shape, f"expected an output of shape {tuple(value.shape)}, got {tuple(out.shape)}")
    out.copy_(value)


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both halves of the last dimension."""
    width = x.size(-1)
    require(width % 2 == 0, f"expected an even last dimension, got {width}")
    return x[..., : width // 2], x[..., width // 2 :]


def heads_of(x: Tensor, size: int) -> Tensor:
    """(..., heads, size) of (..., heads, size) or (..., heads * size), as a view."""
    return x if x.size(-1) == size and x.dim() > 2 else x.unflatten(-1, (-1, size))


# ---- rounding to few bits


def limit(dtype: torch.dtype) -> float:
    """The largest value of a type of 8 bits."""
    return 127.0 if dtype == torch.int8 else torch.finfo(dtype).max


def fp8_scale(parts: Tensor, least: float) -> Tensor:
    """The scale of each row of e4m3's values, that dimension kept, float32; of rows below `least` that of `least`."""
    most = torch.linalg.vector_norm(parts, float("inf"), -1, keepdim=True)
    return most.clamp_(min=least) / limit(torch.float8_e4m3fn)


def power_of_two(scale: Tensor) -> Tensor:
    """The least powers of two that are no less than the scales (float32, above zero)."""
    mantissa, exponent = torch.frexp(scale)
    power = torch.ldexp(torch.ones_like(scale), exponent - (mantissa == 0.5).to(exponent.dtype))
    return torch.where(torch.isfinite(scale), power, scale)


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Values that have been divided by their scale, rounded to a type of 8 bits and held in its range."""
    if dtype == torch.int8:
        return x.round().clamp_(-128, 127).to(torch.int8)
    top = torch.finfo(dtype).max
    return x.clamp(-top, top).to(dtype)


def dynamic_scale(x: Tensor, dtype: torch.dtype, bound: Tensor | None = None) -> Tensor:
    """The scale of each row of the last dimension, that dimension kept, float32; never zero."""
    top = torch.linalg.vector_norm(x, float("inf"), -1, keepdim=True, dtype=torch.float32)
    if dtype == torch.int8:
        return torch.where(top == 0, 1.0, top / 127.0)
    if bound is not None:
        top = torch.minimum(top, bound.float())
    return (top / limit(dtype)).clamp_(min=1.0 / (limit(dtype) * 512.0))


# Between the values of e2m1. To the even code of a tie: the borders below codes 1, 3, 5, 7 belong to the code below them.
_BORDERS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def to_e2m1(x: Tensor, *, even: bool = True) -> Tensor:
    """Values, two per byte of uint8, the even one low, as floats of 4 bits (e2m1), nearest, held in their range.

    Args:
        even: a tie goes to the even code, and a zero keeps its sign; else it goes to zero, and zeros have no sign.
    """
    size = x.abs()
    code = torch.zeros(x.shape, dtype=torch.uint8, device=x.device)
    for i, border in enumerate(_BORDERS):
        code += size >= border if even and i % 2 else size > border
    code |= (torch.signbit(x) if even else x < 0).to(torch.uint8) << 3
    return code[..., ::2] | (code[..., 1::2] << 4)


def from_e2m1(packed: Tensor) -> Tensor:
    """The float32 values of bytes that hold two floats of 4 bits each."""
    table = torch.tensor([*E2M1, *(-v for v in E2M1)], device=packed.device)
    bytes_ = packed.view(torch.uint8)
    codes = torch.stack((bytes_ & 15, bytes_ >> 4), -1).flatten(-2)
    return table[codes.to(torch.int64)]


def e8m0(scale: Tensor) -> Tensor:
    """Scales whose bytes are exponents, as float32; others as they are, in float32."""
    return scale.view(torch.float8_e8m0fnu).float() if scale.dtype == torch.uint8 else scale.float()


def mx_scale(x: Tensor, top: float) -> Tensor:
    """The scale, a power of two, that brings each row's largest value to at most `top`; 1 where a row is zero."""
    most = torch.linalg.vector_norm(x, float("inf"), -1, keepdim=True, dtype=torch.float32)
    least = 2.0**-126
    scale = power_of_two((most / top).clamp(min=least))
    return torch.where(most == 0, 1.0, scale)


def blocks(x: Tensor, group: int) -> Tensor:
    """(..., groups, group) of (..., columns)."""
    require(group > 0 and x.size(-1) % group == 0, f"groups of {group} do not divide {x.size(-1)} columns")
    return x.unflatten(-1, (-1, group))


def round_blocks(
    out: Tensor,
    x: Tensor,
    scales: Tensor,
    group: int,
    *,
    bound: Tensor | None = None,
    exponents: bool = False,
    least: float | None = None,
) -> None:
    """Round float32 values to 8 bits with a scale per group of columns.

    Args:
        bound: no scale stands for a larger value.
        exponents: scales are powers of two.
        least: of the largest value of a group, or of a scale where None.
    """
    parts = blocks(x, group)
    most = torch.linalg.vector_norm(parts, float("inf"), -1, keepdim=True, dtype=torch.float32)
    if bound is not None:
        most = torch.minimum(most, bound.float())
    top = limit(out.dtype)
    if least is not None:
        scale = most.clamp(min=least) / top
    elif out.dtype == torch.int8:
        scale = torch.where(most == 0, 1.0, most / top)
    else:
        scale = (most / top).clamp_(min=1.0 / (top * 512.0))
    if exponents:
        scale = power_of_two(scale.clamp_(min=1e-10))
    put(out, cast(parts / scale, out.dtype).flatten(-2))
    put(scales.view(scale.shape[:-1]) if scales.dim() != scale.dim() - 1 else scales, scale.squeeze(-1))


def round_rows(out: Tensor, x: Tensor, scale: Tensor, bound: Tensor | None) -> None:
    """Round values to 8 bits with a scale per row of the last dimension; no scale stands for a value above `bound`."""
    factor = dynamic_scale(x, out.dtype, bound)
    put(out, cast(x.float() / factor, out.dtype))
    require(scale.numel() == factor.numel(), f"expected {factor.numel()} scales, got {scale.numel()}")
    scale.view(factor.shape).copy_(factor)


def round_by(out: Tensor, x: Tensor, scale: Tensor) -> None:
    """Round values to 8 bits with the scales that are given."""
    put(out, cast(x.float() * scale.float().reciprocal(), out.dtype))


def round_e2m1(out: Tensor, x: Tensor, scales: Tensor, group: int) -> None:
    """Round float32 values to floats of 4 bits, two per byte, with a power of two per group of columns."""
    parts = blocks(x, group)
    scale = mx_scale(parts, 6.0)
    put(out, to_e2m1((parts / scale).flatten(-2)))
    put(scales, scale.squeeze(-1))
