"""Hyper-connections, residual streams that are mixed, under the names of `_xpu_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import put, require
from xpu_ops.vllm.kernels.registry import operator


def _mixes(streams: Tensor, fn: Tensor, eps: float) -> Tensor:
    """The products of all streams of a token with `fn`, over their root mean square."""
    rows = streams.flatten(1).float()
    require(rows.size(1) == fn.size(1), f"expected streams of {fn.size(1)} values, got {rows.size(1)}")
    return torch.mm(rows, fn.t()).mul_(torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps))


def _sum(shares: Tensor, streams: Tensor) -> Tensor:
    return torch.bmm(shares.unsqueeze(1), streams.float()).squeeze(1).to(streams.dtype)


@operator(
    "_xpu_C",
    "mhc_pre(Tensor residual, Tensor fn, Tensor hc_scale, Tensor hc_base, float rms_eps, float hc_pre_eps, "
    "float hc_sinkhorn_eps, float hc_post_mult_value, int sinkhorn_repeat) -> (Tensor, Tensor, Tensor)",
)
def mhc_pre(
    residual: Tensor,
    fn: Tensor,
    scale: Tensor,
    base: Tensor,
    rms_eps: float,
    pre_eps: float,
    sinkhorn_eps: float,
    post_value: float,
    repeat: int,
) -> tuple[Tensor, Tensor, Tensor]:
    count, width = residual.shape[-2:]
    streams = residual.reshape(-1, count, width)
    mixes = _mixes(streams, fn, rms_eps)
    sizes = [count, count, count * count]
    pre, post, comb = (
        part * scale[i] + start
        for i, (part, start) in enumerate(zip(mixes.split(sizes, 1), base.split(sizes), strict=True))
    )
    comb = comb.view(-1, count, count).softmax(-1) + sinkhorn_eps
    comb = comb / (comb.sum(-2, keepdim=True) + sinkhorn_eps)
    for _ in range(repeat - 1):
        for dim in (-1, -2):
            comb = comb / (comb.sum(dim, keepdim=True) + sinkhorn_eps)
    taken = _sum(torch.sigmoid(pre) + pre_eps, streams)
    return (torch.sigmoid(post) * post_value).unsqueeze(-1), comb, taken


@operator("_xpu_C", "mhc_post(Tensor x, Tensor residual, Tensor post_layer_mix, Tensor comb_res_mix) -> Tensor")
def mhc_post(x: Tensor, residual: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    count, width = residual.shape[-2:]
    mixed = torch.bmm(comb.float().view(-1, count, count).mT, residual.reshape(-1, count, width).float())
    mixed.add_(post.float().view(-1, count, 1) * x.reshape(-1, 1, width))
    return mixed.view(residual.shape).to(residual.dtype)


@operator(
    "_xpu_C",
    "mhc_fused_post_pre(Tensor x, Tensor residual, Tensor post_layer_mix, Tensor comb_res_mix, Tensor fn, Tensor hc_scale, "
    "Tensor hc_base, float rms_eps, float hc_pre_eps, float hc_sinkhorn_eps, float hc_post_mult_value, int sinkhorn_repeat) "
    "-> (Tensor, Tensor, Tensor, Tensor)",
)
def mhc_fused_post_pre(
    x: Tensor,
    residual: Tensor,
    post: Tensor,
    comb: Tensor,
    fn: Tensor,
    scale: Tensor,
    base: Tensor,
    rms_eps: float,
    pre_eps: float,
    sinkhorn_eps: float,
    post_value: float,
    repeat: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    after = mhc_post(x, residual, post, comb)
    return after, *mhc_pre(after, fn, scale, base, rms_eps, pre_eps, sinkhorn_eps, post_value, repeat)


@operator(
    "_xpu_C",
    "hc_head_fused(Tensor hs_flat, Tensor fn, Tensor hc_scale, Tensor hc_base, Tensor! out, float rms_eps, float hc_eps) -> ()",
)
def hc_head_fused(
    streams: Tensor, fn: Tensor, scale: Tensor, base: Tensor, out: Tensor, rms_eps: float, eps: float
) -> None:
    mixes = _mixes(streams, fn, rms_eps)
    put(out, _sum(torch.sigmoid(mixes * scale[0] + base) + eps, streams))
