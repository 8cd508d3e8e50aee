"""Layers of experts: which experts take a token, and their products. Needs no vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable


def gated(h: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """activation(first half of the last dimension) * second half."""
    gate, up = h.chunk(2, -1)
    return activation(gate) * up


def mix(
    x: Tensor,
    up: Tensor,
    down: Tensor,
    weights: Tensor,
    ids: Tensor,
    activation: Callable[[Tensor], Tensor],
    *,
    up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    weigh_input: bool = False,
) -> Tensor:
    """Return the weighted sum of what the experts of each token make of it. Experts without a token cost nothing.

    Args:
        x: (tokens, K).
        up, up_bias: (experts, 2 * N, K), the gate above what it multiplies, and (experts, 2 * N).
        down, down_bias: (experts, K, N) and (experts, K).
        weights, ids: (tokens, count), of each token's experts.
        activation: of the gate.
        weigh_input: the weight multiplies the token, not what the expert makes of it; then `count` is 1.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: vLLM's fused_experts, an expert at a time.
    """
    count = ids.size(1)
    if weigh_input and count != 1:
        raise RuntimeError(f"experts: weigh_input is for one expert of a token, got {count}")
    order = ids.flatten().argsort(stable=True)
    token = order // count
    share = weights.flatten()[order].unsqueeze(-1)
    begin, out = 0, torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert, size in enumerate(ids.flatten().bincount(minlength=up.size(0)).tolist()):
        if size == 0:
            continue
        mine = slice(begin, begin + size)
        begin += size
        rows = x[token[mine]]
        if weigh_input:
            rows = (rows * share[mine]).to(x.dtype)
        h = gated(functional.linear(rows, up[expert], None if up_bias is None else up_bias[expert]), activation)
        y = functional.linear(h, down[expert], None if down_bias is None else down_bias[expert])
        out.index_add_(0, token[mine], y.float() if weigh_input else y * share[mine])
    return out.to(x.dtype)
