"""Attention over pages and over packed sequences, under the names of `_vllm_fa2_C` and `_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import cast, require
from xpu_ops.vllm.kernels.registry import operator

_attend = torch.ops.aten._flash_attention_forward_no_dropout_inplace
_EIGHT = (torch.float8_e4m3fn, torch.float8_e5m2)


def _own_pages(table: Tensor, *caches: Tensor) -> tuple[Tensor, list[Tensor]]:
    """A table of new pages and the caches that hold them, so that only what is read is converted."""
    pages = caches[0].size(0)
    wanted = table.flatten().clamp(0, max(pages - 1, 0))
    fresh = torch.arange(wanted.numel(), dtype=torch.int32, device=table.device).view(table.shape)
    return fresh, [c.view(torch.uint8).index_select(0, wanted).view(c.dtype) if c.element_size() == 1
                   else c.index_select(0, wanted) for c in caches]  # fmt: skip


def _capped(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, begins: list[int], keys: list[int], pages: Tensor | None, cap: float,
    scale: float, causal: bool, left: int, right: int,
) -> Tensor:  # fmt: skip
    """Attention with scores cap * tanh(score / cap), a sequence at a time; the logarithms of the sums (heads, queries)."""
    sums = torch.full((q.size(1), q.size(0)), float("inf"), dtype=torch.float32, device=q.device)
    at = 0
    for i in range(len(begins) - 1):
        first, last = begins[i], begins[i + 1]
        length = keys[i]
        if pages is None:
            key, value = k[at : at + length], v[at : at + length]
            at += length
        else:
            count = -(-length // k.size(1))
            key, value = (c.index_select(0, pages[i, :count]).flatten(0, 1)[:length] for c in (k, v))
        if first == last:
            continue
        group = q.size(1) // key.size(1)
        key, value = (t.repeat_interleave(group, 1).transpose(0, 1).float() for t in (key, value))
        scores = torch.tanh(torch.matmul(q[first:last].transpose(0, 1).float(), key.mT) * (scale / cap)).mul_(cap)
        place = torch.arange(first - last + length, length, device=q.device)[:, None]
        column = torch.arange(length, device=q.device)
        hidden = torch.zeros((last - first, length), dtype=torch.bool, device=q.device)
        if causal or right >= 0:
            hidden |= column > place + (0 if causal else right)
        if left >= 0:
            hidden |= column < place - left
        scores.masked_fill_(hidden, float("-inf"))
        none = hidden.all(-1)  # queries that see no key
        sums[:, first:last] = scores.logsumexp(-1).masked_fill_(none, float("inf"))
        shares = scores.softmax(-1).masked_fill_(none[:, None], 0.0)
        out[first:last] = torch.matmul(shares, value).transpose(0, 1).to(out.dtype)
    return sums


@operator(
    "_vllm_fa2_C",
    "varlen_fwd(Tensor q, Tensor k, Tensor v, Tensor!? out, Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_k, "
    "Tensor? leftpad_k, Tensor? block_table, Tensor? alibi_slopes, int max_seqlen_q, int max_seqlen_k, float p_dropout, "
    "Tensor? k_scale, Tensor? v_scale, float softmax_scale, Tensor? softmax_sink, bool zero_tensors, bool is_causal, "
    "int window_size_left, int window_size_right, float softcap, bool return_softmax, Generator? gen, int? num_splits, "
    "bool mix_batch, Tensor? splits_per_seq, Tensor? work_list) -> Tensor[]",
)
def varlen_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor | None,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    seqused_k: Tensor | None,
    leftpad_k: Tensor | None,
    block_table: Tensor | None,
    alibi_slopes: Tensor | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    p_dropout: float,
    k_scale: Tensor | None,
    v_scale: Tensor | None,
    softmax_scale: float,
    softmax_sink: Tensor | None,
    zero_tensors: bool,
    is_causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    return_softmax: bool,
    gen: torch.Generator | None = None,
    num_splits: int | None = None,
    mix_batch: bool = False,
    splits_per_seq: Tensor | None = None,
    work_list: Tensor | None = None,
) -> list[Tensor]:
    for name, given in (("leftpad_k", leftpad_k), ("alibi_slopes", alibi_slopes)):
        if given is not None:
            raise NotImplementedError(f"varlen_fwd: xpu_ops does not serve {name}")
    if p_dropout:
        raise NotImplementedError("varlen_fwd: xpu_ops does not serve dropout")
    require(q.dim() == 3, f"varlen_fwd: expected packed queries (tokens, heads, dim), got {tuple(q.shape)}")
    require(k.dim() == (3 if block_table is None else 4), f"varlen_fwd: unexpected keys {tuple(k.shape)}")
    table = block_table
    if k.dtype in _EIGHT:
        if table is not None:
            table, (k, v) = _own_pages(table, k, v)
        k, v = _scaled(k, k_scale, q.dtype), _scaled(v, v_scale, q.dtype)
    width = v.size(-1)
    if width < q.size(-1):
        if table is not None:
            table, (k, v) = _own_pages(table, k, v)
        v = torch.nn.functional.pad(v, (0, q.size(-1) - width))
    shape = (q.size(0), q.size(1), width)
    result = q.new_empty(shape) if out is None else out
    require(result.shape == shape, f"varlen_fwd: expected an output of shape {shape}, got {tuple(result.shape)}")
    to = result if width == q.size(-1) else torch.empty_like(q)
    one = table is not None and max_seqlen_q == 1 and q.size(0) == cu_seqlens_q.numel() - 1
    # The last query sees every key: it needs no bound on the right.
    causal, right = (True, 0) if one else (is_causal, window_size_right)
    left = window_size_left
    if softcap:
        lengths = seqused_k if seqused_k is not None else cu_seqlens_k.diff()
        sums = _capped(
            q, k, v, to, cu_seqlens_q.tolist(), lengths.tolist(), table, softcap, softmax_scale, causal, left, right
        )
    else:
        sums = _attend(
            to, q, k, v, cu_seqlens_q, None if table is not None else cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0,
            causal, False, scale=softmax_scale, window_size_left=left if left >= 0 else -1,
            window_size_right=0 if causal else (right if right >= 0 else -1), seqused_k=seqused_k, block_table=table,
        )  # fmt: skip
    if softmax_sink is not None:
        sums = _sink(to, sums, softmax_sink)
    if to is not result:
        result.copy_(to[..., :width])
    return [result, sums if return_softmax else sums.new_empty(0)]


def _scaled(x: Tensor, scale: Tensor | None, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if scale is None else (x.float() * scale.flatten()[0]).to(dtype)


def _sink(out: Tensor, sums: Tensor, sink: Tensor) -> Tensor:
    """Let one more key per head, which has a score and no value, take its share of what was computed without it."""
    score = sink.float()[:, None]
    # A query that saw no key has infinity for its sum and zeros for its result, which stay.
    share = torch.where(torch.isinf(sums), 1.0, torch.sigmoid(sums - score))
    out.mul_(share.t().unsqueeze(-1))
    return torch.where(torch.isinf(sums), score, torch.logaddexp(sums, score))


@operator(
    "_C",
    "merge_attn_states(Tensor! output, Tensor!? output_lse, Tensor prefix_output, Tensor prefix_lse, Tensor suffix_output, "
    "Tensor suffix_lse, int? prefill_tokens_with_context=None, Tensor? output_scale=None) -> ()",
)
def merge_attn_states(
    out: Tensor,
    out_lse: Tensor | None,
    prefix: Tensor,
    prefix_lse: Tensor,
    suffix: Tensor,
    suffix_lse: Tensor,
    prefill_tokens_with_context: int | None = None,
    output_scale: Tensor | None = None,
) -> None:
    tokens = suffix.size(0)
    require(
        prefix.shape[1:] == suffix.shape[1:] and out.shape == suffix.shape,
        f"merge_attn_states: {tuple(prefix.shape)} and {tuple(suffix.shape)} do not merge into {tuple(out.shape)}",
    )
    count = tokens if prefill_tokens_with_context is None else prefill_tokens_with_context
    require(0 <= count <= tokens, f"merge_attn_states: expected 0 to {tokens} tokens with a prefix, got {count}")
    # FlashAttention gives +inf where a query saw no key.
    first, second = (
        torch.where(lse == float("inf"), float("-inf"), lse)[:, :count] for lse in (prefix_lse, suffix_lse)
    )
    most = torch.maximum(first, second)
    most = torch.where(torch.isinf(most), 0.0, most)
    a, b = torch.exp(first - most), torch.exp(second - most)
    total = a + b
    share = [torch.where(total == 0, 0.0, part / total).t().unsqueeze(-1) for part in (a, b)]
    merged = prefix[:count].float() * share[0] + suffix[:count].float() * share[1]
    if output_scale is not None:
        factor = output_scale.float().reciprocal()
        out[:count].copy_(cast(merged * factor, out.dtype))
        out[count:].copy_(cast(suffix[count:].float() * factor, out.dtype))
    else:
        out[:count].copy_(merged)
        out[count:].copy_(suffix[count:])
    if out_lse is not None:
        out_lse[:, :count].copy_(torch.log(total) + most)
        out_lse[:, count:].copy_(suffix_lse[:, count:])
