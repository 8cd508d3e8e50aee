"""Rounding to 8 and 4 bits with scales, under the names of `_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import fused, limit, require, round_blocks, round_by, round_e2m1, round_rows
from xpu_ops.vllm.kernels.registry import operator


@operator(
    "_C",
    "static_scaled_fp8_quant(Tensor! result, Tensor input, Tensor scale, (int, int)? group_shape=None) -> ()",
)
def static_scaled_fp8_quant(out: Tensor, x: Tensor, scale: Tensor, group_shape: tuple[int, int] | None = None) -> None:
    if scale.numel() == 1:
        round_by(out, x, scale)
        return
    rows, columns = x.shape
    if scale.dim() == 1:
        require(
            group_shape is not None, "static_scaled_fp8_quant: group_shape says what a scale of one dimension is of"
        )
        by_row = group_shape is not None and group_shape[1] in (-1, columns)
        scale = scale.view(-1, 1) if by_row else scale.view(1, -1)
    require(
        rows % scale.size(0) == 0 and columns % scale.size(1) == 0,
        f"static_scaled_fp8_quant: scales {tuple(scale.shape)} do not divide {tuple(x.shape)}",
    )
    round_by(out, x, scale)


# Up to so many values one work-group finds the scale and rounds.
_ONE_GROUP = 1 << 14


@operator("_C", "dynamic_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale) -> ()")
def dynamic_scaled_fp8_quant(out: Tensor, x: Tensor, scale: Tensor) -> None:
    require(scale.numel() == 1, f"dynamic_scaled_fp8_quant: expected one scale, got {scale.numel()}")
    require(out.shape == x.shape, f"expected an output of shape {tuple(x.shape)}, got {tuple(out.shape)}")
    if 0 < x.numel() <= _ONE_GROUP and x.is_contiguous() and out.is_contiguous():
        fused._round_rows(out.view(1, -1), scale.view(1, 1), x.view(1, -1), x.numel(), inverse=True)
        return
    top = torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32)
    torch.div(top, limit(out.dtype), out=scale.view(()))
    round_by(out, x, scale, safe=True)


@operator(
    "_C",
    "dynamic_per_token_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale, Tensor? scale_ub) -> ()",
)
def dynamic_per_token_scaled_fp8_quant(out: Tensor, x: Tensor, scale: Tensor, scale_ub: Tensor | None) -> None:
    round_rows(out, x, scale, scale_ub)


@operator(
    "_C",
    "per_token_group_fp8_quant(Tensor input, Tensor! output_q, Tensor! output_s, int group_size, float eps, float fp8_min, "
    "float fp8_max, bool scale_ue8m0, bool dummy_is_scale_transposed, bool dummy_is_tma_aligned) -> ()",
)
def per_token_group_fp8_quant(
    x: Tensor,
    out: Tensor,
    scales: Tensor,
    group_size: int,
    eps: float,
    fp8_min: float,
    fp8_max: float,
    scale_ue8m0: bool,
    dummy_is_scale_transposed: bool = False,
    dummy_is_tma_aligned: bool = False,
) -> None:
    round_blocks(out, x, scales, group_size, exponents=bool(scale_ue8m0), least=eps)


@operator(
    "_C",
    "per_token_group_quant_mxfp4(Tensor input, Tensor! output_q, Tensor! output_s, int group_size, float eps) -> ()",
)
def per_token_group_quant_mxfp4(x: Tensor, out: Tensor, scales: Tensor, group_size: int, eps: float) -> None:
    round_e2m1(out, x.float(), scales, group_size)
