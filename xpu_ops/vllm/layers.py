"""vLLM's layers by fused operators of xpu: norms through its table of implementations, others as out-of-tree operators."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from vllm import ir
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod
from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

from xpu_ops.vllm import experts
from xpu_ops.vllm.kernels import registry, routing  # noqa: F401  (routing has the operator)

_ops = torch.ops.xpu_ops
PROVIDER = "xpu_ops"


@ir.ops.rms_norm.register_impl(
    PROVIDER, supports_args=lambda x, weight, epsilon, variance_size=None: variance_size is None
)
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
    def forward_oot(self, positions: Tensor, query: Tensor, key: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        tables = self._match_cos_sin_cache_dtype(query).index_select(0, positions.flatten()).unsqueeze(1)
        cos, sin = tables.chunk(2, dim=-1)
        return self._rotate(query, cos, sin), None if key is None else self._rotate(key, cos, sin)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        heads = x.view(cos.size(0), -1, self.head_size)
        turned = _ops.rotary_embedding(heads[..., : self.rotary_dim], cos, sin, not self.is_neox_style)
        if self.rotary_dim < self.head_size:
            turned = torch.cat((turned, heads[..., self.rotary_dim :]), -1)
        return turned.reshape(x.shape)


_ACTIVATIONS: dict[str, Any] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
}


@UnquantizedFusedMoEMethod.register_oot(name="UnquantizedFusedMoEMethod")
class XpuExperts(UnquantizedFusedMoEMethod):
    """Experts with floating weights, one after another."""

    def __init__(self, moe: Any) -> None:
        super().__init__(moe)
        if moe.moe_parallel_config.use_ep:
            raise NotImplementedError(
                "xpu_ops.vllm does not serve expert parallelism; leave out enable_expert_parallel"
            )
        if moe.activation.value not in _ACTIVATIONS or not moe.is_act_and_mul:
            raise NotImplementedError(f"xpu_ops.vllm does not serve experts with {moe.activation}")

    @property
    def is_monolithic(self) -> bool:
        return False

    def forward_oot(
        self,
        layer: Any,
        x: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        shared_experts: Any = None,
        shared_experts_input: Tensor | None = None,
    ) -> Tensor:
        return experts.mix(
            x, layer.w13_weight, layer.w2_weight, topk_weights, topk_ids, _ACTIVATIONS[layer.activation.value],
            up_bias=getattr(layer, "w13_bias", None), down_bias=getattr(layer, "w2_bias", None),
            weigh_input=layer.apply_router_weight_on_input,
        )  # fmt: skip


registry.enter([registry.OPERATORS["_moe_C::topk_softmax"]])
