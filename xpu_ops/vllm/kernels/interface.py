"""`vllm_xpu_kernels.flash_attn_interface`: attention of packed queries over packed keys or pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xpu_ops.vllm import kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

kernels.register("_vllm_fa2_C")

FA2_AVAILABLE = True
FA2_UNAVAILABLE_REASON = None
DEFAULT_FA_VERSION = 2

_SPECULATED = 16  # queries of a sequence up to which each is a sequence of one query


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    begins: Tensor,
    key_begins: Tensor | None,
    used: Tensor | None,
    table: Tensor | None,
    most: int,
    most_keys: int,
    scales: tuple[Tensor | None, Tensor | None],
    scale: float,
    sink: Tensor | None,
    causal: bool,
    window: tuple[int, int],
    cap: float,
    sums: bool,
) -> list[Tensor]:
    if key_begins is None:
        key_begins = torch.zeros_like(begins)
    return torch.ops._vllm_fa2_C.varlen_fwd(
        q, k, v, out, begins, key_begins, used, None, table, None, most, most_keys, 0.0, *scales, scale, sink, False, causal,
        *window, cap, sums, None, None, False, None, None,
    )  # fmt: skip


def _spec_decode_varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    cu_seqlens_q: Tensor,
    seqused_k: Tensor,
    block_table: Tensor,
    max_seqlen_k: int,
    k_descale: Tensor | None,
    v_descale: Tensor | None,
    softmax_scale: float,
    s_aux: Tensor | None,
    window_size: tuple[int, int],
    softcap: float,
) -> Tensor:
    """Attention of sequences with as many queries each: every query as a sequence of its own, which the kernel over pages takes."""
    count = cu_seqlens_q.numel() - 1
    each = q.size(0) // count
    begins = torch.arange(q.size(0) + 1, dtype=torch.int32, device=q.device)
    behind = torch.arange(1 - each, 1, dtype=seqused_k.dtype, device=q.device)
    used = (seqused_k[:count, None] + behind).clamp_(min=0).flatten().to(torch.int32)
    table = block_table[:count].repeat_interleave(each, 0)
    return _attend(
        q, k, v, out, begins, None, used, table, 1, max_seqlen_k, (k_descale, v_descale), softmax_scale, s_aux, True,
        window_size, softcap, False,
    )[0]  # fmt: skip


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    max_seqlen_q: int,
    cu_seqlens_q: Tensor,
    max_seqlen_k: int,
    cu_seqlens_k: Tensor | None = None,
    seqused_k: Tensor | None = None,
    q_v: Tensor | None = None,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Sequence[int] | None = None,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
    return_softmax_lse: bool = False,
    out: Tensor | None = None,
    scheduler_metadata: Tensor | None = None,
    q_descale: Tensor | None = None,
    k_descale: Tensor | None = None,
    v_descale: Tensor | None = None,
    num_splits: int = 0,
    fa_version: int = DEFAULT_FA_VERSION,
    s_aux: Tensor | None = None,
    num_splits_kv: int | None = None,
    is_mix_batch: bool = True,
    host_kv_lens: Tensor | Sequence[int] | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the attention of packed queries, with `return_softmax_lse` also the logarithms of the sums (heads, queries).

    Args:
        q: (tokens, heads, dim).
        k, v: (keys, key heads, dim), or pages (pages, page, key heads, dim) with `block_table`.
        cu_seqlens_q, cu_seqlens_k: where sequences begin, and where the last one ends; the second without pages.
        seqused_k, host_kv_lens: keys of each sequence, on the device or on the host; with pages.
        k_descale, v_descale: one scale for all keys, and for all values, of caches of 8 bits.
        s_aux: (heads,), a score per head that takes part in the sum and has no value.
        window_size: keys that a query sees left and right of its own; -1 for all.
        softcap: scores are softcap * tanh(score / softcap); 0 for none.
        The others choose between kernels of the distribution and have no effect.

    Raises:
        ValueError: for lengths that are missing or given twice.
        NotImplementedError: for dropout, alibi_slopes, q_v, q_descale, scheduler_metadata or another version.

    Source: Dao, FlashAttention-2, arXiv:2307.08691; vLLM's flash_attn_varlen_func.
    """
    refused = {
        "q_v": q_v,
        "q_descale": q_descale,
        "scheduler_metadata": scheduler_metadata,
        "alibi_slopes": alibi_slopes,
    }
    for name, value in refused.items():
        if value is not None:
            raise NotImplementedError(f"flash_attn_varlen_func: xpu_ops does not serve {name}")
    if fa_version != DEFAULT_FA_VERSION or dropout_p or num_splits > 1:
        raise NotImplementedError("flash_attn_varlen_func: xpu_ops serves fa_version=2 without dropout and splits")
    if host_kv_lens is not None:
        if seqused_k is not None:
            raise ValueError("flash_attn_varlen_func: give host_kv_lens or seqused_k, not both")
        seqused_k = torch.as_tensor(host_kv_lens, dtype=torch.int32, device=q.device)
    if (cu_seqlens_k is None) == (seqused_k is None) or (block_table is None) != (cu_seqlens_k is not None):
        raise ValueError("flash_attn_varlen_func: pages need seqused_k, packed keys cu_seqlens_k, and not both")
    scale = q.size(-1) ** -0.5 if softmax_scale is None else softmax_scale
    left, right = (-1, -1) if window_size is None else window_size
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    if block_table is not None and seqused_k is not None and causal and not return_softmax_lse and softcap == 0.0:
        count = cu_seqlens_q.numel() - 1
        if 1 < max_seqlen_q <= _SPECULATED and count > 0 and q.size(0) == count * max_seqlen_q:
            return _spec_decode_varlen_fwd(
                q, k, v, out, cu_seqlens_q, seqused_k, block_table, max_seqlen_k, k_descale, v_descale, scale, s_aux,
                (left, right), softcap,
            )  # fmt: skip
    result, sums = _attend(
        q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, block_table, max_seqlen_q, max_seqlen_k, (k_descale, v_descale),
        scale, s_aux, causal, (left, right), softcap, return_softmax_lse,
    )  # fmt: skip
    return (result, sums) if return_softmax_lse else result
