"""Norms, and norms with rounding to few bits, under the names of `_C`."""

from __future__ import annotations

from torch import Tensor

from xpu_ops.vllm.kernels.common import fused, put, require, round_blocks, round_by, round_e2m1, round_rows
from xpu_ops.vllm.kernels.registry import operator


@operator("_C", "rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()")
def rms_norm(out: Tensor, x: Tensor, weight: Tensor | None, epsilon: float) -> None:
    put(out, fused.rms_norm(x, weight, epsilon))


@operator("_C", "fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()")
def fused_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, epsilon: float) -> None:
    y, total, _ = fused.add_rms_norm(x, residual, weight, epsilon)
    x.copy_(y)
    residual.copy_(total)


def _normed(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None) -> Tensor:
    """The norm in float32, of the sum with the residual, which the sum replaces."""
    if residual is not None:
        require(
            residual.shape == x.shape, f"expected a residual of shape {tuple(x.shape)}, got {tuple(residual.shape)}"
        )
        x = residual.add_(x)
    return fused.rms_norm(x.float(), weight.float(), epsilon)


@operator(
    "_C",
    "rms_norm_dynamic_per_token_quant(Tensor! result, Tensor input, Tensor weight, Tensor! scale, float epsilon, "
    "Tensor? scale_ub, Tensor!? residual) -> ()",
)
def rms_norm_dynamic_per_token_quant(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    epsilon: float,
    scale_ub: Tensor | None,
    residual: Tensor | None,
) -> None:
    round_rows(out, _normed(x, weight, epsilon, residual), scale, scale_ub)


@operator(
    "_C",
    "rms_norm_per_block_quant(Tensor! result, Tensor input, Tensor weight, Tensor! scale, float epsilon, "
    "Tensor? scale_ub, Tensor!? residual, int group_size, bool is_scale_transposed, bool scale_ue8m0=False) -> ()",
)
def rms_norm_per_block_quant(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    epsilon: float,
    scale_ub: Tensor | None,
    residual: Tensor | None,
    group_size: int,
    is_scale_transposed: bool,
    scale_ue8m0: bool = False,
) -> None:
    y = _normed(x, weight, epsilon, residual)
    round_blocks(out, y, scale, group_size, bound=scale_ub, exponents=scale_ue8m0)


@operator(
    "_C",
    "rms_norm_mxfp4_quant(Tensor! result, Tensor input, Tensor weight, Tensor! scale, float epsilon, Tensor!? residual, "
    "int group_size) -> ()",
)
def rms_norm_mxfp4_quant(
    out: Tensor, x: Tensor, weight: Tensor, scale: Tensor, epsilon: float, residual: Tensor | None, group_size: int
) -> None:
    round_e2m1(out, _normed(x, weight, epsilon, residual), scale, group_size)


@operator(
    "_C",
    "rms_norm_static_fp8_quant(Tensor! result, Tensor input, Tensor weight, Tensor scale, float epsilon) -> ()",
)
def rms_norm_static_fp8_quant(out: Tensor, x: Tensor, weight: Tensor, scale: Tensor, epsilon: float) -> None:
    round_by(out, _normed(x, weight, epsilon, None), scale)


@operator(
    "_C",
    "fused_add_rms_norm_static_fp8_quant(Tensor! result, Tensor input, Tensor! residual, Tensor weight, Tensor scale, "
    "float epsilon) -> ()",
)
def fused_add_rms_norm_static_fp8_quant(
    out: Tensor, x: Tensor, residual: Tensor, weight: Tensor, scale: Tensor, epsilon: float
) -> None:
    round_by(out, _normed(x, weight, epsilon, residual), scale)
