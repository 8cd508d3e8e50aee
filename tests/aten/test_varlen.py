"""Attention of packed sequences against attention of each sequence alone, with its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import xpu_ops

varlen = pytest.importorskip("torch.nn.attention.varlen")
A = torch.ops.aten
HEADS, WIDTH = 4, 16
FULL, CAUSAL = (-1, -1), (-1, 0)


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.forbid_fallback():
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
