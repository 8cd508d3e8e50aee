"""Attention over jagged tensors. Runs after torch.nested._internal.sdpa."""

from __future__ import annotations

import sys
from typing import Any

import torch

from xpu_ops.upstream.registry import replaces

_SERVED = (torch.float32, torch.float16, torch.bfloat16)


@replaces(
    "torch.nested._internal.sdpa._select_sdp_backend",
    since="2.13",
    why="torch asks CUDA whether its kernels serve, and takes padded products elsewhere, which know no causal mask; "
    "_flash_attention_forward takes the sequences as they are",
    test="tests/aten/test_nested.py::test_attention",
)
def attention_of_sequences(upstream: Any) -> Any:
    def select(
        query: Any, key: Any, value: Any, attn_mask: Any, dropout: float, is_causal: bool, enable_gqa: bool
    ) -> Any:
        module: Any = sys.modules["torch.nested._internal.sdpa"]
        if (
            query.device.type == "xpu"
            and attn_mask is None
            and dropout == 0.0
            and not enable_gqa
            and query.dtype in _SERVED
            and module.flash_sdp_enabled()
            and module._can_use_flash_sdpa_jagged(
                module.SDPAParams(query, key, value, attn_mask, dropout, is_causal, enable_gqa)
            )
        ):
            return module.SDPBackend.FLASH_ATTENTION
        return upstream(query, key, value, attn_mask, dropout, is_causal, enable_gqa)

    return select
