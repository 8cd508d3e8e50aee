"""flex_attention through torch.compile, against the eager one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

import xpu_ops

B, H, N, D = 2, 4, 150, 24


def operands(
    dtype: torch.dtype = torch.float32, keys: int = N, key_heads: int = H, grad: bool = False, dim: int = D
) -> list[Any]:
    torch.manual_seed(0)
    shapes = [(B, H, N, dim), (B, key_heads, keys, dim), (B, key_heads, keys, dim)]
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
    with xpu_ops.fallback.forbid():
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


def gradients(f: Any, leaves: list[Any], **kwargs: Any) -> tuple[Any, ...]:
    """Of the output and the sums of exponentials, by the operands and by what else wants a gradient."""
    out, aux = f(*leaves[:3], return_aux=AuxRequest(lse=True), **kwargs)
    return torch.autograd.grad(out.square().sum() + (aux.lse * 0.3).sum(), leaves)


# The kernels over blocks take heads of multiples of 16 elements, the others are whole matrices.
@pytest.mark.parametrize("dim", [D, 32])
@pytest.mark.parametrize("name", ["none", "relative", "soft cap", "alibi"])
def test_gradients(name: str, dim: int) -> None:
    kwargs = {"score_mod": SCORES[name](), "block_mask": create_block_mask(window, None, None, N, N, device="xpu")}
    leaves = operands(grad=True, dim=dim)
    actual = gradients(torch.compile(flex_attention, fullgraph=True), leaves, **kwargs)
    expected = gradients(flex_attention, [t.detach().double().requires_grad_() for t in leaves], **kwargs)
    torch.testing.assert_close(actual, tuple(t.float() for t in expected), rtol=1e-3, atol=1e-4)


def test_gradients_of_grouped_heads_and_one_batch_of_keys() -> None:
    q, k, v = operands(keys=77, key_heads=2, dim=16)
    leaves = [q.transpose(1, 2).contiguous().transpose(1, 2), k[:1], v[:1]]
    blocks = create_block_mask(window, B, 1, N, 77, device="xpu")
    actual, expected = (
        gradients(f, [t.detach().requires_grad_() for t in leaves], enable_gqa=True, block_mask=blocks)
        for f in (torch.compile(flex_attention, fullgraph=True), flex_attention)
    )
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    assert [t.stride() for t in actual] == [t.stride() for t in expected]


def test_gradient_of_a_tensor_that_the_score_reads() -> None:
    """Scores are whole matrices there."""
    leaves = [*operands(grad=True, dim=16), torch.randn(H, device="xpu", requires_grad=True)]

    def f(q: Any, k: Any, v: Any, **kwargs: Any) -> Any:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + leaves[3][h] * (i - j) * 0.01, **kwargs)

    torch.testing.assert_close(gradients(torch.compile(f), leaves), gradients(f, leaves), rtol=1e-3, atol=1e-3)


def test_bf16_gradients() -> None:
    leaves = operands(torch.bfloat16, grad=True, dim=32)
    actual = gradients(torch.compile(flex_attention), leaves, score_mod=relative)
    expected = gradients(flex_attention, [t.detach().float().requires_grad_() for t in leaves], score_mod=relative)
    assert {t.dtype for t in actual} == {torch.bfloat16}
    torch.testing.assert_close([t.float() for t in actual], list(expected), rtol=4e-2, atol=4e-2)


def test_listed_blocks_alone_are_computed() -> None:
    """Lists decide, as in upstream's kernels: the third block of keys is in none of them, the function sees all."""
    q, k, v = (t.repeat(1, 1, 2, 1)[:, :, :256] for t in operands(dim=32))
    counts = torch.tensor([[[1, 2, 1, 0]]], dtype=torch.int32, device="xpu")
    lists = torch.tensor([[[[0, 1, 0, 0], [1, 0, 0, 0], [3, 0, 0, 0], [0, 0, 0, 0]]]], dtype=torch.int32, device="xpu")
    blocks = BlockMask.from_kv_blocks(counts, lists, BLOCK_SIZE=64)
    seen = torch.zeros(4, 4, dtype=torch.bool, device="xpu")
    seen[0, 0] = seen[1, 0] = seen[1, 1] = seen[2, 3] = True
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=seen.repeat_interleave(64, 0).repeat_interleave(64, 1)
    )
    actual, (code,) = run_and_get_code(torch.compile(flex_attention, fullgraph=True), q, k, v, block_mask=blocks)
    assert "flex_attention_blocks" in code
    torch.testing.assert_close(actual[:, :, :192], expected[:, :, :192], rtol=1e-4, atol=1e-5)
    assert not actual[:, :, 192:].any()


def test_no_matrix_of_scores() -> None:
    n = 2048
    q, k, v = (torch.randn(1, 4, n, 64, device="xpu", requires_grad=True) for _ in range(3))
    blocks = create_block_mask(causal, None, None, n, n, device="xpu")
    f = torch.compile(flex_attention, fullgraph=True)
    torch.autograd.grad(f(q, k, v, block_mask=blocks).sum(), (q, k, v))
    torch.xpu.reset_peak_memory_stats()
    before = torch.xpu.memory_allocated()
    torch.autograd.grad(f(q, k, v, block_mask=blocks).sum(), (q, k, v))
    assert torch.xpu.max_memory_allocated() - before < 4 * n * n * 4


def test_index_out_of_range() -> None:
    q, k, v = operands(dim=32)
    table = torch.zeros(N - 3, device="xpu")
    f = torch.compile(flex_attention)
    with pytest.raises(RuntimeError, match=r"index out of bounds: .*\w+ < 147"):
        f(q, k, v, score_mod=lambda s, b, h, i, j: s + table[j])
        torch.xpu.synchronize()
    torch.testing.assert_close(f(q, k, v), flex_attention(q, k, v), rtol=1e-4, atol=1e-5)


def test_any_length() -> None:
    f = torch.compile(flex_attention, dynamic=True, fullgraph=True)
    for n, dim in ((40, D), (57, D), (40, 32), (57, 32), (131, 32)):
        table = torch.randn(n, device="xpu")

        def score(s: Any, b: Any, h: Any, i: Any, j: Any, table: Any = table) -> Any:
            return s + table[i] * table[j]

        q, k, v = (t[:, :, :n].contiguous() for t in operands(dim=dim))
        torch.testing.assert_close(
            f(q, k, v, score_mod=score), flex_attention(q, k, v, score_mod=score), rtol=1e-4, atol=1e-5
        )
