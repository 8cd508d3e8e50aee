"""Rotations, norms and caches of DeepSeek's layers, and the scores of its sparse attention, under the names of `_xpu_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.cache import placed, places
from xpu_ops.vllm.kernels.common import cast, fp8_scale, fused, mx_scale, power_of_two, require, to_e2m1
from xpu_ops.vllm.kernels.registry import operator

_FP8 = torch.float8_e4m3fn


def _turned(x: Tensor, positions: Tensor, cache: Tensor, plain: int, *, inverse: bool = False) -> Tensor:
    """x (tokens, ..., dim) in float32, its dimensions from `plain` on rotated in pairs of neighbours."""
    width = cache.size(1)
    require(plain + width == x.size(-1), f"{plain} plain and {width} rotated dimensions are not {x.size(-1)}")
    require(positions.numel() == x.size(0), f"expected {x.size(0)} positions, got {positions.numel()}")
    tables = cache.float().index_select(0, positions.flatten()).view(x.size(0), *([1] * (x.dim() - 2)), width)
    cos, sin = tables.chunk(2, -1)
    y = x.float()
    return torch.cat((y[..., :plain], fused.rotary_embedding(y[..., plain:], cos, sin, True, inverse)), -1)


@operator(
    "_xpu_C",
    "deepseek_qnorm_rope_kv_insert(Tensor! q, Tensor kv, Tensor! cache, Tensor slot_mapping, Tensor position_ids, "
    "Tensor cos_sin_cache, float eps, int block_size, str kv_cache_dtype) -> ()",
)
def deepseek_qnorm_rope_kv_insert(
    q: Tensor,
    kv: Tensor,
    cache: Tensor,
    slots: Tensor,
    positions: Tensor,
    cos_sin_cache: Tensor,
    eps: float,
    block_size: int,
    kind: str,
) -> None:
    require(
        kind in ("bf16", "fp8_ds_mla"),
        f"deepseek_qnorm_rope_kv_insert: kv_cache_dtype must be bf16 or fp8_ds_mla, got {kind!r}",
    )
    plain = q.size(-1) - cos_sin_cache.size(1)
    q.copy_(_turned(fused.rms_norm(q.float(), None, eps), positions, cos_sin_cache, plain))
    slots, (kv, positions) = placed(slots, kv, positions)
    turned = _turned(kv, positions, cos_sin_cache, plain).to(kv.dtype)
    block, at = places(slots, block_size)
    if kind == "bf16":
        cache.view(-1, block_size, kv.size(-1)).index_put_((block, at), turned)
        return
    group, tail = 64, turned[:, plain:].contiguous().view(torch.uint8)
    data, marks = plain + tail.size(1), plain // group + 1
    parts = turned[:, :plain].float().unflatten(-1, (-1, group))
    scale = power_of_two(fp8_scale(parts, 1e-4))
    values = cast(parts / scale, _FP8).flatten(1).view(torch.uint8)
    pages = cache.view(torch.uint8).view(cache.size(0), -1)
    require(
        pages.size(1) >= block_size * (data + marks),
        f"deepseek_qnorm_rope_kv_insert: a page of {pages.size(1)} bytes is too small for {block_size} tokens",
    )
    rows = pages[:, : block_size * data].view(pages.size(0), block_size, data)
    rows.index_put_((block, at), torch.cat((values, tail), 1))
    exponents = torch.nn.functional.pad(scale.flatten(1).view(torch.int32) >> 23, (0, 1)).to(torch.uint8)
    ends = pages[:, block_size * data : block_size * (data + marks)].view(pages.size(0), block_size, marks)
    ends.index_put_((block, at), exponents)


@operator(
    "_xpu_C",
    "deepseek_inv_rope_bf16(Tensor attn_output, Tensor positions, Tensor cos_sin_cache, int n_groups, int heads_per_group, "
    "int nope_dim, int rope_dim) -> Tensor",
)
def deepseek_inv_rope_bf16(
    x: Tensor, positions: Tensor, cos_sin_cache: Tensor, groups: int, heads: int, nope_dim: int, rope_dim: int
) -> Tensor:
    require(groups * heads == x.size(1), f"deepseek_inv_rope_bf16: expected {groups * heads} heads, got {x.size(1)}")
    y = _turned(x, positions, cos_sin_cache, nope_dim, inverse=True).to(x.dtype)
    return y.reshape(x.size(0), groups, heads * x.size(2))


@operator(
    "_xpu_C",
    "deepseek_inv_rope_fp8_quant(Tensor attn_output, Tensor positions, Tensor cos_sin_cache, int n_groups, "
    "int heads_per_group, int nope_dim, int rope_dim) -> (Tensor, Tensor)",
)
def deepseek_inv_rope_fp8_quant(
    x: Tensor, positions: Tensor, cos_sin_cache: Tensor, groups: int, heads: int, nope_dim: int, rope_dim: int
) -> tuple[Tensor, Tensor]:
    require(
        groups * heads == x.size(1), f"deepseek_inv_rope_fp8_quant: expected {groups * heads} heads, got {x.size(1)}"
    )
    require(x.size(2) % 128 == 0, f"deepseek_inv_rope_fp8_quant: groups of 128 do not divide {x.size(2)}")
    y = _turned(x, positions, cos_sin_cache, nope_dim, inverse=True)
    parts = y.view(x.size(0), groups, heads * x.size(2) // 128, 128).transpose(0, 1).contiguous()
    scale = power_of_two(fp8_scale(parts, 1e-10))
    return cast(parts / scale, _FP8).flatten(-2), scale.squeeze(-1)


def _query(q: Tensor, positions: Tensor, cache: Tensor) -> Tensor:
    """Queries rotated in float32, the rotated dimensions rounded to the type of q."""
    plain = q.size(-1) - cache.size(1)
    return _turned(q, positions, cache, plain).to(q.dtype).float()


@operator(
    "_xpu_C",
    "deepseek_fused_indexer_q_rope_fp8(Tensor q, Tensor positions, Tensor cos_sin_cache, Tensor index_weights, "
    "float softmax_scale, float head_scale, Tensor! q_fp8, Tensor! weights_out) -> ()",
)
def deepseek_fused_indexer_q_rope_fp8(
    q: Tensor,
    positions: Tensor,
    cos_sin_cache: Tensor,
    weights: Tensor,
    softmax_scale: float,
    head_scale: float,
    out: Tensor,
    weights_out: Tensor,
) -> None:
    y = _query(q, positions, cos_sin_cache)
    scale = power_of_two(fp8_scale(y, 1e-4))
    out.view(torch.uint8).copy_(cast(y / scale, _FP8).view(torch.uint8))
    weights_out.copy_(weights.float() * scale.squeeze(-1) * (softmax_scale * head_scale))


@operator(
    "_xpu_C",
    "deepseek_fused_indexer_q_rope_mxfp4(Tensor q, Tensor positions, Tensor cos_sin_cache, Tensor index_weights, "
    "float softmax_scale, float head_scale, Tensor! packed_out, Tensor! scales_out, Tensor! weights_out) -> ()",
)
def deepseek_fused_indexer_q_rope_mxfp4(
    q: Tensor,
    positions: Tensor,
    cos_sin_cache: Tensor,
    weights: Tensor,
    softmax_scale: float,
    head_scale: float,
    out: Tensor,
    scales: Tensor,
    weights_out: Tensor,
) -> None:
    parts = _query(q, positions, cos_sin_cache).unflatten(-1, (-1, 32))
    scale = mx_scale(parts, 6.0)
    out.copy_(to_e2m1((parts / scale).flatten(-2), even=False))
    exponent = (scale.squeeze(-1).contiguous().view(torch.int32) >> 23).to(torch.uint8)
    zero = torch.linalg.vector_norm(parts, float("inf"), -1) == 0
    scales.view(torch.uint8).copy_(torch.where(zero, 1, exponent))
    weights_out.copy_(weights.float() * (softmax_scale * head_scale))


# ---- scores that choose which keys are attended to


def _scores(q: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """The sum over heads of weight * max(query * key, 0): (queries, keys), of q (queries, heads, dim) and keys (keys, dim)."""
    out = torch.empty((q.size(0), keys.size(0)), dtype=torch.float32, device=q.device)
    step = max(1, (1 << 24) // max(1, q.size(1) * keys.size(0)))
    for first in range(0, q.size(0), step):
        part = q[first : first + step]
        scores = torch.mm(part.flatten(0, 1), keys.t(), out_dtype=torch.float32).relu_()
        torch.bmm(
            weights[first : first + step, None].float(),
            scores.view(*part.shape[:2], -1),
            out=out[first : first + step, None],
        )
    return out


@operator(
    "_xpu_C",
    "fp8_mqa_logits(Tensor q, Tensor kv, Tensor kv_scales, Tensor weights, Tensor cu_seqlen_ks, Tensor cu_seqlen_ke) -> Tensor",
)
def fp8_mqa_logits(q: Tensor, kv: Tensor, scales: Tensor, weights: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    require(
        q.dim() == 3 and kv.dim() == 2 and q.size(2) == kv.size(1),
        f"fp8_mqa_logits: {tuple(q.shape)} and {tuple(kv.shape)}",
    )
    out = _scores(q.to(torch.bfloat16), kv.to(torch.bfloat16), weights).mul_(scales.float().view(1, -1))
    at = torch.arange(kv.size(0), device=q.device)
    return out.masked_fill_((at < begins[:, None]) | (at >= ends[:, None]), float("-inf"))


@operator(
    "_xpu_C",
    "fp8_paged_mqa_logits(Tensor q_fp8, Tensor kv_cache_fp8, Tensor weights, Tensor context_lens, Tensor block_tables, "
    "Tensor? schedule_metadata, int max_model_len) -> Tensor",
)
def fp8_paged_mqa_logits(
    q: Tensor,
    cache: Tensor,
    weights: Tensor,
    lengths: Tensor,
    table: Tensor,
    schedule: Tensor | None,
    max_model_len: int,
) -> Tensor:
    count, queries, _, dim = q.shape
    pages, page = cache.shape[:2]
    flat = cache.view(torch.uint8).view(pages, -1)
    values = flat[:, : page * dim].view(pages, page, dim)
    scales = flat[:, page * dim :].view(torch.float32).view(pages, -1)[:, :page]
    out = torch.full((count * queries, max_model_len), float("-inf"), device=q.device)
    for i, length in enumerate(lengths.flatten()[:count].tolist()):
        wanted = table[i, : -(-length // page)]
        keys = values.index_select(0, wanted).view(_FP8).to(torch.bfloat16).flatten(0, 1)[:length]
        mine = slice(i * queries, (i + 1) * queries)
        scores = _scores(q[i].to(torch.bfloat16), keys, weights[mine])
        scores.mul_(scales.index_select(0, wanted).flatten()[:length])
        last = torch.arange(length - queries, length, device=q.device)
        scores.masked_fill_(torch.arange(length, device=q.device) > last[:, None], float("-inf"))
        out[mine, :length] = scores
    return out
