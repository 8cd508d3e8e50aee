"""Sampling of tokens and the best entries of rows, under the names of `_xpu_C` and `_C`."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm.kernels.common import require
from xpu_ops.vllm.kernels.registry import operator


def _generator(seeds: Tensor, device: torch.device) -> torch.Generator:
    """The generator of the device at a seed and an offset (int64, on the CPU)."""
    require(seeds.device.type == "cpu" and seeds.numel() == 2, "seeds must be two numbers on the CPU: seed and offset")
    seed, offset = seeds.tolist()
    generator = torch.Generator(device)
    generator.manual_seed(seed)
    if offset:
        generator.set_offset(offset - offset % 4)
    return generator


@operator("_xpu_C", "exponential_2d_(Tensor! tensor, Tensor! seeds, float lambda) -> ()")
def exponential_2d_(x: Tensor, seeds: Tensor, rate: float) -> None:
    require(x.dim() == 2, f"exponential_2d_: expected two dimensions, got {x.dim()}")
    x.exponential_(rate, generator=_generator(seeds, x.device))


def _keep(logits: Tensor, k: Tensor | None, p: Tensor | None) -> None:
    """Set to -inf, in place, what is neither among the k largest nor in the nucleus of probability p of a row."""
    if k is None and p is None:
        return
    if p is None and k is not None:
        k = k.clamp(1, logits.size(1)).to(torch.int64)
        best = logits.topk(int(k.max()), 1)[0]
        logits.masked_fill_(logits < best.gather(1, k[:, None] - 1), float("-inf"))
        return
    ordered, index = logits.sort(-1)
    if k is not None:
        at = (ordered.size(1) - k.clamp(1, ordered.size(1)).to(torch.int64))[:, None]
        ordered.masked_fill_(ordered < ordered.gather(1, at), float("-inf"))
    if p is not None:
        out = ordered.softmax(-1).cumsum_(-1) <= 1 - p[:, None]
        out[:, -1] = False
        ordered.masked_fill_(out, float("-inf"))
    logits.scatter_(-1, index, ordered)


@operator(
    "_xpu_C",
    "topk_topp_sampler(Tensor! random_sampled, Tensor? logits_to_return, Tensor! logits, Tensor? k, Tensor? p, "
    "str logprobs_mode, Tensor! seeds, float lambda) -> ()",
)
def topk_topp_sampler(
    out: Tensor,
    to_return: Tensor | None,
    logits: Tensor,
    k: Tensor | None,
    p: Tensor | None,
    mode: str,
    seeds: Tensor,
    rate: float,
) -> None:
    require(
        logits.dim() == 2 and out.numel() == logits.size(0),
        f"topk_topp_sampler: expected a token for each of the rows of {tuple(logits.shape)}, got {tuple(out.shape)}",
    )
    _keep(logits, k, p)
    if mode == "processed_logits" and to_return is not None:
        to_return.copy_(logits)
    elif mode == "processed_logprobs" and to_return is not None:
        to_return.copy_(logits.log_softmax(-1, dtype=torch.float32))
    shares = logits.softmax(-1, dtype=torch.float32)
    draws = torch.empty_like(shares)
    exponential_2d_(draws, seeds, rate)
    out.copy_(shares.div_(draws).argmax(-1).view(out.shape))


def _best_of_rows(logits: Tensor, begins: Tensor, ends: Tensor, out: Tensor, rows: int, count: int) -> None:
    """Write the places of the `count` largest of each row's part, counted from its begin; -1 behind the last."""
    require(
        out.size(0) >= rows and out.size(1) >= count,
        f"expected places for {rows} rows of {count}, got {tuple(out.shape)}",
    )
    at = torch.arange(logits.size(1), device=logits.device)
    begins, ends = begins[:rows, None].to(torch.int64), ends[:rows, None].to(torch.int64)
    inside = (at >= begins) & (at < ends)
    width = min(count, logits.size(1))
    index = logits[:rows].float().masked_fill(~inside, float("-inf")).topk(width, -1)[1]
    index = torch.where(inside.gather(1, index), index - begins, -1)
    out[:rows, :width].copy_(index)
    out[:rows, width:count].fill_(-1)


@operator(
    "_C",
    "top_k_per_row_prefill(Tensor logits, Tensor rowStarts, Tensor rowEnds, Tensor! indices, int numRows, int stride0, "
    "int stride1, int topK) -> ()",
)
def top_k_per_row_prefill(
    logits: Tensor, begins: Tensor, ends: Tensor, out: Tensor, rows: int, stride0: int, stride1: int, count: int
) -> None:
    _best_of_rows(logits, begins, ends, out, rows, count)


@operator(
    "_C",
    "top_k_per_row_decode(Tensor logits, int next_n, Tensor seq_lens, Tensor! indices, int numRows, int stride0, int stride1, "
    "int topK) -> ()",
)
def top_k_per_row_decode(
    logits: Tensor, next_n: int, lengths: Tensor, out: Tensor, rows: int, stride0: int, stride1: int, count: int
) -> None:
    at = torch.arange(rows, device=logits.device)
    sequence = torch.div(at, next_n, rounding_mode="floor")
    ends = lengths.flatten()[sequence] - next_n + at % next_n + 1 if lengths.dim() == 1 else lengths.flatten()[:rows]
    _best_of_rows(logits, torch.zeros_like(at), ends, out, rows, count)
