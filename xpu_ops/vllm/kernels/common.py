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


def _rounded(out: Tensor, scales: Tensor, x: Tensor, group: int, bound: Tensor | None = None, **rules: object) -> None:
    """One kernel: `x` (..., columns) in 8 bits, with a scale for each `group` columns."""
    require(out.shape == x.shape, f"expected an output of shape {tuple(x.shape)}, got {tuple(out.shape)}")
    width = x.size(-1)
    count = width // group
    if x.dim() == 2 and scales.dim() == 2:
        fused._round_rows(out, scales, x, group, bound, **rules)
        return
    require(scales.numel() == x.numel() // group, f"expected {x.numel() // group} scales, got {tuple(scales.shape)}")
    rows = x.numel() // width if width else 0
    dense, flat = out.is_contiguous(), scales.is_contiguous()
    values = out if dense else torch.empty_like(x, dtype=out.dtype, memory_format=torch.contiguous_format)
    factors = scales if flat else torch.empty(scales.shape, dtype=scales.dtype, device=scales.device)
    fused._round_rows(
        values.view(rows, width), factors.view(rows, count), x.reshape(rows, width), group, bound, **rules
    )
    if not dense:
        out.copy_(values)
    if not flat:
        scales.copy_(factors)


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
    """Round values to 8 bits with a scale per group of columns.

    Args:
        bound: no scale stands for a larger value.
        exponents: scales are powers of two.
        least: of the largest value of a group, or of a scale where None.
    """
    require(group > 0 and x.size(-1) % group == 0, f"groups of {group} do not divide {x.size(-1)} columns")
    whole = out.dtype == torch.int8
    _rounded(
        out, scales, x, group, bound, exponents=exponents, one=whole and least is None, least_value=least or 0.0,
        least_scale=0.0 if whole or least is not None else 1.0 / (limit(out.dtype) * 512.0),
    )  # fmt: skip


def round_rows(out: Tensor, x: Tensor, scale: Tensor, bound: Tensor | None) -> None:
    """Round values to 8 bits with a scale per row of the last dimension; no scale stands for a value above `bound`."""
    width = x.size(-1)
    require(width == 0 or scale.numel() * width == x.numel(), f"expected a scale for each row, got {scale.numel()}")
    if x.numel() == 0:
        return
    if out.dtype == torch.int8:
        _rounded(out, scale.view(-1, 1) if x.dim() == 2 else scale, x, width, one=True)
    else:
        least = 1.0 / (limit(out.dtype) * 512.0)
        _rounded(out, scale.view(-1, 1) if x.dim() == 2 else scale, x, width, bound, least_scale=least)


def round_by(out: Tensor, x: Tensor, scale: Tensor, *, safe: bool = False) -> None:
    """Round values to 8 bits with the scales that are given: one, or (parts of the rows, parts of the columns).

    Args:
        safe: a scale that is not above zero counts as 1.
    """
    require(out.shape == x.shape, f"expected an output of shape {tuple(x.shape)}, got {tuple(out.shape)}")
    if x.dim() == 2 and (scale.dim() == 2 or scale.numel() == 1):
        fused._round_by(out, x, scale.view(1, 1) if scale.numel() == 1 else scale, safe)
        return
    values = out if out.is_contiguous() else torch.empty_like(x, dtype=out.dtype, memory_format=torch.contiguous_format)
    width = x.size(-1) if x.dim() else 1
    rows = x.numel() // width if width else 0
    given = scale.view(1, 1) if scale.numel() == 1 else scale
    fused._round_by(values.view(rows, width), x.reshape(rows, width), given, safe)
    if values is not out:
        out.copy_(values)


def round_e2m1(out: Tensor, x: Tensor, scales: Tensor, group: int) -> None:
    """Round float32 values to floats of 4 bits, two per byte, with a power of two per group of columns."""
    parts = blocks(x, group)
    scale = mx_scale(parts, 6.0)
    put(out, to_e2m1((parts / scale).flatten(-2)))
    put(scales, scale.squeeze(-1))
