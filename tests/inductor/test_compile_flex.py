"""flex_attention through torch.compile, against the eager one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import xpu_ops

B, H, N, D = 2, 4, 150, 24


def operands(dtype: torch.dtype = torch.float32, keys: int = N, key_heads: int = H, grad: bool = False) -> list[Any]:
    torch.manual_seed(0)
    shapes = [(B, H, N, D), (B, key_heads, keys, D), (B, key_heads, keys, D)]
    return [torch.randn(s, device="xpu", dtype=dtype).requires_grad_(grad) for s in shapes]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def window(b: Any, h: Any, q: Any, k: Any) -> Any:
    return (q >= k) & (q - k < 40)


def relative(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return s + (q - k) * 0.01


def soft_cap(s: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return 5 * torch.tanh(s / 5)


def alibi() -> Any:
    slopes = 2.0 ** -torch.arange(1, H + 1, device="xpu")
    return lambda s, b, h, q, k: s + slopes[h] * (k - q)


def documents() -> Any:
    """A tensor decides who looks at whom."""
    number = torch.arange(N, device="xpu") // 50
    return lambda s, b, h, q, k: torch.where(number[q] == number[k], s, -float("inf"))


SCORES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "relative": lambda: relative,
    "soft cap": lambda: soft_cap,
    "alibi": alibi,
    "documents": documents,
}


@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str) -> None:
    q, k, v = operands()
    score = SCORES[name]()
    expected = flex_attention(q, k, v, score_mod=score)
    with xpu_ops.forbid_fallback():
        actual = torch.compile(flex_attention, fullgraph=True)(q, k, v, score_mod=score)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mask", [causal, window], ids=["causal", "window"])
def test_masks(mask: Any) -> None:
    q, k, v = operands()
    blocks = create_block_mask(mask, None, None, N, N, device="xpu")
    expected = flex_attention(q, k, v, block_mask=blocks)
    actual = torch.compile(flex_attention, fullgraph=True)(q, k, v, block_mask=blocks)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_grouped_heads_and_their_sums() -> None:
    q, k, v = operands(keys=77, key_heads=2)

    def f(q: Any, k: Any, v: Any) -> Any:
        out, aux = flex_attention(q, k, v, enable_gqa=True, return_aux=AuxRequest(lse=True))
        return out, aux.lse

    torch.testing.assert_close(torch.compile(f, fullgraph=True)(q, k, v), f(q, k, v), rtol=1e-4, atol=1e-5)


def test_bf16() -> None:
    q, k, v = operands(torch.bfloat16)
    actual = torch.compile(flex_attention)(q, k, v, score_mod=relative)
    expected = flex_attention(q.float(), k.float(), v.float(), score_mod=relative)
    torch.testing.assert_close(actual.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["relative", "alibi"])
def test_gradients(name: str) -> None:
    score = SCORES[name]()
    blocks = create_block_mask(causal, None, None, N, N, device="xpu")

    def gradients(f: Any, dtype: torch.dtype) -> Any:
        leaves = [t.detach().to(dtype).requires_grad_() for t in operands()]
        out = f(*leaves, score_mod=score, block_mask=blocks)
        return torch.autograd.grad(out.square().sum(), leaves)

    actual = gradients(torch.compile(flex_attention, fullgraph=True), torch.float32)
    expected = gradients(flex_attention, torch.float64)
    torch.testing.assert_close(actual, tuple(t.float() for t in expected), rtol=1e-3, atol=1e-4)


def test_any_length() -> None:
    f = torch.compile(flex_attention, dynamic=True, fullgraph=True)
    score = relative
    for n in (40, 57):
        q, k, v = (t[:, :, :n].contiguous() for t in operands())
        torch.testing.assert_close(
            f(q, k, v, score_mod=score), flex_attention(q, k, v, score_mod=score), rtol=1e-4, atol=1e-5
        )
