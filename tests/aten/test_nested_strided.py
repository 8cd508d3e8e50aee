"""Nested tensors of strided layout, and what torch's transformer layers and jagged attention make of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from support.compare import assert_same, to_device

import xpu_ops

A = torch.ops.aten
LENGTHS = [3, 5, 1]
WIDTH = 16


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def nested(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.randn(n, *shape).to(dtype) for n in LENGTHS])


def padding_mask() -> torch.Tensor:
    return torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]


def same_items(got: torch.Tensor, want: torch.Tensor, tol: tuple[float, float] | None = None) -> None:
    assert got.is_nested and got.device.type == "xpu"
    for a, b in zip(got.unbind(), want.unbind(), strict=True):
        assert_same(a, b, tol=tol)


@pytest.mark.parametrize("mask_check", [False, True])
def test_from_mask(mask_check: bool) -> None:
    x, mask = torch.randn(3, 5, 4), ~padding_mask()
    want = torch._nested_tensor_from_mask(x, mask, mask_check)
    same_items(torch._nested_tensor_from_mask(x.to("xpu"), mask.to("xpu"), mask_check), want)


def test_from_mask_refuses_gaps() -> None:
    mask = (~padding_mask()).flip(1)
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="left-aligned without gaps"):
            torch._nested_tensor_from_mask(torch.randn(3, 5, 4, device=device), mask.to(device))


@pytest.mark.parametrize("fuse", [False, True])
def test_from_padded(fuse: bool) -> None:
    padded = torch.randn(3, 2, 5, 4) if fuse else torch.randn(3, 5, 8)
    for sizes in ([[3, 8], [5, 8], [1, 8]], [[0, 8], [2, 8], [0, 8]], [[3, 2], [5, 8], [0, 1]]):
        example = torch.tensor(sizes)
        want = A._nested_from_padded(padded, example, fuse)
        same_items(A._nested_from_padded(padded.to("xpu"), example, fuse), want)


@pytest.mark.parametrize("sizes", [[[3, 8], [6, 8], [1, 8]], [[3, 8], [-1, 8], [1, 8]], [[3, 8]], [[3], [5], [1]]])
def test_from_padded_refuses_other_sizes(sizes: list[list[int]]) -> None:
    with pytest.raises(RuntimeError, match="_nested_from_padded"):
        A._nested_from_padded(torch.randn(3, 5, 8, device="xpu"), torch.tensor(sizes))


@pytest.mark.parametrize("shape", [(), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("more", [None, 0, 2])
def test_to_padded(shape: tuple[int, ...], more: int | None) -> None:
    x = nested(*shape)
    size = None if more is None else (3, max(LENGTHS) + more, *shape)
    assert_same(x.to("xpu").to_padded_tensor(-1.0, size), x.to_padded_tensor(-1.0, size))
    wider = (3, 6, *(n + 1 for n in shape))
    assert_same(x.to("xpu").to_padded_tensor(-1.0, wider), x.to_padded_tensor(-1.0, wider))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_layer_norm(dtype: torch.dtype) -> None:
    x, weight, bias = nested(2, 8, dtype=dtype), torch.randn(2, 8).to(dtype), torch.randn(2, 8).to(dtype)
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    xleaves = [t.detach().to("xpu").requires_grad_() for t in (x, weight, bias)]
    want, got = (F.layer_norm(v[0], (2, 8), v[1], v[2]) for v in (leaves, xleaves))
    tol = (1e-5, 1e-5) if dtype == torch.float32 else (2e-2, 4e-2)
    same_items(got, want, tol)
    grad = nested(2, 8, dtype=dtype)
    want.backward(grad)
    got.backward(grad.to("xpu"))
    same_items(xleaves[0].grad, leaves[0].grad, tol)
    for a, b in zip(xleaves[1:], leaves[1:], strict=True):
        assert_same(a.grad, b.grad, tol=tol)


@pytest.mark.parametrize("widths", [(4, 4, 4), (4, 0, 7), (0, 0, 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_sum_of_rows(widths: tuple[int, ...], dtype: torch.dtype) -> None:
    items = [torch.arange(n * 2 * w).view(n, 2, w).to(dtype) for n, w in zip(LENGTHS, widths, strict=True)]
    want = [x.sum(-1, keepdim=True, dtype=dtype) for x in items]
    x = torch.nested.nested_tensor(items).to("xpu")
    got = torch.sum(x, -1, keepdim=True)
    assert got.dtype == dtype
    same_items(got, torch.nested.nested_tensor(want))
    spread = A._nested_sum_backward(got, x, [-1], True)
    same_items(spread, torch.nested.nested_tensor([w.expand_as(x).clone() for w, x in zip(want, items, strict=True)]))
    if dtype.is_floating_point:
        leaf = x.detach().requires_grad_()
        torch.sum(leaf, -1, keepdim=True).backward(got)
        same_items(leaf.grad, spread.cpu())


def test_sum_of_rows_refuses() -> None:
    x = nested(4).to("xpu")
    for call, text in (
        (lambda: torch.sum(x, [-1]), "always requires keepdim=True"),
        (lambda: torch.sum(x, [1], keepdim=True), "only be reduced across the last dimension"),
        (lambda: torch.sum(x, [1, 2], keepdim=True), "only allows reduction of a single dimension"),
        (lambda: torch.sum(x, [-1], keepdim=True, dtype=torch.float64), "does not support dtype argument"),
        (lambda: torch.sum(x.transpose(1, 2), [-1], keepdim=True), "when the input is noncontiguous"),
        (lambda: A._nested_sum_backward(x, x, [-1], True), "one element per row"),
        (lambda: A._nested_sum_backward(torch.ones(2, device="xpu"), x, [-1], True), "requires a NestedTensor"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    assert torch.sum(torch.nested.nested_tensor([]).to("xpu"), [-1], keepdim=True).numel() == 0


def test_operators() -> None:
    x, weight = nested(4), torch.randn(6, 4)
    same_items(F.linear(x.to("xpu"), weight.to("xpu")), F.linear(x, weight), (1e-5, 1e-5))
    x, y = nested(2, 4), nested(2, 4)
    for f in (
        lambda x, y: F.gelu(x + y) * 2,
        lambda x, y: torch.softmax(x, -1),
        lambda x, y: x.transpose(1, 2) @ y.transpose(1, 2).transpose(-1, -2),
        lambda x, y: torch.cat([x, y]),
        lambda x, y: x.clone().mul_(y).relu_(),
    ):
        same_items(f(x.to("xpu"), y.to("xpu")), f(x, y), (1e-5, 1e-5))


def layer(norm_first: bool, activation: str) -> torch.nn.TransformerEncoderLayer:
    return torch.nn.TransformerEncoderLayer(
        WIDTH, 4, 32, batch_first=True, norm_first=norm_first, activation=activation, dropout=0.1
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("norm_first", "activation"), [(False, "relu"), (False, "gelu"), (True, "relu")])
def test_encoder_with_padding(norm_first: bool, activation: str, dtype: torch.dtype) -> None:
    model = torch.nn.TransformerEncoder(layer(norm_first, activation), 2).eval().to(dtype)
    on_xpu = copy.deepcopy(model).to("xpu")
    x, mask = torch.randn(3, max(LENGTHS), WIDTH).to(dtype), padding_mask()
    tol = (1e-4, 1e-5) if dtype == torch.float32 else (5e-2, 5e-2)
    for keys in (mask, mask.flip(1), None):  # the second is not left-aligned: no nested tensors
        with torch.no_grad():
            want = model(x, src_key_padding_mask=keys)
            got = on_xpu(x.to("xpu"), src_key_padding_mask=None if keys is None else keys.to("xpu"))
        assert_same(got, want, tol=tol)


def projections() -> list[torch.Tensor]:
    attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
    return [attention.in_proj_weight, torch.randn(3 * WIDTH), attention.out_proj.weight, torch.randn(WIDTH)]


@pytest.mark.parametrize("average", [False, True])
def test_multi_head_attention(average: bool) -> None:
    x, weights = nested(WIDTH), [p.detach() for p in projections()]
    xx, xweights = x.to("xpu"), to_device(weights)
    with torch.no_grad():
        want = torch._native_multi_head_attention(x, x, x, WIDTH, 4, *weights, None, True, average)
        got = torch._native_multi_head_attention(xx, xx, xx, WIDTH, 4, *xweights, None, True, average)
    same_items(got[0], want[0], (1e-4, 1e-5))
    for a, b, n in zip(got[1], want[1], LENGTHS, strict=True):
        assert_same(a[..., :n, :n], b[..., :n, :n], tol=(1e-4, 1e-5))
        assert not a[..., n:, :].any() and not a[..., n:].any()


def test_multi_head_attention_refuses() -> None:
    x, rest = nested(WIDTH).to("xpu"), to_device([p.detach() for p in projections()])
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="NestedTensor with mask"):
            torch._native_multi_head_attention(x, x, x, WIDTH, 4, *rest, padding_mask().to("xpu"), False)
        with pytest.raises(RuntimeError, match="evenly"):
            torch._native_multi_head_attention(x, x, x, WIDTH, 3, *rest, None, False)


def jagged(lengths: list[int], dtype: torch.dtype) -> torch.Tensor:
    items = [torch.randn(n, 2, 8).to(dtype) for n in lengths]
    return torch.nested.nested_tensor(items, layout=torch.jagged, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_jagged_attention(dtype: torch.dtype) -> None:
    leaves = [jagged(n, dtype) for n in (LENGTHS, [4, 2, 6], [4, 2, 6])]
    results = []
    for device in ("cpu", "xpu"):
        inputs = [t.detach().to(device).requires_grad_() for t in leaves]
        out = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in inputs))
        out.values().float().square().sum().backward()
        results.append([out.values(), *(t.grad.values() for t in inputs)])
    for want, got in zip(*results, strict=True):
        assert got.device.type == "xpu"
        assert_same(got, want, tol=(1e-4, 1e-5) if dtype == torch.float32 else (5e-2, 5e-2))


@pytest.mark.parametrize("device", ["xpu", "cpu"])
def test_attention_of_nested_tensors(device: str) -> None:
    """Equal to attention of each item, with gradients; the CPU's own way is as before."""
    generator = torch.Generator().manual_seed(5)
    items = [[torch.randn(2, n, 8, generator=generator) for n in (3, 5)] for _ in range(3)]
    there = [torch.nested.nested_tensor(part, device=device, requires_grad=True) for part in items]
    out = F.scaled_dot_product_attention(*there)
    out.values().sum().backward()
    for i in range(2):
        plain = [part[i].clone().requires_grad_() for part in items]
        want = F.scaled_dot_product_attention(*plain)
        want.sum().backward()
        torch.testing.assert_close(out.unbind()[i].detach().cpu(), want.detach())
        for leaf, alone in zip(there, plain, strict=True):
            assert leaf.grad is not None and alone.grad is not None
            torch.testing.assert_close(leaf.grad.unbind()[i].cpu(), alone.grad, atol=1e-5, rtol=1e-5)


def test_attention_of_nested_tensors_refuses() -> None:
    one = torch.nested.nested_tensor([torch.randn(2, 3, 8), torch.randn(2, 5, 8)], device="xpu")
    with pytest.raises(RuntimeError, match="not supported when is_causal=True"):
        F.scaled_dot_product_attention(one, one, one, is_causal=True)
    with (
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(one, one, one)


def test_encoder_of_nothing() -> None:
    module = layer(False, "relu").eval().to("xpu")
    width = module.linear1.in_features
    with torch.inference_mode():
        out = module(torch.nested.nested_tensor([torch.rand(0, width, device="xpu")]))
    assert out.is_nested and [tuple(t.shape) for t in out.unbind()] == [(0, width)]
