"""Rotary embeddings, under the names of `_C` and `_xpu_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import fused, heads_of, put, require
from xpu_ops.vllm.kernels.registry import operator


def _turn(heads: Tensor, tables: Tensor, neox: bool, *, offset: int = 0, inverse: bool = False) -> None:
    """Rotate (..., heads, size) in place by tables (tokens, rotated dimensions), cosines before sines."""
    lead = heads.shape[:-2]
    require(tables.size(0) == lead.numel(), f"expected {tables.size(0)} tokens, one per position, got {tuple(lead)}")
    width = tables.size(1)
    require(offset + width <= heads.size(-1), f"{width} dimensions to rotate are more than those of a head")
    cos, sin = tables.view(*lead, 1, width).chunk(2, -1)
    part = heads[..., offset : offset + width]
    part.copy_(fused.rotary_embedding(part, cos, sin, not neox, inverse))


def _tables(cache: Tensor, positions: Tensor, like: Tensor) -> Tensor:
    return cache.to(like.dtype).index_select(0, positions.flatten())


@operator(
    "_C",
    "rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, bool is_neox) -> ()",
)
def rotary_embedding(
    positions: Tensor,
    query: Tensor,
    key: Tensor | None,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox: bool,
    rope_dim_offset: int = 0,
    inverse: bool = False,
) -> None:
    tables = _tables(cos_sin_cache, positions, query)
    for x in (query, key):
        if x is not None:
            heads = heads_of(x, head_size)
            _turn(heads, tables, is_neox, offset=rope_dim_offset, inverse=inverse)


@operator(
    "_C",
    "fused_qk_norm_rope(Tensor! qkv, int num_heads_q, int num_heads_k, int num_heads_v, int head_dim, float eps, "
    "Tensor q_weight, Tensor k_weight, Tensor cos_sin_cache, bool is_neox, Tensor position_ids, "
    "int forced_token_heads_per_warp=-1) -> ()",
)
def fused_qk_norm_rope(
    qkv: Tensor,
    num_heads_q: int,
    num_heads_k: int,
    num_heads_v: int,
    head_dim: int,
    eps: float,
    q_weight: Tensor,
    k_weight: Tensor,
    cos_sin_cache: Tensor,
    is_neox: bool,
    position_ids: Tensor,
    forced_token_heads_per_warp: int = -1,
) -> None:
    width = (num_heads_q + num_heads_k + num_heads_v) * head_dim
    require(qkv.size(-1) == width, f"fused_qk_norm_rope: expected {width} columns, got {qkv.size(-1)}")
    heads = qkv.unflatten(-1, (-1, head_dim))
    tables = cos_sin_cache.index_select(0, position_ids.flatten()).float()
    require(
        tables.size(0) == heads.size(0), f"fused_qk_norm_rope: expected {heads.size(0)} positions, got {tables.size(0)}"
    )
    cos, sin = tables.unsqueeze(1).chunk(2, -1)
    turned = tables.size(1)
    for part, weight in (
        (heads[:, :num_heads_q], q_weight),
        (heads[:, num_heads_q : num_heads_q + num_heads_k], k_weight),
    ):
        y = fused.rms_norm(part.float(), weight.float(), eps)
        part[..., turned:].copy_(y[..., turned:])
        part[..., :turned].copy_(fused.rotary_embedding(y[..., :turned], cos, sin, not is_neox))


@operator(
    "_xpu_C",
    "deepseek_scaling_rope(Tensor! positions, Tensor! query, Tensor! key, Tensor? offsets_opt, Tensor! cos_sin_cache, "
    "int rotary_dim, bool is_neox_style) -> (Tensor, Tensor)",
)
def deepseek_scaling_rope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    offsets: Tensor | None,
    cos_sin_cache: Tensor,
    rotary_dim: int,
    is_neox: bool,
) -> tuple[Tensor, Tensor]:
    tables = _tables(cos_sin_cache, positions if offsets is None else positions + offsets, query)
    require(
        tables.size(1) == rotary_dim, f"deepseek_scaling_rope: expected tables of {rotary_dim}, got {tables.size(1)}"
    )
    query, key = query.clone(), key.clone()
    for x in (query, key):
        _turn(x, tables, is_neox)
    return query, key


@operator(
    "_xpu_C",
    "multimodal_rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor cos_sin_cache, "
    "bool is_neox, int[] mrope_section) -> ()",
)
def multimodal_rotary_embedding(
    positions: Tensor,
    query: Tensor,
    key: Tensor | None,
    head_size: int,
    cos_sin_cache: Tensor,
    is_neox: bool,
    mrope_section: list[int],
) -> None:
    half = cos_sin_cache.size(1) // 2
    require(
        positions.dim() == 2 and positions.size(0) == len(mrope_section),
        f"multimodal_rotary_embedding: expected positions of {len(mrope_section)} sections, got {tuple(positions.shape)}",
    )
    require(
        sum(mrope_section) == half, f"multimodal_rotary_embedding: sections must add up to {half}, got {mrope_section}"
    )
    cache, parts, at = cos_sin_cache.to(query.dtype).unflatten(1, (2, half)), [], 0
    for row, size in zip(positions, mrope_section, strict=True):
        parts.append(cache[..., at : at + size].index_select(0, row))
        at += size
    tables = torch.cat(parts, -1).flatten(1)
    for x in (query, key):
        if x is not None:
            _turn(heads_of(x, head_size), tables, is_neox)


@operator("_xpu_C", "apply_rotary_emb(Tensor! output, Tensor input, Tensor cos, Tensor sin, bool is_neox) -> ()")
def apply_rotary_emb(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor, is_neox: bool) -> None:
    require(x.dim() == 3 and cos.dim() == 2, "apply_rotary_emb: expected (tokens, heads, size) and (tokens, half)")
    turned = cos.size(1) * 2
    y = fused.rotary_embedding(x[..., :turned], cos.unsqueeze(1), sin.unsqueeze(1), not is_neox)
    if turned == x.size(-1):
        put(out, y)
    else:
        put(out, torch.cat((y, x[..., turned:]), -1))
