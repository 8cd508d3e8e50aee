"""Products with weights of few bits, under the names of `_xpu_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm import fewbits
from xpu_ops.vllm.kernels.common import e8m0, from_e2m1, require
from xpu_ops.vllm.kernels.registry import operator


def _bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """An empty bias is none."""
    return y if bias is None or bias.numel() == 0 else y.add_(bias.to(y.dtype))


def _spread(scale: Tensor, shape: torch.Size) -> Tensor:
    """A scale of blocks (..., rows, columns) as one per element, or as what broadcasts to it."""
    for dim in (-2, -1):
        size, count = shape[dim], scale.size(dim)
        if count not in (1, size):
            require(size % count == 0, f"{count} scales do not divide {size} of {tuple(shape)}")
            scale = scale.repeat_interleave(size // count, dim)
    return scale


def _rows_scale(x: Tensor, scale: Tensor | None) -> Tensor | None:
    """The scales of a left operand (..., rows, K) in float32: of all, of rows, or of groups of K."""
    if scale is None:
        return None
    scale = e8m0(scale)
    if scale.numel() == 1:
        return scale.view(1, 1)
    return scale.unsqueeze(-1) if scale.dim() == x.dim() - 1 else scale


def _columns_scale(weight: Tensor, scale: Tensor | None) -> Tensor | None:
    """The scales of a right operand (..., K, N) in float32: of all, of columns, or of blocks (K / k, N / n)."""
    if scale is None:
        return None
    scale = e8m0(scale)
    if scale.numel() == 1:
        return scale.view(1, 1)
    columns = weight.size(-1)
    if scale.dim() == 1 or (scale.dim() == 2 and scale.size(1) == 1 and scale.size(0) == columns):
        return scale.reshape(1, columns)
    return scale


def _of_row(scale: Tensor | None, dim: int) -> bool:
    """Whether a scale is one per row (or column), so that it may follow the product."""
    return scale is None or scale.size(dim) == 1


def _wide(x: Tensor, dtype: torch.dtype) -> Tensor:
    return from_e2m1(x).to(dtype) if x.dtype == torch.float4_e2m1fn_x2 else x.to(dtype)


def _product(a: Tensor, b: Tensor, a_scale: Tensor | None, b_scale: Tensor | None) -> Tensor:
    """a (..., M, K) times b (..., K, N), each with its scales, in float32.

    Values of 8 bits are exact in bfloat16: scales per row and column follow the product, others come before it.
    """
    a_scale, b_scale = _rows_scale(a, a_scale), _columns_scale(b, b_scale)
    if _of_row(a_scale, -1) and _of_row(b_scale, -2):
        kind = torch.bfloat16 if a.element_size() == 1 else a.dtype
        if a.dim() == 2 and kind != torch.float32:
            y = torch.mm(a.to(kind), b.to(kind), out_dtype=torch.float32)
        else:
            y = torch.matmul(a.float(), b.float())
        for scale in (a_scale, b_scale):
            if scale is not None:
                y.mul_(scale)
        return y
    first, second = a.float(), b.float()
    if a_scale is not None:
        first = first * _spread(a_scale, a.shape)
    if b_scale is not None:
        second = second * _spread(b_scale, b.shape)
    return torch.matmul(first, second)


def _check(name: str, a: Tensor, b: Tensor) -> None:
    require(
        a.dim() >= 2 and b.dim() >= 2 and a.size(-1) == b.size(-2),
        f"{name}: {tuple(a.shape)} times {tuple(b.shape)} is no product",
    )


def _scaled(
    name: str, a: Tensor, b: Tensor, a_scale: Tensor | None, b_scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    _check(name, a, b)
    return _bias(_product(a, b, a_scale, b_scale), bias)


@operator(
    "_xpu_C",
    "fp8_gemm(Tensor A, Tensor B, ScalarType? out_dtype, Tensor? A_scale_, Tensor? B_scale_, Tensor? bias_) -> Tensor",
)
def fp8_gemm(
    a: Tensor,
    b: Tensor,
    out_dtype: torch.dtype | None,
    a_scale: Tensor | None,
    b_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    return _scaled("fp8_gemm", a, b, a_scale, b_scale, bias).to(out_dtype or torch.float16)


@operator(
    "_xpu_C",
    "fp8_gemm_out(Tensor(a!) out, Tensor A, Tensor B, ScalarType? out_dtype, Tensor? A_scale_, Tensor? B_scale_, "
    "Tensor? bias_) -> Tensor",
)
def fp8_gemm_out(
    out: Tensor,
    a: Tensor,
    b: Tensor,
    out_dtype: torch.dtype | None,
    a_scale: Tensor | None,
    b_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    _check("fp8_gemm_out", a, b)
    shape = (*a.shape[:-1], b.size(-1))
    require(out.device == a.device, f"fp8_gemm_out: out must be on the device {a.device}, got {out.device}")
    require(out.shape == shape, f"fp8_gemm_out: out must have the shape {shape}, got {tuple(out.shape)}")
    require(
        out_dtype is None or out.dtype == out_dtype,
        f"fp8_gemm_out: out must have the dtype {out_dtype}, got {out.dtype}",
    )
    out.copy_(_bias(_product(a, b, a_scale, b_scale), bias))
    return out


@operator(
    "_xpu_C",
    "fp8_bmm(Tensor A, Tensor B, ScalarType? out_dtype, Tensor? A_scale_, Tensor? B_scale_, Tensor? bias_) -> Tensor",
)
def fp8_bmm(
    a: Tensor,
    b: Tensor,
    out_dtype: torch.dtype | None,
    a_scale: Tensor | None,
    b_scale: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    return _scaled("fp8_bmm", a, b, a_scale, b_scale, bias).to(out_dtype or torch.float16)


@operator("_xpu_C", "fp8_gemm_w8a16(Tensor A, Tensor B, Tensor? B_scale_, Tensor? bias_) -> Tensor")
def fp8_gemm_w8a16(a: Tensor, b: Tensor, b_scale: Tensor | None, bias: Tensor | None) -> Tensor:
    _check("fp8_gemm_w8a16", a, b)
    scale = _columns_scale(b, b_scale)
    after = _of_row(scale, -2)
    weight = b.to(a.dtype) if after else (b.float() * _spread(scale, b.shape)).to(a.dtype)
    if b.dim() == 2 and a.dtype != torch.float32:
        y = torch.mm(a.reshape(-1, a.size(-1)), weight, out_dtype=torch.float32).view(*a.shape[:-1], b.size(1))
    else:
        y = torch.matmul(a.float(), weight.float())
    if after and scale is not None:
        y.mul_(scale)
    return _bias(y, bias).to(a.dtype)


@operator(
    "_xpu_C",
    "fp4_gemm(Tensor A, Tensor B, Tensor A_scale, Tensor B_scale, ScalarType? out_dtype, Tensor? bias_) -> Tensor",
)
def fp4_gemm(
    a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, out_dtype: torch.dtype | None, bias: Tensor | None
) -> Tensor:
    # b is the transposed view of packed rows (N, K / 2), and its scales may be (N, groups) or their transposed view.
    require(
        a.dim() == 2 and b.dim() == 2 and a.size(1) == b.size(0), f"fp4_gemm: {tuple(a.shape)} times {tuple(b.shape)}"
    )
    first, second = from_e2m1(a), from_e2m1(b.t().contiguous())
    rows, columns = first.size(0), second.size(0)
    scales = e8m0(b_scale)
    if scales.size(0) != columns:
        scales = scales.t()
    require(
        a_scale.size(0) == rows and scales.size(0) == columns and first.size(1) % scales.size(1) == 0,
        f"fp4_gemm: scales {tuple(a_scale.shape)} and {tuple(b_scale.shape)} fit no groups",
    )
    y = torch.matmul(first * _spread(e8m0(a_scale), first.shape), (second * _spread(scales, second.shape)).t())
    return _bias(y, bias).to(out_dtype or torch.float16)


# ---- integers of 4 bits


def _once(weight: fewbits.Nibbles, rows: Tensor, bias: Tensor | None) -> Tensor:
    """The product plus `bias`, rounded once."""
    if bias is None or rows.dtype == torch.float32:
        return weight.product(rows, bias)
    return weight.product(rows.float(), bias.float()).to(rows.dtype)


def _zeros(zero: Tensor, scale: Tensor) -> Tensor | None:
    """The zeros (groups, N) of a weight: packed along N, or one for all; None for 8."""
    if zero.dtype == torch.int32 and zero.dim() == 2:
        return fewbits.unpack(zero, 4, 1)
    value = int(zero.flatten()[0])
    return None if value == 8 else torch.full_like(scale, value, dtype=torch.int8)


@operator(
    "_xpu_C",
    "int4_gemm_w4a16(Tensor A, Tensor B, Tensor? bias, Tensor B_scale, Tensor B_zp, int group_size, Tensor? g_idx) -> Tensor",
)
def int4_gemm_w4a16(
    a: Tensor, b: Tensor, bias: Tensor | None, scale: Tensor, zero: Tensor, group_size: int, g_idx: Tensor | None
) -> Tensor:
    columns = b.size(0) * 8
    require(a.size(-1) == columns, f"int4_gemm_w4a16: expected {columns} columns, got {a.size(-1)}")
    if g_idx is not None and g_idx.numel():
        a = a.index_select(-1, g_idx.to(a.device))
    zeros = _zeros(zero, scale)
    packed = b.t().contiguous()
    if fewbits.group_of(columns, columns // scale.size(0)) is None:
        groups = columns // scale.size(0)
        values = fewbits.unpack(packed, 4, 1).t() - (8 if zeros is None else zeros.repeat_interleave(groups, 0))
        y = torch.matmul(a, (values * scale.repeat_interleave(groups, 0)).to(a.dtype))
    else:
        return _once(fewbits.Nibbles.of(packed, scale, zeros), a, None if bias is None or bias.numel() == 0 else bias)
    return _bias(y, bias)


@operator(
    "_xpu_C",
    "int4_gemm_w4a8(Tensor A_, Tensor A_scale, Tensor A_zp, Tensor B, Tensor B_scale, Tensor B_zp, int group_size, "
    "Tensor? g_idx, Tensor? bias) -> Tensor",
)
def int4_gemm_w4a8(
    a: Tensor,
    a_scale: Tensor,
    a_zero: Tensor,
    b: Tensor,
    scale: Tensor,
    zero: Tensor,
    group_size: int,
    g_idx: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    # Differences of integers of 8 bits are exact in 16: the scale of a row follows the product.
    centred = (a.to(torch.int16) - a_zero.to(torch.int16)).to(scale.dtype)
    y = int4_gemm_w4a16(centred, b, None, scale, zero, group_size, g_idx)
    return _bias((y.float() * a_scale.float()).to(scale.dtype), bias)


# ---- a product per expert


def _expert_weight(weight: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    """An expert's weight (K, N) in the type of the product.

    Floats of 8 bits lie as (K, N), with one scale, (K / 32, N) powers of two, or (K / 128, N / 128) in float32;
    values of 4 bits lie as (N, K / 2).
    """
    if weight.dtype == torch.float4_e2m1fn_x2:
        rows = from_e2m1(weight)
        return (rows * _spread(e8m0(scale), rows.shape)).to(dtype).t()
    if scale is None:
        return weight.to(dtype)
    scale = e8m0(scale)
    if scale.numel() == 1:
        return (weight.float() * scale.view(())).to(dtype)
    return (weight.float() * _spread(scale if scale.dim() == 2 else scale.view(1, -1), weight.shape)).to(dtype)


def _nibbles(weight: Tensor, scale: Tensor) -> fewbits.Nibbles:
    """An expert's weight (N, K / 2) of signed values of 4 bits, with scales (N, groups)."""
    packed = (weight.view(torch.uint8) ^ 0x88).view(torch.int32)
    return fewbits.Nibbles.of(packed, scale.t(), None)


@operator(
    "_xpu_C",
    "cutlass_grouped_gemm_interface(Tensor ptr_A, Tensor? ptr_A_scale, Tensor ptr_B, Tensor? ptr_B_scale, Tensor? ptr_bias, "
    "Tensor ptr_D, Tensor rows_per_expert, int N, int K, int num_experts) -> Tensor",
)
def cutlass_grouped_gemm_interface(
    a: Tensor,
    a_scale: Tensor | None,
    b: Tensor,
    b_scale: Tensor | None,
    bias: Tensor | None,
    out: Tensor,
    rows_per_expert: Tensor,
    n: int,
    k: int,
    num_experts: int,
) -> Tensor:
    require(a_scale is None, "cutlass_grouped_gemm_interface: rows with scales are not served; give them in 16 bits")
    require(
        a.dim() == 2 and a.size(1) == k, f"cutlass_grouped_gemm_interface: expected {k} columns, got {tuple(a.shape)}"
    )
    require(
        out.shape == (a.size(0), n),
        f"cutlass_grouped_gemm_interface: expected an output of shape {(a.size(0), n)}, got {tuple(out.shape)}",
    )
    whole = b.dtype in (torch.int8, torch.uint8)
    shape = (num_experts, n, k // 2) if whole or b.dtype == torch.float4_e2m1fn_x2 else (num_experts, k, n)
    require(
        b.shape == shape, f"cutlass_grouped_gemm_interface: expected weights of shape {shape}, got {tuple(b.shape)}"
    )
    if whole:
        require(b_scale is not None, "cutlass_grouped_gemm_interface: weights of 4 bits need scales")
    begin = 0
    for expert, count in enumerate(rows_per_expert.tolist()):
        if count == 0:
            continue
        rows, to = a[begin : begin + count], out[begin : begin + count]
        begin += count
        scale = None if b_scale is None else b_scale[expert]
        added = None if bias is None else bias[expert]
        if whole:
            to.copy_(_once(_nibbles(b[expert], scale), rows, added))
        elif added is None:
            torch.mm(rows, _expert_weight(b[expert], scale, rows.dtype), out=to)
        else:
            torch.addmm(added.to(rows.dtype), rows, _expert_weight(b[expert], scale, rows.dtype), out=to)
    return out
