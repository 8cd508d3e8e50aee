"""Low-rank additions to linear layers, each token with an adapter of its own, under the names of `_xpu_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import require
from xpu_ops.vllm.kernels.registry import operator

_FEW = 4  # tokens that share no weight worth a product of its own


def _apply(x: Tensor, weights: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """weights[index] times each row of x, in float32, and the rows that have an adapter.

    Args:
        x: (tokens, K).
        weights: (adapters, N, K) or (adapters, 1, N, K).
        indices: (tokens,); below zero for none.
    """
    weights = weights.squeeze(1) if weights.dim() == 4 else weights
    require(x.size(1) == weights.size(2), f"expected {weights.size(2)} columns, got {x.size(1)}")
    require(indices.numel() >= x.size(0), f"expected {x.size(0)} adapters, one per token, got {indices.numel()}")
    indices = indices[: x.size(0)]
    there = indices >= 0
    out = torch.zeros((x.size(0), weights.size(1)), dtype=torch.float32, device=x.device)
    if x.dtype != weights.dtype:
        x, weights = x.float(), weights.float()
    if x.size(0) <= _FEW:
        picked = weights.index_select(0, indices.clamp(min=0).to(torch.int64))
        out.copy_(torch.bmm(picked, x.unsqueeze(-1)).squeeze(-1))
        return out, there
    for adapter in indices.unique().tolist():
        if adapter < 0:
            continue
        rows = (indices == adapter).nonzero().squeeze(1)
        whole = rows.numel() == x.size(0)
        y = torch.mm(x if whole else x.index_select(0, rows), weights[adapter].t())
        if whole:
            return y.float(), there
        out.index_copy_(0, rows, y.float())
    return out, there


def _write(out: Tensor, y: Tensor, there: Tensor, add: bool) -> None:
    """Rows without an adapter stay as they are."""
    value = y.to(out.dtype)
    if add:
        out.add_(torch.where(there[:, None], value, 0))
    else:
        out.copy_(torch.where(there[:, None], value, out))


@operator("_xpu_C", "bgmv_shrink(Tensor! outputs, Tensor inputs, Tensor weights, Tensor indices, float scale) -> ()")
def bgmv_shrink(out: Tensor, x: Tensor, weights: Tensor, indices: Tensor, scale: float) -> None:
    y, there = _apply(x, weights, indices)
    require(out.size(1) >= y.size(1), f"bgmv_shrink: expected an output of {y.size(1)} columns, got {out.size(1)}")
    _write(out[:, : y.size(1)], y * scale, there, False)


@operator(
    "_xpu_C", "bgmv_expand(Tensor! outputs, Tensor inputs, Tensor weights, Tensor indices, bool add_to_output) -> ()"
)
def bgmv_expand(out: Tensor, x: Tensor, weights: Tensor, indices: Tensor, add: bool) -> None:
    y, there = _apply(x, weights, indices)
    common = min(y.size(1), out.size(1))
    _write(out[:, :common], y[:, :common], there, add)


@operator(
    "_xpu_C",
    "bgmv_expand_slice(Tensor! outputs, Tensor inputs, Tensor weights, Tensor indices, int slice_offset, int slice_size, "
    "bool add_to_output) -> ()",
)
def bgmv_expand_slice(
    out: Tensor, x: Tensor, weights: Tensor, indices: Tensor, offset: int, size: int, add: bool
) -> None:
    y, there = _apply(x, weights, indices)
    require(
        size == y.size(1) and offset >= 0 and offset + size <= out.size(1),
        f"bgmv_expand_slice: columns {offset} to {offset + size} do not fit {y.size(1)} into {out.size(1)}",
    )
    _write(out[:, offset : offset + size], y, there, add)


@operator(
    "_xpu_C",
    "lora_shrink(Tensor inputs, Tensor[] lora_a_weights, Tensor! output_tensor, Tensor lora_indices, float scaling) -> ()",
)
def lora_shrink(x: Tensor, weights: list[Tensor], out: Tensor, indices: Tensor, scaling: float) -> None:
    require(out.size(0) == len(weights), f"lora_shrink: expected {len(weights)} slices, got {out.size(0)}")
    for part, weight in zip(out, weights, strict=True):
        bgmv_shrink(part, x, weight, indices, scaling)


@operator(
    "_xpu_C",
    "lora_expand(Tensor inputs, Tensor[] lora_b_weights, Tensor! output_tensor, Tensor lora_indices, int offset_start, "
    "bool add_inputs) -> ()",
)
def lora_expand(x: Tensor, weights: list[Tensor], out: Tensor, indices: Tensor, offset: int, add: bool) -> None:
    require(x.size(0) == len(weights), f"lora_expand: expected {len(weights)} slices, got {x.size(0)}")
    for part, weight in zip(x, weights, strict=True):
        bgmv_expand_slice(out, part, weight, indices, offset, weight.size(-2), add)
        offset += weight.size(-2)
