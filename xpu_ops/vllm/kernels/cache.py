"""Caches of keys and values in pages, under the names of `_C_cache_ops`.

A slot is a page times the tokens of a page plus the place there; a token with a slot below zero has no place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import cast, fp8_scale, fused, power_of_two, require
from xpu_ops.vllm.kernels.registry import operator

_FORMATS = {"fp8": torch.float8_e4m3fn, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


def format_of(name: str) -> torch.dtype | None:
    """The type of 8 bits that a cache holds; None where it holds the model's."""
    if name in ("auto", "half", "bfloat16", "float", "float16", "float32"):
        return None
    require(name in _FORMATS, f"a cache of {name!r} is not served; expected auto or one of {', '.join(_FORMATS)}")
    return _FORMATS[name]


def _stored(x: Tensor, cache: Tensor, kind: torch.dtype | None, scale: Tensor | float) -> Tensor:
    """Values as a cache keeps them."""
    if kind is None:
        require(x.dtype == cache.dtype, f"expected a cache of {x.dtype}, got {cache.dtype}")
        return x
    return cast(x.float() / scale, kind).view(cache.dtype)


def places(slots: Tensor, page: int) -> tuple[Tensor, Tensor]:
    """The page of each slot, and the place there."""
    return torch.div(slots, page, rounding_mode="floor"), slots % page


def _tokens_of(slots: Tensor, x: Tensor) -> Tensor:
    """The rows of the tokens that have a slot; more may follow, which is how programs pad."""
    count = slots.numel()
    require(x.size(0) >= count, f"expected {count} tokens, one per slot")
    return x[:count]


def placed(slots: Tensor, *values: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Slots and values of the tokens that have a place."""
    count = slots.numel()
    values = tuple(v[:count] for v in values)
    require(all(v.size(0) == count for v in values), f"expected {count} tokens, one per slot")
    if count == 0 or int(slots.amin()) >= 0:
        return slots, list(values)
    with_place = (slots >= 0).nonzero().squeeze(1)
    return slots[with_place], [v[with_place] for v in values]


@operator(
    "_C_cache_ops",
    "reshape_and_cache(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
    "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
)
def reshape_and_cache(
    key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor, kind: str, k_scale: Tensor, v_scale: Tensor
) -> None:
    require(keys.dim() == 5 and values.dim() == 4, "reshape_and_cache: expected caches of 5 and 4 dimensions")
    dtype = format_of(kind)
    key = _stored(_tokens_of(slots, key), keys, dtype, k_scale).unflatten(-1, (-1, keys.size(4)))
    value = _stored(_tokens_of(slots, value), values, dtype, v_scale)
    fused._place_rows(keys.permute(0, 3, 1, 2, 4), values.permute(0, 3, 1, 2), key, value, slots)


@operator(
    "_C_cache_ops",
    "reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache, Tensor! value_cache, Tensor slot_mapping, "
    "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
)
def reshape_and_cache_flash(
    key: Tensor, value: Tensor, keys: Tensor, values: Tensor, slots: Tensor, kind: str, k_scale: Tensor, v_scale: Tensor
) -> None:
    require(keys.dim() == 4 and values.dim() == 4, "reshape_and_cache_flash: expected caches of 4 dimensions")
    dtype = format_of(kind)
    for cache, x in ((keys, key), (values, value)):
        require(
            cache.shape[2:] == x.shape[1:],
            f"reshape_and_cache_flash: expected heads {tuple(cache.shape[2:])}, got {tuple(x.shape[1:])}",
        )
    key = _stored(_tokens_of(slots, key), keys, dtype, k_scale)
    value = _stored(_tokens_of(slots, value), values, dtype, v_scale)
    fused._place_rows(keys, values, key, value, slots)


@operator(
    "_C_cache_ops",
    "concat_and_cache_mla(Tensor kv_c, Tensor k_pe, Tensor! kv_cache, Tensor slot_mapping, str kv_cache_dtype, "
    "Tensor scale) -> ()",
)
def concat_and_cache_mla(kv_c: Tensor, k_pe: Tensor, cache: Tensor, slots: Tensor, kind: str, scale: Tensor) -> None:
    width = kv_c.size(1) + k_pe.size(-1)
    require(cache.size(2) == width, f"concat_and_cache_mla: expected entries of {width}, got {cache.size(2)}")
    dtype, split = format_of(kind), kv_c.size(1)
    kv_c = _stored(_tokens_of(slots, kv_c), cache, dtype, scale)
    k_pe = _stored(_tokens_of(slots, k_pe.reshape(k_pe.size(0), -1)), cache, dtype, scale)
    fused._place_rows(cache[..., :split], cache[..., split:], kv_c, k_pe, slots)


def _rows(cache: Tensor, table: Tensor, sequence: Tensor, position: Tensor, starts: Tensor | None) -> Tensor:
    """The row of a cache, pages one after another, for each token's sequence and position."""
    page = cache.size(1)
    block, at = places(position, page)
    if starts is not None:
        block = block + torch.div(starts, page, rounding_mode="floor")[sequence]
    return table[sequence, block].to(torch.int64) * page + at


def _tokens(begins: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The sequence of each token, and its position there."""
    at = torch.arange(count, device=begins.device, dtype=begins.dtype)
    sequence = torch.searchsorted(begins[1:], at, right=True)
    return sequence, at - begins[sequence]


@operator(
    "_C_cache_ops",
    "gather_cache(Tensor src_cache, Tensor! dst, Tensor block_table, Tensor cu_seq_lens, int batch_size, "
    "Tensor? seq_starts) -> ()",
)
def gather_cache(
    cache: Tensor, out: Tensor, table: Tensor, begins: Tensor, batch_size: int, seq_starts: Tensor | None = None
) -> None:
    require(cache.dtype == out.dtype, f"gather_cache: expected an output of {cache.dtype}, got {out.dtype}")
    begins = begins[: batch_size + 1]
    count = min(int(begins[-1]), out.size(0))
    sequence, position = _tokens(begins, count)
    rows = _rows(cache, table, sequence, position, seq_starts)
    out[:count].copy_(cache.flatten(0, 1).index_select(0, rows).view(count, *out.shape[1:]))


@operator(
    "_C_cache_ops",
    "gather_and_maybe_dequant_cache(Tensor src_cache, Tensor! dst, Tensor block_table, Tensor cu_seq_lens, "
    "Tensor token_to_seq, int num_tokens, str kv_cache_dtype, Tensor scale, Tensor? seq_starts) -> ()",
)
def gather_and_maybe_dequant_cache(
    cache: Tensor,
    out: Tensor,
    table: Tensor,
    begins: Tensor,
    token_to_seq: Tensor,
    num_tokens: int,
    kind: str,
    scale: Tensor,
    seq_starts: Tensor | None = None,
) -> None:
    sequence = token_to_seq[:num_tokens]
    at = torch.arange(num_tokens, device=begins.device, dtype=begins.dtype)
    rows = _rows(cache, table, sequence, at - begins[sequence], seq_starts)
    values, dtype = cache.flatten(0, 1).index_select(0, rows), format_of(kind)
    if dtype is not None:
        values = values.view(dtype).float() * scale
    out[:num_tokens].copy_(values)


@operator("_C_cache_ops", "convert_fp8(Tensor! dst, Tensor src, float scale, str kv_cache_dtype) -> ()")
def convert_fp8(out: Tensor, x: Tensor, scale: float, kind: str) -> None:
    require(out.shape == x.shape, f"convert_fp8: expected an output of shape {tuple(x.shape)}, got {tuple(out.shape)}")
    dtype = format_of(kind) or torch.float8_e4m3fn
    if x.element_size() == 1:
        values = x.view(dtype).float() * scale
        out.copy_(values if out.element_size() > 1 else cast(values, dtype).view(out.dtype))
    else:
        out.copy_(cast(x.float() / scale, dtype).view(out.dtype))


@operator(
    "_C_cache_ops",
    "swap_blocks(Tensor src, Tensor! dst, int block_size_in_bytes, Tensor block_mapping) -> ()",
)
def swap_blocks(source: Tensor, target: Tensor, size: int, mapping: Tensor) -> None:
    require(mapping.device.type == "cpu", "swap_blocks: block_mapping must be on the CPU")
    require(mapping.dim() == 2 and mapping.size(1) == 2, "swap_blocks: expected a mapping of two columns")
    parts = [t.flatten().view(torch.uint8).view(-1, size) if t.is_contiguous() else None for t in (source, target)]
    if parts[0] is None or parts[1] is None:
        raise RuntimeError("swap_blocks: tensors must be contiguous")
    first, second = mapping.to(torch.int64).unbind(1)
    values = parts[0].index_select(0, first.to(source.device))
    parts[1].index_copy_(0, second.to(target.device), values.to(target.device))


# ---- the index of sparse attention: 8 bits and a scale per group. A page holds the values of its tokens, then their scales.


def _halves_of_page(cache: Tensor, head: int, groups: int) -> tuple[Tensor, Tensor]:
    pages, page, width = cache.shape
    require(width == head + 4 * groups, f"expected cache entries of {head + 4 * groups} bytes, got {width}")
    flat = cache.view(torch.uint8).view(pages, page * width)
    values = flat[:, : page * head].view(pages, page, head)
    scales = flat[:, page * head :].view(torch.float32).view(pages, page, groups)
    return values, scales


@operator(
    "_C_cache_ops",
    "indexer_k_quant_and_cache(Tensor k, Tensor! kv_cache, Tensor slot_mapping, int quant_block_size, str scale_fmt) -> ()",
)
def indexer_k_quant_and_cache(k: Tensor, cache: Tensor, slots: Tensor, group: int, scale_fmt: str) -> None:
    head = k.size(-1)
    require(group > 0 and head % group == 0, f"indexer_k_quant_and_cache: groups of {group} do not divide {head}")
    values, scales = _halves_of_page(cache, head, head // group)
    slots, (k,) = placed(slots.flatten(), k.reshape(-1, head))
    parts = k.float().unflatten(-1, (-1, group))
    scale = fp8_scale(parts, 1e-4)
    if scale_fmt == "ue8m0":
        scale = power_of_two(scale)
    place = places(slots, cache.size(1))
    values.index_put_(place, cast(parts / scale, torch.float8_e4m3fn).flatten(-2).view(torch.uint8))
    scales.index_put_(place, scale.squeeze(-1))


@operator(
    "_C_cache_ops",
    "cp_gather_indexer_k_quant_cache(Tensor kv_cache, Tensor! dst_k, Tensor! dst_scale, Tensor block_table, "
    "Tensor cu_seq_lens) -> ()",
)
def cp_gather_indexer_k_quant_cache(
    cache: Tensor, out: Tensor, out_scale: Tensor, table: Tensor, begins: Tensor
) -> None:
    head, groups = out.size(1), out_scale.size(1) * out_scale.element_size() // 4
    values, scales = _halves_of_page(cache, head, groups)
    count = min(int(begins[-1]), out.size(0))
    sequence, position = _tokens(begins, count)
    block, at = places(position, cache.size(1))
    block = table[sequence, block]
    out[:count].view(torch.uint8).copy_(values[block, at])
    out_scale[:count].view(torch.float32).copy_(scales[block, at])
