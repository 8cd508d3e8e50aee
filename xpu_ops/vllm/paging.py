"""Keys and values in pages: where a token's go, how they get there, and attention over them.

A cache is one tensor (pages, page, heads, 2 * dim): a token's key, then its value. Page 0 belongs to no sequence: tokens
without a place are written there.
"""

from __future__ import annotations

import torch
from torch import Tensor

_attend = _attend_pages = torch.ops.aten._flash_attention_forward_no_dropout_inplace


def slots(begins: Tensor, positions: Tensor, table: Tensor, page: int, out: Tensor) -> None:
    """Write the slot of every token, its page times `page` plus its place there, and slot 0 behind the last token.

    Args:
        begins: (sequences + 1,), where each sequence's tokens begin in `positions`.
        positions: (tokens,), of each token in its sequence.
        table: (sequences or more, pages), the pages of each sequence.
        page: tokens of a page.
        out: (tokens or more,), int64.

    Raises:
        RuntimeError: for sizes that do not fit.

    Source: the layout of vLLM's block tables (Kwon et al., PagedAttention, arXiv:2309.06180).
    """
    count = positions.numel()
    at = torch.arange(count, device=positions.device, dtype=begins.dtype)
    sequence = torch.searchsorted(begins[1:], at, right=True).clamp_(max=begins.numel() - 2)
    pages = table[sequence, torch.div(positions, page, rounding_mode="floor")]
    torch.add(positions % page, pages, alpha=page, out=out[:count])
    out[count:].zero_()


def write(cache: Tensor, key: Tensor, value: Tensor, slot: Tensor) -> None:
    """Put keys and values (tokens, heads, dim) into the slots of a cache.

    Args:
        cache: (pages, page, heads, 2 * dim).
        key, value: (tokens or more, heads, dim).
        slot: (tokens,), int64; a token with one below 0 has no place.

    Raises:
        RuntimeError: for shapes that do not fit.
        IndexError: for a slot past the cache.

    Source: vLLM's operator reshape_and_cache_flash.
    """
    count, dim = slot.numel(), key.size(-1)
    torch.ops.xpu_ops._place_rows(cache[..., :dim], cache[..., dim:], key[:count], value[:count], slot)


def attend_one(
    query: Tensor,
    cache: Tensor,
    table: Tensor,
    begins: Tensor,
    lengths: Tensor,
    out: Tensor,
    *,
    scale: float,
    window: int | None = None,
) -> None:
    """Attention of one query per sequence, its last token, over the pages of the sequences. Nothing waits for the device.

    Args:
        query, out: (tokens, heads, dim).
        cache: (pages, page, key heads, 2 * dim).
        table: (sequences, pages), int32.
        begins: (sequences + 1,), int32: 0, 1, 2 and so on.
        lengths: (sequences,), int32: keys of each sequence.
        scale: of the scores.
        window: keys that a query sees, itself included; None for all.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: at::_flash_attention_forward with a block_table.
    """
    dim = query.size(-1)
    left = -1 if window is None else window - 1
    _attend_pages(
        out, query, cache[..., :dim], cache[..., dim:], begins, None, 1, 0, 0.0, True, False,
        scale=scale, window_size_left=left, window_size_right=0, seqused_k=lengths, block_table=table,
    )  # fmt: skip


def attend_many(
    query: Tensor,
    cache: Tensor,
    table: Tensor,
    begins: list[int],
    lengths: list[int],
    out: Tensor,
    *,
    scale: float,
    causal: bool = True,
    window: int | None = None,
) -> None:
    """Attention of sequences with many queries, their last tokens, a sequence at a time.

    Args:
        query, cache, table, out, scale, window: as of :func:`attend_one`.
        begins: where each sequence's queries begin, and where the last one ends.
        lengths: keys of each sequence.
        causal: a query sees no later key.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: at::_flash_attention_forward.
    """
    dim, page = query.size(-1), cache.size(1)
    left = -1 if window is None else window - 1
    for i, length in enumerate(lengths):
        mine = slice(begins[i], begins[i + 1])
        if mine.start == mine.stop:
            continue
        rows = cache.index_select(0, table[i, : -(-length // page)]).flatten(0, 1)[None, :length]
        _attend(
            out[None, mine], query[None, mine], rows[..., :dim], rows[..., dim:], None, None, 0, 0, 0.0, causal, False,
            scale=scale, window_size_left=left, window_size_right=0 if causal else -1,
        )  # fmt: skip
