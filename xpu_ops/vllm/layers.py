"""vLLM's layers by fused operators of xpu: norms through its table of implementations, others as out-of-tree operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from vllm import ir
from vllm.model_executor.layers.activation import GeluAndMul, SiluAndMul
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

_ops = torch.ops.xpu_ops
PROVIDER = "xpu_ops"


def _whole_rows(*args: Any, variance_size: int | None = None) -> bool:
    return variance_size is None and (len(args) < 5 or args[4] is None)


@ir.ops.rms_norm.register_impl(PROVIDER, supports_args=lambda x, weight, epsilon, variance_size=None: variance_size is None)
def rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None) -> Tensor:
    return _ops.rms_norm(x, weight, epsilon)


@ir.ops.fused_add_rms_norm.register_impl(
    PROVIDER, supports_args=lambda x, x_residual, weight, epsilon, variance_size=None: variance_size is None
)
def fused_add_rms_norm(
    x: Tensor, x_residual: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> tuple[Tensor, Tensor]:
    y, total, _ = _ops.add_rms_norm(x, x_residual, weight, epsilon)
    return y, total


@RotaryEmbedding.register_oot(name="RotaryEmbedding")
class XpuRotaryEmbedding(RotaryEmbedding):
    def forward_oot(
        self, positions: Tensor, query: Tensor, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        tables = self._match_cos_sin_cache_dtype(query).index_select(0, positions.flatten()).unsqueeze(1)
        cos, sin = tables.chunk(2, dim=-1)
        return self._rotate(query, cos, sin), None if key is None else self._rotate(key, cos, sin)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = x.view(cos.size(0), -1, self.head_size)
        turned = _ops.rotary_embedding(heads[..., : self.rotary_dim], cos, sin, not self.is_neox_style)
        if self.rotary_dim < self.head_size:
            turned = torch.cat((turned, heads[..., self.rotary_dim :]), -1)
        return turned.reshape(x.shape)
