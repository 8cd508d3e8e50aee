"""`vllm_xpu_kernels.moe_utils`: formats of few bits in layers of experts."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm import kernels
from xpu_ops.vllm.kernels.common import e8m0, from_e2m1

for _namespace in ("_C", "_moe_C", "_xpu_C"):
    kernels.register(_namespace)

FP8_E4M3_MAX = torch.finfo(torch.float8_e4m3fn).max
FP8_E4M3_MIN = -FP8_E4M3_MAX


def _groups(x: Tensor, scale: Tensor, group: int) -> Tensor:
    return (x.float().unflatten(-1, (-1, group)) * e8m0(scale).unsqueeze(-1)).flatten(-2)


def dequant_mxfp4(x: Tensor, scale: Tensor) -> Tensor:
    """The float32 values of packed floats of 4 bits with a power of two per 32."""
    return _groups(from_e2m1(x), scale.view(*x.shape[:-1], -1), 32)


def dequant_mxfp8(x: Tensor, scale: Tensor) -> Tensor:
    """The float32 values of floats of 8 bits with a power of two per 32."""
    return _groups(x, scale.view(*x.shape[:-1], -1), 32)


def dequant_mxfp8_wei(weight: Tensor, scale: Tensor) -> Tensor:
    """The float32 values of a weight (K, N) of 8 bits with a power of two per 32 rows of a column."""
    return weight.float() * e8m0(scale).repeat_interleave(32, 0)


def dequant_fp8_block_wei(weight: Tensor, scale: Tensor) -> Tensor:
    """The float32 values of a matrix of 8 bits with a scale per block of 128 by 128."""
    return weight.float() * scale.float().repeat_interleave(128, 0).repeat_interleave(128, 1)


def dequant_fp8_block_act(x: Tensor, scale: Tensor) -> Tensor:
    """The float32 values of rows of 8 bits with a scale per 128."""
    return _groups(x, scale, 128)


def quant_act_xpu(x: Tensor, recipe: str) -> tuple[Tensor, Tensor]:
    """Rows and their scales in the format of a recipe: mxfp4, mxfp8 or fp8block.

    Raises:
        NotImplementedError: for another recipe.

    Source: the operators per_token_group_fp8_quant and per_token_group_quant_mxfp4.
    """
    if recipe not in ("mxfp4", "mxfp8", "fp8block"):
        raise NotImplementedError(f"quant_act_xpu: expected mxfp4, mxfp8 or fp8block, got {recipe!r}")
    group = 128 if recipe == "fp8block" else 32
    scale = torch.empty((*x.shape[:-1], x.size(-1) // group), dtype=torch.float32, device=x.device)
    if recipe == "mxfp4":
        packed = torch.empty((*x.shape[:-1], x.size(-1) // 2), dtype=torch.uint8, device=x.device)
        torch.ops._C.per_token_group_quant_mxfp4(x, packed, scale, group, 1e-10)
        return packed.view(torch.float4_e2m1fn_x2), scale.to(torch.float8_e8m0fnu)
    values = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    torch.ops._C.per_token_group_fp8_quant(
        x, values, scale, group, 1e-10, FP8_E4M3_MIN, FP8_E4M3_MAX, recipe == "mxfp8", False, False
    )
    return values, scale if recipe == "fp8block" else scale.to(torch.float8_e8m0fnu)
