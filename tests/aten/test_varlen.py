"""Attention of packed sequences against attention of each sequence alone, with its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.modes import GPU_POLICY

import xpu_ops

varlen = pytest.importorskip("torch.nn.attention.varlen")
A = torch.ops.aten
HEADS, WIDTH = 4, 16
FULL, CAUSAL = (-1, -1), (-1, 0)


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def begins(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def drawn(lengths: list[int], heads: int = HEADS, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sum(lengths), heads, WIDTH).to(dtype)


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, queries: list[int], keys: list[int], window: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of float64; queries that see no key give zeros and an infinite sum."""
    outs, sums = [], []
    parts = zip(q.double().split(queries), k.double().split(keys), v.double().split(keys), strict=True)
    for a, b, c in parts:
        group = a.shape[1] // b.shape[1]
        b, c = (t.repeat_interleave(group, 1) for t in (b, c))
        scores = torch.einsum("qhd,khd->hqk", a, b) / math.sqrt(WIDTH)
        last = torch.arange(len(a))[:, None] + len(b) - len(a)
        at = torch.arange(len(b))[None]
        hidden = (at > last + window[1]) & (window[1] >= 0) | (at < last - window[0]) & (window[0] >= 0)
        scores = scores.masked_fill(hidden, -math.inf)
        blind = hidden.all(1)
        weights = scores.softmax(-1).masked_fill(blind[:, None], 0)
        outs.append(torch.einsum("hqk,khd->qhd", weights, c))
        sums.append(scores.logsumexp(-1).masked_fill(blind, math.inf))
    return torch.cat(outs), torch.cat(sums, 1)


def call(inputs: list[torch.Tensor], queries: list[int], keys: list[int], **options: Any) -> Any:
    cu_q, cu_k = begins(queries).to("xpu"), begins(keys).to("xpu")
    aux = varlen.AuxRequest(lse=True)
    return varlen.varlen_attn(*inputs, cu_q, cu_k, max(queries), max(keys), return_aux=aux, **options)


LENGTHS = {"equal": ([3, 40, 1], [3, 40, 1]), "more keys": ([1, 5, 2], [7, 5, 30]), "fewer keys": ([9, 5], [4, 5])}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("window", [FULL, CAUSAL, (2, 0), (3, 1), (-1, 2)], ids=str)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_forward_and_backward(lengths: str, window: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    queries, keys = LENGTHS[lengths]
    host = [drawn(n, dtype=dtype).requires_grad_() for n in (queries, keys, keys)]
    there = [t.detach().to("xpu").requires_grad_() for t in host]
    want, sums = reference(*host, queries, keys, window)
    got, lse = call(there, queries, keys, window_size=window)
    tol = {"atol": 1e-5, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 2e-2, "rtol": 2e-2}
    assert got.dtype == dtype and got.device.type == "xpu"
    torch.testing.assert_close(got.double().cpu(), want, **tol)
    torch.testing.assert_close(lse.double().cpu().reshape(sums.shape), sums.detach(), **tol)
    grad = torch.randn(want.shape).to(dtype)
    wanted = torch.autograd.grad(want, host, grad.double())
    found = torch.autograd.grad(got, there, grad.to("xpu"))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.double().cpu(), b.double(), **tol)


def test_fewer_heads_of_keys() -> None:
    queries = [5, 2]
    q, k, v = drawn(queries), drawn(queries, 2), drawn(queries, 2)
    got, _ = call([t.to("xpu") for t in (q, k, v)], queries, queries, enable_gqa=True)
    want, _ = reference(q, k, v, queries, queries, FULL)
    torch.testing.assert_close(got.cpu().double(), want, atol=1e-5, rtol=1e-4)


def test_scale_and_empty_sequences() -> None:
    queries, keys = [2, 0, 3], [4, 5, 0]
    q, k, v = drawn(queries), drawn(keys), drawn(keys)
    got, lse = call([t.to("xpu") for t in (q, k, v)], queries, keys, scale=0.1 / math.sqrt(WIDTH))
    want, _ = reference(q[:2] * 0.1, k[:4], v[:4], [2], [4], FULL)
    torch.testing.assert_close(got[:2].cpu().double(), want, atol=1e-5, rtol=1e-4)
    assert not got[2:].any() and lse.isinf().sum() == 3 * HEADS


def test_used_keys_and_pages() -> None:
    """A cache of which a part is filled, in one piece and in pages of any order."""
    queries, keys, used = [1, 2], [6, 8], [5, 3]
    q, k, v = drawn(queries), drawn(keys), drawn(keys)
    parts = [torch.cat([t.split(keys)[i][: used[i]] for i in (0, 1)]) for t in (k, v)]
    want, _ = reference(q, *parts, queries, used, FULL)
    seqused = torch.tensor(used, dtype=torch.int32, device="xpu")
    got, _ = call([t.to("xpu") for t in (q, k, v)], queries, keys, seqused_k=seqused)
    torch.testing.assert_close(got.cpu().double(), want, atol=1e-5, rtol=1e-4)
    # Pages of two: sequence 0 is in pages 4, 1, 0 and sequence 1 in pages 2, 3, 5, 6.
    table = torch.tensor([[4, 1, 0, 0], [2, 3, 5, 6]], dtype=torch.int32)
    pools = []
    for t in (k, v):
        pool = torch.zeros(7, 2, HEADS, WIDTH)
        pool[table[0, :3].long()] = t[:6].view(3, 2, HEADS, WIDTH)
        pool[table[1].long()] = t[6:].view(4, 2, HEADS, WIDTH)
        pools.append(pool.to("xpu"))
    got, _ = call([q.to("xpu"), *pools], queries, keys, seqused_k=seqused, block_table=table.to("xpu"))
    torch.testing.assert_close(got.cpu().double(), want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_batches_of_one_length(causal: bool) -> None:
    q, k, v = (torch.randn(2, 7, HEADS, WIDTH) for _ in range(3))
    there = [t.to("xpu") for t in (q, k, v)]
    out, lse, *rest = A._flash_attention_forward(*there, None, None, 7, 7, 0.0, causal, False)
    want = torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=causal)
    torch.testing.assert_close(out.cpu(), want.transpose(1, 2), atol=1e-5, rtol=1e-4)
    assert lse.shape == (2, HEADS, 7)
    into = torch.empty_like(there[0])
    A._flash_attention_forward_no_dropout_inplace(into, *there, None, None, 7, 7, 0.0, causal, False)
    assert torch.equal(into, out)


def test_refused() -> None:
    x, cu = drawn([3, 4]).to("xpu"), begins([3, 4]).to("xpu")
    for cum in (begins([3, 9]), begins([3, -2]), begins([3, 4])[None], torch.zeros(0, dtype=torch.int32)):
        with pytest.raises(RuntimeError, match="varlen attention"):
            A._flash_attention_forward(x, x, x, cum.to("xpu"), cu, 4, 4, 0.0, False, False)
    with pytest.raises(NotImplementedError, match="no dropout"):
        A._flash_attention_forward(x, x, x, cu, cu, 4, 4, 0.1, False, False)
    with pytest.raises(NotImplementedError, match="alibi"):
        A._flash_attention_forward(x, x, x, cu, cu, 4, 4, 0.0, False, False, alibi_slopes=torch.ones(4, device="xpu"))
    with pytest.raises(RuntimeError, match="length, heads, dim"):
        A._flash_attention_forward(x[0], x, x, cu, cu, 4, 4, 0.0, False, False)


class Pages:
    """Sequences with one query each whose keys lie in pages of a pool; `expected` is of float64."""

    def __init__(self, lengths: list[int], heads: int, groups: int, dim: int, page: int, dtype: torch.dtype) -> None:
        columns = max(1, max(-(-n // page) for n in lengths))
        self.lengths, self.group, self.scale = lengths, heads // groups, dim**-0.5
        self.q = torch.randn(len(lengths), heads, dim).to(dtype)
        self.cache = torch.randn(columns * len(lengths) + 1, page, groups, 2 * dim).to(dtype)
        self.table = torch.randperm(columns * len(lengths)).view(len(lengths), columns).int() + 1

    def run(
        self, most: int = 1, left: int = -1, table: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cache, dim = self.cache.to("xpu"), self.q.size(-1)
        return A._flash_attention_forward(
            self.q.to("xpu"), cache[..., :dim], cache[..., dim:], torch.arange(len(self.lengths) + 1).int().to("xpu"), None,
            most, 0, 0.0, True, False, scale=self.scale, window_size_left=left, window_size_right=0,
            seqused_k=torch.tensor(self.lengths).int().to("xpu"), block_table=(self.table if table is None else table).to("xpu"),
        )[:2]  # fmt: skip

    def expected(self, left: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
        outs, sums, dim = [], [], self.q.size(-1)
        for q, pages, n in zip(self.q.double(), self.table, self.lengths, strict=True):
            rows = self.cache[pages.long()].flatten(0, 1)[max(0, n - 1 - left) if left >= 0 else 0 : n].double()
            k, v = (t.repeat_interleave(self.group, 1) for t in (rows[..., :dim], rows[..., dim:]))
            scores = torch.einsum("hd,khd->hk", q, k) * self.scale
            outs.append(torch.einsum("hk,khd->hd", scores.softmax(-1), v))
            sums.append(scores.logsumexp(-1) if n else torch.full((q.size(0),), math.inf, dtype=torch.float64))
        return torch.stack(outs), torch.stack(sums, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "shape",
    [(16, 4, 64, 64), (4, 4, 128, 16), (6, 3, 80, 7), (2, 1, 16, 64), (10, 2, 48, 100), (8, 1, 256, 33), (3, 1, 24, 8)],
)
@pytest.mark.parametrize("left", [-1, 0, 9, 1000])
def test_one_query_per_sequence_over_pages(shape: tuple[int, int, int, int], left: int, dtype: torch.dtype) -> None:
    pages = Pages([1, 5, 200, 64, 65, 130, 0], *shape, dtype)
    out, sums = pages.run(left=left)
    expected, expected_sums = pages.expected(left)
    close = {"rtol": 1e-5, "atol": 2e-6} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 1e-2}
    torch.testing.assert_close(out.cpu().double(), expected, **close)
    torch.testing.assert_close(
        sums.cpu().double(), expected_sums, rtol=1e-5, atol=1e-4 if dtype == torch.float32 else 1e-2
    )


def test_scores_of_infinity_and_nan_over_pages() -> None:
    pages = Pages([150, 150, 150], 1, 1, 16, 50, torch.float32)
    pages.q.fill_(1)
    dim = pages.q.size(-1)
    pages.cache[pages.table[0, 0], :, :, :dim] = -math.inf  # the first page weighs nothing
    pages.cache[pages.table[1, 1], 3, :, :dim] = math.nan
    pages.cache[pages.table[2, 2], 3, :, :dim] = math.inf
    out, _ = pages.run()
    expected, _ = pages.expected()
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=2e-6, equal_nan=True)
    assert out[0].isfinite().all() and out[1:].isnan().all()


@pytest.mark.parametrize("page", [-1, 99])
def test_page_that_is_not_there(page: int) -> None:
    pages = Pages([5, 20], 2, 1, 16, 8, torch.float32)
    table = pages.table.clone()
    table[1, 2] = page
    with pytest.raises(IndexError):
        pages.run(table=table)[0].cpu()
    pages.run()[0].cpu()


def test_lengths_past_the_pages() -> None:
    pages = Pages([5, 20], 2, 1, 16, 8, torch.float32)
    pages.lengths = [5, 25]
    with pytest.raises(RuntimeError):
        pages.run()[0].cpu()


@pytest.mark.skipif(GPU_POLICY, reason="the number is a promise to the CPU device's kernel alone")
def test_more_queries_than_said() -> None:
    pages = Pages([5, 20], 2, 1, 16, 8, torch.float32)
    q = torch.cat([pages.q, pages.q]).to("xpu")
    cache = pages.cache.to("xpu")
    with pytest.raises(RuntimeError, match="cum_seq_q has to rise by 0 or 1"):
        A._flash_attention_forward(
            q, cache[..., :16], cache[..., 16:], torch.tensor([0, 2, 4]).int().to("xpu"), None, 1, 0, 0.0, True, False,
            seqused_k=torch.tensor([5, 20]).int().to("xpu"), block_table=pages.table.to("xpu"),
        )[0].cpu()  # fmt: skip
