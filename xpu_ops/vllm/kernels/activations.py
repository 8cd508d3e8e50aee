"""Gated units and activations, under the names of `_C`. A gated unit is one kernel; silu and gelu round before the product, as torch's operators do."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from xpu_ops.vllm.kernels.common import fused, halves, require, round_blocks, round_by, round_e2m1
from xpu_ops.vllm.kernels.registry import operator

_aten = torch.ops.aten


def _check(out: Tensor, x: Tensor, shape: tuple[int, ...]) -> None:
    require(out.shape == shape, f"expected an output of shape {tuple(shape)}, got {tuple(out.shape)}")
    require(out.dtype == x.dtype, f"expected an output of {x.dtype}, got {out.dtype}")


def _pair(out: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = halves(x)
    _check(out, x, first.shape)
    return first, second


def _unit(out: Tensor, gate: Tensor, up: Tensor, activation: str, first: float = 0.0, second: float = 0.0) -> None:
    """One kernel: the activation of one half times the other."""
    fused._gated_unit(out, gate, up, activation, first, second)


@operator("_C", "silu_and_mul(Tensor! result, Tensor input) -> ()")
def silu_and_mul(out: Tensor, x: Tensor) -> None:
    gate, up = _pair(out, x)
    _unit(out, gate, up, "silu")


@operator("_C", "mul_and_silu(Tensor! out, Tensor input) -> ()")
def mul_and_silu(out: Tensor, x: Tensor) -> None:
    up, gate = _pair(out, x)
    _unit(out, gate, up, "silu")


@operator("_C", "gelu_and_mul(Tensor! out, Tensor input) -> ()")
def gelu_and_mul(out: Tensor, x: Tensor) -> None:
    gate, up = _pair(out, x)
    _unit(out, gate, up, "gelu")


@operator("_C", "gelu_tanh_and_mul(Tensor! out, Tensor input) -> ()")
def gelu_tanh_and_mul(out: Tensor, x: Tensor) -> None:
    gate, up = _pair(out, x)
    _unit(out, gate, up, "gelu_tanh")


@operator("_C", "fatrelu_and_mul(Tensor! out, Tensor! input, float threshold) -> ()")
def fatrelu_and_mul(out: Tensor, x: Tensor, threshold: float) -> None:
    gate, up = _pair(out, x)
    _unit(out, gate, up, "fatrelu", threshold)


@operator("_C", "situ_and_mul(Tensor! out, Tensor input, float beta=1.0, float linear_beta=-1.0) -> ()")
def situ_and_mul(out: Tensor, x: Tensor, beta: float = 1.0, linear_beta: float = -1.0) -> None:
    require(math.isfinite(beta) and beta > 0, f"situ_and_mul: beta must be finite and greater than zero, got {beta}")
    require(math.isfinite(linear_beta), f"situ_and_mul: linear_beta must be finite, got {linear_beta}")
    require(
        x.dim() > 0 and x.size(-1) > 0 and x.size(-1) % 2 == 0,
        "situ_and_mul: the last dimension must be positive and even",
    )
    require(x.is_contiguous(), "situ_and_mul: input must be contiguous")
    require(out.is_contiguous(), "situ_and_mul: output must be contiguous")
    require(
        out.dim() == x.dim() and out.size(-1) * 2 == x.size(-1),
        "situ_and_mul: output last dimension must be half of the input's",
    )
    require(out.shape[:-1] == x.shape[:-1], "situ_and_mul: leading dimensions must be equal")
    require(out.dtype == x.dtype, "situ_and_mul: input and output must have the same dtype")
    gate, up = halves(x)
    _unit(out, gate, up, "situ", beta, linear_beta)


@operator("_C", "swigluoai_and_mul(Tensor! out, Tensor input, float alpha=1.702, float limit=7.0) -> ()")
def swigluoai_and_mul(out: Tensor, x: Tensor, alpha: float = 1.702, limit: float = 7.0) -> None:
    require(x.size(-1) % 2 == 0, f"swigluoai_and_mul: the last dimension must be even, got {x.size(-1)}")
    _check(out, x, (*x.shape[:-1], x.size(-1) // 2))
    if x.dim() == 2:
        fused._swiglu_pairs(out, x, alpha, limit)
    elif out.is_contiguous():
        fused._swiglu_pairs(out.view(-1, out.size(-1)), x.reshape(-1, x.size(-1)), alpha, limit)
    else:
        _unit(out, x[..., ::2], x[..., 1::2], "swigluoai", alpha, limit)


@operator("_C", "swiglustep_and_mul(Tensor! out, Tensor input, float limit=7.0) -> ()")
def swiglustep_and_mul(out: Tensor, x: Tensor, limit: float = 7.0) -> None:
    gate, up = _pair(out, x)
    _unit(out, gate, up, "swiglustep", 0.0, limit)


@operator("_C", "gelu_fast(Tensor! out, Tensor input) -> ()")
@operator("_C", "gelu_new(Tensor! out, Tensor input) -> ()")
def gelu_tanh(out: Tensor, x: Tensor) -> None:
    _check(out, x, x.shape)
    _aten.gelu.out(x, approximate="tanh", out=out)


@operator("_C", "gelu_quick(Tensor! out, Tensor input) -> ()")
def gelu_quick(out: Tensor, x: Tensor) -> None:
    _check(out, x, x.shape)
    torch.mul(torch.sigmoid(x * 1.702), x, out=out)


@operator("_C", "relu2_no_mul(Tensor! out, Tensor! input) -> ()")
def relu2_no_mul(out: Tensor, x: Tensor) -> None:
    _check(out, x, x.shape)
    torch.square(functional.relu(x), out=out)


# ---- with rounding to few bits


@operator("_C", "silu_and_mul_quant(Tensor! result, Tensor input, Tensor scale) -> ()")
def silu_and_mul_quant(out: Tensor, x: Tensor, scale: Tensor) -> None:
    gate, up = halves(x)
    round_by(out, functional.silu(gate).mul_(up), scale)


@operator(
    "_C",
    "silu_and_mul_per_block_quant(Tensor! out, Tensor input, Tensor! scales, int group_size, Tensor? scale_ub=None, "
    "bool is_scale_transposed=False, bool scale_ue8m0=False) -> ()",
)
def silu_and_mul_per_block_quant(
    out: Tensor,
    x: Tensor,
    scales: Tensor,
    group_size: int,
    scale_ub: Tensor | None = None,
    is_scale_transposed: bool = False,
    scale_ue8m0: bool = False,
) -> None:
    gate, up = halves(x)
    y = functional.silu(gate.float()).mul_(up)
    round_blocks(out, y, scales, group_size, bound=scale_ub, exponents=scale_ue8m0)


@operator(
    "_C",
    "silu_and_mul_mxfp4_quant(Tensor! out, Tensor input, Tensor! scales, int group_size, float eps=1e-10) -> ()",
)
def silu_and_mul_mxfp4_quant(out: Tensor, x: Tensor, scales: Tensor, group_size: int, eps: float = 1e-10) -> None:
    gate, up = halves(x)
    round_e2m1(out, functional.silu(gate.float()).mul_(up), scales, group_size)
