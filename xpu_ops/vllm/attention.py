"""vLLM's attention backend over pages."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionType,
    CommonAttentionMetadata,
    MultipleOf,
)
from vllm.v1.kv_cache_interface import KVCacheLayout

from xpu_ops.vllm import paging


class XpuAttentionBackend(AttentionBackend):
    """Served: decoders, grouped heads, sliding windows. Refused: quantised caches, MLA, sinks, ALiBi, soft caps."""

    forward_includes_kv_cache_update: bool = False
    accept_output_buffer: bool = True
    supported_dtypes = [torch.bfloat16, torch.float32, torch.float16]  # noqa: RUF012
    supported_kv_cache_dtypes = ["auto"]  # noqa: RUF012

    @staticmethod
    def get_name() -> str:
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[XpuAttention]:
        return XpuAttention

    @staticmethod
    def get_builder_cls() -> type[XpuMetadataBuilder]:
        return XpuMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        return [MultipleOf(1)]

    @classmethod
    def get_preferred_block_size(cls, default_block_size: int) -> int:
        return 64

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        return (KVCacheLayout.LBNHC,)

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type == AttentionType.DECODER


@dataclasses.dataclass
class XpuMetadata(AttentionMetadata):
    """A step's sequences: first those with one token, then the others, whose lengths the host knows."""

    tokens: int
    single: int  # sequences with one token
    begins: Tensor  # of those with one token
    lengths: Tensor
    table: Tensor
    others: list[int]  # where each of the others begins, from the first of them
    other_lengths: list[int]
    causal: bool


class XpuMetadataBuilder(AttentionMetadataBuilder[XpuMetadata]):
    """Makes a step's metadata once for all layers."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        self._init_reorder_batch_threshold(1)

    def build(
        self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata, fast_build: bool = False
    ) -> XpuMetadata:
        common = common_attn_metadata
        if not isinstance(common.causal, bool):
            raise NotImplementedError("xpu_ops.vllm serves no attention that is causal for some sequences only")
        begins = common.query_start_loc_cpu.tolist()
        count = common.num_reqs
        single = next((i for i in range(count) if begins[i + 1] - begins[i] != 1), count)
        lengths: list[int] = []
        if single < count:
            known = common.seq_lens_cpu_upper_bound
            lengths = (common.seq_lens if known is None else known)[single:count].tolist()
        return XpuMetadata(
            tokens=common.num_actual_tokens,
            single=single,
            begins=common.query_start_loc[: single + 1],
            lengths=common.seq_lens[:single],
            table=common.block_table_tensor,
            others=[b - begins[single] for b in begins[single : count + 1]],
            other_lengths=lengths,
            causal=common.causal,
        )


class XpuAttention(AttentionImpl[XpuMetadata]):
    """Attention of one layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        for name, given in (
            ("ALiBi slopes", alibi_slopes is not None),
            ("a soft cap of the scores", bool(logits_soft_cap)),
            ("attention sinks", sinks is not None),
            (f"attention of the kind {attn_type!r}", attn_type != AttentionType.DECODER),
            (f"a cache of {kv_cache_dtype}", kv_cache_dtype.startswith(("fp8", "int8", "nvfp4"))),
        ):
            if given:
                raise NotImplementedError(
                    f"xpu_ops.vllm does not serve {name}; XPU_OPS_VLLM=0 takes vLLM's own CPU platform"
                )
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self.sliding_window = sliding_window
        self.kv_cache_dtype = kv_cache_dtype
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: XpuMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Write the result of the first `tokens` rows into `output`."""
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("xpu_ops.vllm does not quantise the result of attention")
        if attn_metadata is None:  # a run without sequences, for memory's sake
            return output.zero_()
        m, cache = attn_metadata, kv_cache.transpose(1, 2)
        if m.single:
            paging.attend_one(
                query[: m.single], cache, m.table[: m.single], m.begins, m.lengths, output[: m.single],
                scale=self.scale, window=self.sliding_window,
            )  # fmt: skip
        if m.other_lengths:
            rest = slice(m.single, m.tokens)
            paging.attend_many(
                query[rest], cache, m.table[m.single :], m.others, m.other_lengths, output[rest],
                scale=self.scale, causal=m.causal, window=self.sliding_window,
            )  # fmt: skip
        return output

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Put a step's keys and values into the cache."""
        paging.write(kv_cache.transpose(1, 2), key, value, slot_mapping)
