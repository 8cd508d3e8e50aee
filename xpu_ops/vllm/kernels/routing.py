"""Experts: which take a token, how their tokens lie, and the sum of what they make, under the names of `_moe_C`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from xpu_ops.vllm.kernels.common import fused, require
from xpu_ops.vllm.kernels.registry import operator


def _choose(
    weights: Tensor,
    ids: Tensor,
    sources: Tensor,
    scores: Tensor,
    scoring: str,
    renormalize: bool,
    bias: Tensor | None,
    padding: Tensor | None,
    factor: float = 1.0,
) -> None:
    """Write the experts of each token and their scores, by one kernel; of equal scores the first experts."""
    fused._choose_experts(weights, ids, sources, scores, scoring, renormalize, bias, factor, padding)


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
    _choose(weights, ids, sources, gating, "softmax", renormalize, bias, is_padding)


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
    _choose(weights, ids, sources, gating, "sigmoid", renormalize, bias, is_padding, factor)


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
    if tid2eid is None:
        _choose(weights, ids, sources, gating, "softplus_sqrt", renormalize, bias, is_padding, factor)
        return
    if input_ids is None:
        raise RuntimeError("topk_softplus_sqrt: tid2eid needs input_ids")
    require(ids.shape == weights.shape and weights.size(0) == gating.size(0), "expected as many experts as weights")
    chosen = tid2eid[input_ids.to(torch.int64)].to(torch.int64)
    best = functional.softplus(gating.float()).sqrt_().gather(1, chosen)
    if renormalize:
        best = best / best.sum(-1, keepdim=True)
    best = best * factor
    if is_padding is not None:
        best = best.masked_fill(is_padding[:, None], 0.0)
        chosen = chosen.masked_fill(is_padding[:, None], -1)
    weights.copy_(best)
    ids.copy_(chosen)
    places = torch.arange(weights.numel(), device=sources.device, dtype=sources.dtype)
    sources.copy_(places.view(weights.size(1), -1).t())


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
    require(scores.dim() == 2, f"grouped_topk: expected scores of two dimensions, got {tuple(scores.shape)}")
    require(
        n_group > 0 and scores.size(1) % n_group == 0, f"grouped_topk: {n_group} groups do not divide {scores.size(1)}"
    )
    weights = torch.empty(scores.size(0), topk, dtype=torch.float32, device=scores.device)
    ids = torch.empty(scores.size(0), topk, dtype=torch.int32, device=scores.device)
    scoring = "sigmoid" if scoring_func == 1 else "none"
    fused._choose_experts(
        weights, ids, ids.new_empty(0), scores, scoring, renormalize, bias, factor, None, n_group, topk_group
    )
    return weights, ids


# ---- how tokens lie


def _whole_blocks(counts: Tensor, block: int) -> Tensor:
    return torch.div(counts + (block - 1), block, rounding_mode="floor") * block


def _expert_of(ends: Tensor, blocks: int, block: int, empty: int) -> Tensor:
    at = torch.arange(blocks, device=ends.device) * block
    expert = torch.searchsorted(ends, at, right=True).clamp_(max=ends.numel() - 1)
    return torch.where(at < ends[-1], expert, empty)


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
    fused._align_experts(sorted_ids, expert_ids, total, topk_ids, num_experts, block_size, expert_map)


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
    expert_ids.copy_(_expert_of(ends, expert_ids.numel(), block_size, -1))
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
    owner = token_lora.to(torch.int64).unsqueeze(1)
    sorted_ids, expert_ids = sorted_ids.view(-1, max_padded), expert_ids.view(-1, max_blocks)
    served = enabled.tolist()
    for lora in set(lora_ids.tolist()):
        if not 0 <= lora < max_loras or not served[lora]:
            continue
        mine = torch.where(owner == lora, topk_ids, -1)
        fused._align_experts(
            sorted_ids[lora], expert_ids[lora], total[lora : lora + 1], mine, num_experts, block_size, expert_map, -1
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
    if topk_ids is not None:
        require(topk_ids.shape == x.shape[:2], "moe_sum: topk_ids must have the shape [num_tokens, topk]")
    if expert_map is not None:
        require(expert_map.dtype == torch.int32, "moe_sum: expert_map must be int32")
    fused._sum_experts(out, x, None, None, topk_ids, expert_map)


@operator(
    "_moe_C",
    "moe_gather(Tensor! output, Tensor moe_output, Tensor topk_weights, Tensor unpermuted_row_to_permuted_row, "
    "int num_experts) -> ()",
)
def moe_gather(out: Tensor, rows: Tensor, weights: Tensor, places: Tensor, num_experts: int) -> None:
    fused._sum_experts(out, rows, places.view(weights.shape), weights)


@operator("_moe_C", "init_expert_map(Tensor expert_map, int num_experts, int ep_rank, int ep_size) -> ()")
def init_expert_map(expert_map: Tensor, num_experts: int, ep_rank: int, ep_size: int) -> None:
    at = torch.arange(expert_map.numel(), device=expert_map.device) - ep_rank * num_experts
    expert_map.copy_(torch.where((at >= 0) & (at < num_experts), at, -1))


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
    if scales is None or out_scales is None:
        scales, out_scales = None, out.new_empty(0)
    elif scales.dim() != 2:
        scales, out_scales = scales.view(scales.size(0), -1), out_scales.view(out_scales.size(0), -1)
    fused._spread_rows(out, out_scales, rows_per_expert, places, x, scales, topk_ids, expert_map)


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
