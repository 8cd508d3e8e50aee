"""Experts: which take a token, how their tokens lie, and the sum of what they make, under the names of `_moe_C`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from xpu_ops.vllm.kernels.common import put, require
from xpu_ops.vllm.kernels.registry import operator


def _best(scores: Tensor, count: int) -> Tensor:
    """The columns of the `count` largest scores of each row; of equals, the first."""
    require(count <= scores.size(-1), f"{count} experts of a token are more than the {scores.size(-1)} there are")
    return scores.topk(count, -1)[1]


def _choose(
    weights: Tensor,
    ids: Tensor,
    sources: Tensor,
    scores: Tensor,
    renormalize: bool,
    bias: Tensor | None,
    padding: Tensor | None,
    *,
    factor: float = 1.0,
    chosen: Tensor | None = None,
) -> None:
    """Write the experts of each token and their scores."""
    tokens, count = weights.shape
    require(
        scores.dim() == 2 and scores.size(0) == tokens and ids.shape == weights.shape,
        f"expected {tuple(scores.shape)} scores of {tokens} tokens and as many experts as weights",
    )
    if bias is not None:
        require(bias.numel() == scores.size(1), f"expected a bias of {scores.size(1)}, got {bias.numel()}")
    if chosen is None:
        chosen = _best(scores if bias is None else scores + bias.float(), count)
    best = scores.gather(1, chosen)
    if renormalize:
        best = best / best.sum(-1, keepdim=True)
    if factor != 1.0:
        best = best * factor
    if padding is not None:
        best = best.masked_fill(padding[:, None], 0.0)
        chosen = chosen.masked_fill(padding[:, None], -1)
    weights.copy_(best)
    ids.copy_(chosen)
    places = torch.arange(tokens * count, device=sources.device, dtype=sources.dtype)
    sources.copy_(places.view(count, tokens).t())


@operator(
    "_moe_C",
    "topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, "
    "bool renormalize, Tensor? bias, Tensor? is_padding=None) -> ()",
)
def topk_softmax(
    weights: Tensor,
    ids: Tensor,
    sources: Tensor,
    gating: Tensor,
    renormalize: bool,
    bias: Tensor | None = None,
    is_padding: Tensor | None = None,
) -> None:
    _choose(weights, ids, sources, gating.softmax(-1, dtype=torch.float32), renormalize, bias, is_padding)


@operator(
    "_moe_C",
    "topk_sigmoid(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, "
    "bool renormalize, Tensor? bias, float routed_scaling_factor, Tensor? is_padding=None) -> ()",
)
def topk_sigmoid(
    weights: Tensor,
    ids: Tensor,
    sources: Tensor,
    gating: Tensor,
    renormalize: bool,
    bias: Tensor | None,
    factor: float = 1.0,
    is_padding: Tensor | None = None,
) -> None:
    _choose(weights, ids, sources, gating.sigmoid().float(), renormalize, bias, is_padding, factor=factor)


@operator(
    "_moe_C",
    "topk_softplus_sqrt(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices, Tensor gating_output, "
    "bool renormalize, float routed_scaling_factor, Tensor? correction_bias=None, Tensor? input_ids=None, "
    "Tensor? tid2eid=None, Tensor? is_padding=None) -> ()",
)
def topk_softplus_sqrt(
    weights: Tensor,
    ids: Tensor,
    sources: Tensor,
    gating: Tensor,
    renormalize: bool,
    factor: float,
    bias: Tensor | None = None,
    input_ids: Tensor | None = None,
    tid2eid: Tensor | None = None,
    is_padding: Tensor | None = None,
) -> None:
    chosen = None
    if tid2eid is not None:
        if input_ids is None:
            raise RuntimeError("topk_softplus_sqrt: tid2eid needs input_ids")
        chosen = tid2eid[input_ids.to(torch.int64)].to(torch.int64)
    scores = functional.softplus(gating.float()).sqrt_()
    _choose(weights, ids, sources, scores, renormalize, bias, is_padding, factor=factor, chosen=chosen)


@operator(
    "_moe_C",
    "grouped_topk(Tensor scores, int n_group, int topk_group, int topk, bool renormalize, float routed_scaling_factor, "
    "Tensor bias, int scoring_func) -> (Tensor, Tensor)",
)
def grouped_topk(
    scores: Tensor,
    n_group: int,
    topk_group: int,
    topk: int,
    renormalize: bool,
    factor: float,
    bias: Tensor,
    scoring_func: int,
) -> tuple[Tensor, Tensor]:
    require(scoring_func in (0, 1), f"grouped_topk: scoring_func must be 0 or 1, got {scoring_func}")
    tokens, experts = scores.shape
    require(n_group > 0 and experts % n_group == 0, f"grouped_topk: {n_group} groups do not divide {experts} experts")
    require(0 < topk_group <= n_group, f"grouped_topk: topk_group must be 1 to {n_group}, got {topk_group}")
    scores = scores.sigmoid() if scoring_func == 1 else scores
    biased = (scores + bias).float()
    groups = biased.view(tokens, n_group, experts // n_group)
    of_group = groups.topk(min(2, groups.size(-1)), -1)[0].sum(-1)
    kept = torch.zeros_like(of_group, dtype=torch.bool).scatter_(1, _best(of_group, topk_group), True)
    biased = groups.masked_fill(~kept.unsqueeze(-1), float("-inf")).flatten(1)
    ids = _best(biased, topk)
    weights = scores.float().gather(1, ids)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights * factor, ids.to(torch.int32)


# ---- how tokens lie


def _local(ids: Tensor, experts: int, expert_map: Tensor | None) -> Tensor:
    """Expert of each choice, `experts` where it is none of this device."""
    known = (ids >= 0) & (ids < experts)
    if expert_map is not None:
        known &= expert_map[ids.clamp(0, expert_map.numel() - 1).to(torch.int64)] >= 0
    return torch.where(known, ids, experts).to(torch.int64)


def _count(key: Tensor, experts: int) -> Tensor:
    """How often each of `experts` numbers comes, and how often none does."""
    return torch.zeros(experts + 1, dtype=torch.int64, device=key.device).scatter_add_(0, key, torch.ones_like(key))


def _whole_blocks(counts: Tensor, block: int) -> Tensor:
    return torch.div(counts + (block - 1), block, rounding_mode="floor") * block


def _align(
    key: Tensor, experts: int, block: int, sorted_ids: Tensor, expert_ids: Tensor, total: Tensor, names: Tensor | None,
    empty: int = 0,
) -> None:  # fmt: skip
    """Write choices by expert, each expert's padded to whole blocks, and the expert of each block."""
    counts = _count(key, experts)
    padded = _whole_blocks(counts[:experts], block)
    ends = padded.cumsum(0)
    begins = functional.pad(ends - padded, (0, 1), value=sorted_ids.numel())
    order = key.argsort(stable=True)
    sorted_key = key[order]
    rank = torch.arange(key.numel(), device=key.device) - (counts.cumsum(0) - counts)[sorted_key]
    place = (begins[sorted_key] + rank).clamp_(max=sorted_ids.numel())
    room = torch.full((sorted_ids.numel() + 1,), key.numel(), dtype=sorted_ids.dtype, device=key.device)
    sorted_ids.copy_(room.scatter_(0, place, order.to(room.dtype))[:-1])
    expert_ids.copy_(_expert_of(ends, expert_ids.numel(), block, names, empty))
    total.copy_(ends[-1:] if experts else torch.zeros_like(total))


def _expert_of(ends: Tensor, blocks: int, block: int, names: Tensor | None, empty: int) -> Tensor:
    at = torch.arange(blocks, device=ends.device) * block
    expert = torch.searchsorted(ends, at, right=True).clamp_(max=ends.numel() - 1)
    return torch.where(at < ends[-1], expert if names is None else names[expert], empty)


@operator(
    "_moe_C",
    "moe_align_block_size(Tensor topk_ids, int num_experts, int block_size, Tensor! sorted_token_ids, Tensor! experts_ids, "
    "Tensor! num_tokens_post_pad, Tensor? maybe_expert_map) -> ()",
)
def moe_align_block_size(
    topk_ids: Tensor,
    num_experts: int,
    block_size: int,
    sorted_ids: Tensor,
    expert_ids: Tensor,
    total: Tensor,
    expert_map: Tensor | None = None,
) -> None:
    require(block_size > 0, f"moe_align_block_size: block_size must be above zero, got {block_size}")
    key = _local(topk_ids.flatten(), num_experts, expert_map)
    _align(key, num_experts, block_size, sorted_ids, expert_ids, total, expert_map)


@operator(
    "_moe_C",
    "batched_moe_align_block_size(int max_tokens_per_batch, int block_size, Tensor expert_num_tokens, "
    "Tensor! sorted_token_ids, Tensor! experts_ids, Tensor! num_tokens_post_pad) -> ()",
)
def batched_moe_align_block_size(
    max_tokens: int, block_size: int, counts: Tensor, sorted_ids: Tensor, expert_ids: Tensor, total: Tensor
) -> None:
    require(block_size > 0, f"batched_moe_align_block_size: block_size must be above zero, got {block_size}")
    experts, counts = counts.numel(), counts.to(torch.int64)
    padded = _whole_blocks(counts, block_size)
    ends = padded.cumsum(0)
    at = torch.arange(sorted_ids.numel(), device=counts.device)
    expert = torch.searchsorted(ends, at, right=True).clamp_(max=experts - 1)
    rank = at - (ends - padded)[expert]
    there = (rank < counts[expert]) & (at < ends[-1])
    sorted_ids.copy_(torch.where(there, expert * max_tokens + rank, experts * max_tokens))
    expert_ids.copy_(_expert_of(ends, expert_ids.numel(), block_size, None, -1))
    total.copy_(ends[-1:])


@operator(
    "_moe_C",
    "moe_lora_align_block_size(Tensor topk_ids, Tensor token_lora_mapping, int num_experts, int block_size, int max_loras, "
    "int max_num_tokens_padded, int max_num_m_blocks, Tensor! sorted_token_ids, Tensor! experts_ids, "
    "Tensor! num_tokens_post_pad, Tensor! adapter_enabled, Tensor! lora_ids, Tensor? maybe_expert_map) -> ()",
)
def moe_lora_align_block_size(
    topk_ids: Tensor,
    token_lora: Tensor,
    num_experts: int,
    block_size: int,
    max_loras: int,
    max_padded: int,
    max_blocks: int,
    sorted_ids: Tensor,
    expert_ids: Tensor,
    total: Tensor,
    enabled: Tensor,
    lora_ids: Tensor,
    expert_map: Tensor | None = None,
) -> None:
    every = _local(topk_ids.flatten(), num_experts, expert_map)
    owner = token_lora.to(torch.int64).repeat_interleave(topk_ids.size(1))
    sorted_ids, expert_ids = sorted_ids.view(-1, max_padded), expert_ids.view(-1, max_blocks)
    served = enabled.tolist()
    for lora in set(lora_ids.tolist()):
        if not 0 <= lora < max_loras or not served[lora]:
            continue
        key = torch.where(owner == lora, every, num_experts)
        _align(
            key,
            num_experts,
            block_size,
            sorted_ids[lora],
            expert_ids[lora],
            total[lora : lora + 1],
            expert_map,
            empty=-1,
        )


# ---- the sum


@operator("_moe_C", "moe_sum(Tensor input, Tensor! output, Tensor? topk_ids, Tensor? expert_map) -> ()")
def moe_sum(x: Tensor, out: Tensor, topk_ids: Tensor | None = None, expert_map: Tensor | None = None) -> None:
    require(x.dim() == 3, f"moe_sum: expected (tokens, experts of a token, columns), got {tuple(x.shape)}")
    require(topk_ids is not None or expert_map is None, "moe_sum: expert_map requires topk_ids")
    require(x.dtype == out.dtype, "moe_sum: input and output must have the same dtype")
    require(x.is_contiguous() and out.is_contiguous(), "moe_sum: input and output must be contiguous")
    require(
        out.shape == (x.size(0), x.size(2)),
        f"moe_sum: expected an output of shape {(x.size(0), x.size(2))}, got {tuple(out.shape)}",
    )
    if topk_ids is None:
        torch.sum(x, 1, out=out)
        return
    require(topk_ids.shape == x.shape[:2], "moe_sum: topk_ids must have the shape [num_tokens, topk]")
    there = topk_ids >= 0
    if expert_map is not None:
        require(expert_map.dtype == torch.int32, "moe_sum: expert_map must be int32")
        there &= expert_map[topk_ids.clamp(min=0).to(torch.int64)] >= 0
    torch.sum(torch.where(there.unsqueeze(-1), x, 0), 1, out=out)


@operator(
    "_moe_C",
    "moe_gather(Tensor! output, Tensor moe_output, Tensor topk_weights, Tensor unpermuted_row_to_permuted_row, "
    "int num_experts) -> ()",
)
def moe_gather(out: Tensor, rows: Tensor, weights: Tensor, places: Tensor, num_experts: int) -> None:
    tokens, count = weights.shape
    places = places.view(tokens, count)
    picked = rows.index_select(0, places.clamp(min=0).flatten()).view(tokens, count, rows.size(1))
    picked = torch.where((places >= 0).unsqueeze(-1), picked, 0).float()
    put(out, torch.bmm(weights.float().unsqueeze(1), picked).squeeze(1))


@operator("_moe_C", "init_expert_map(Tensor expert_map, int num_experts, int ep_rank, int ep_size) -> ()")
def init_expert_map(expert_map: Tensor, num_experts: int, ep_rank: int, ep_size: int) -> None:
    at = torch.arange(expert_map.numel(), device=expert_map.device) - ep_rank * num_experts
    expert_map.copy_(torch.where((at >= 0) & (at < num_experts), at, -1))


def _bytes(x: Tensor) -> Tensor:
    """Values of 8 bits or fewer as bytes, which every kernel that moves rows takes."""
    return x.view(torch.uint8) if x.element_size() == 1 else x


@operator(
    "_moe_C",
    "remap_hidden_states(Tensor hidden_states, Tensor? hidden_states_scales, Tensor remapped_hidden_states, "
    "Tensor? remapped_hidden_states_scales, Tensor? expert_map, Tensor rows_per_expert, "
    "Tensor unpermuted_row_to_permuted_row, Tensor topk_ids, int total_experts_num, int local_experts_num) -> ()",
)
def remap_hidden_states(
    x: Tensor,
    scales: Tensor | None,
    out: Tensor,
    out_scales: Tensor | None,
    expert_map: Tensor | None,
    rows_per_expert: Tensor,
    places: Tensor,
    topk_ids: Tensor,
    total_experts: int,
    local_experts: int,
) -> None:
    require(x.size(0) == topk_ids.size(0), f"remap_hidden_states: expected {topk_ids.size(0)} rows, got {x.size(0)}")
    require(rows_per_expert.numel() == local_experts, f"remap_hidden_states: expected {local_experts} counts of rows")
    ids = topk_ids.flatten().to(torch.int64)
    if expert_map is not None and expert_map.numel() == 0:
        ids = torch.full_like(ids, -1)
    elif expert_map is not None:
        ids = torch.where(ids >= 0, expert_map[ids.clamp(0, total_experts - 1)].to(torch.int64), -1)
    key = torch.where((ids >= 0) & (ids < local_experts), ids, local_experts)
    counts = _count(key, local_experts)
    order = key.argsort(stable=True)
    rank = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=order.device))
    places.copy_(torch.where(key < local_experts, rank, -1).view(places.shape))
    rows_per_expert.copy_(counts[:local_experts])
    source = torch.div(order, topk_ids.size(1), rounding_mode="floor")
    for given, to in ((x, out), (scales, out_scales)):
        if given is not None and to is not None:
            room, rows = _bytes(to)[: source.numel()], _bytes(given).index_select(0, source)
            if expert_map is not None:  # rows behind those of this device's experts stay as they are
                here = (key[order] < local_experts).view(-1, *([1] * (rows.dim() - 1)))
                rows = torch.where(here, rows, room)
            room.copy_(rows)


@operator(
    "_moe_C",
    "reorder_mxfp_scales(Tensor A_scales, Tensor rows_per_expert, int total_padded_rows) -> Tensor",
)
def reorder_mxfp_scales(scales: Tensor, rows_per_expert: Tensor, total_padded_rows: int) -> Tensor:
    rows, width = scales.shape
    counts = rows_per_expert.to(torch.int64)
    padded = (counts + 3) & ~3
    at = torch.arange(rows, device=scales.device)
    ends = counts.cumsum(0)
    expert = torch.searchsorted(ends, at, right=True).clamp_(max=counts.numel() - 1)
    begin = (padded.cumsum(0) - padded)[expert] * width + at - (ends - counts)[expert]
    place = begin[:, None] + torch.arange(width, device=scales.device) * padded[expert][:, None]
    out = torch.zeros(total_padded_rows * width, dtype=torch.uint8, device=scales.device)
    out.scatter_(0, place.flatten(), scales.view(torch.uint8).flatten())
    return out.view(scales.dtype).view(total_padded_rows, width)
