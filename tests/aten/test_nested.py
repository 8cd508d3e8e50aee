"""Between jagged and padded tensors against the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from support.compare import assert_same, to_device

import xpu_ops

A = torch.ops.aten
OFFSETS = torch.tensor([0, 2, 2, 7])


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 3)], ids=str)
def test_padding(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)
    for offsets in (OFFSETS, OFFSETS.int(), torch.tensor([1, 3, 7]), torch.tensor([0, 2, 4])):
        for length in (0, 2, 5, 9):
            args = values, [offsets], [length], -1.0
            got, want = (A._jagged_to_padded_dense_forward(*a) for a in (to_device(args), args))
            assert_same(got, want)
    dense = torch.arange(torch.Size((3, 5, *shape[1:])).numel()).reshape(3, 5, *shape[1:]).to(dtype)
    for offsets, total in ((OFFSETS, None), (OFFSETS, 7), (OFFSETS[:2], None)):
        got = A._padded_dense_to_jagged_forward(dense.to("xpu"), [offsets.to("xpu")], total)
        assert_same(got, A._padded_dense_to_jagged_forward(dense, [offsets], total))


def test_nothing_to_pad() -> None:
    args = torch.empty(0, 3), [torch.tensor([0, 0])], [2], 1.5
    assert_same(A._jagged_to_padded_dense_forward(*to_device(args)), A._jagged_to_padded_dense_forward(*args))


@pytest.mark.parametrize("shape", [(), (4, 0), (1, 1), (5, 1), (5, 3), (3, 4)], ids=str)
def test_strides_and_offsets(shape: tuple[int, ...]) -> None:
    sizes = torch.randint(5, shape)
    want = A._nested_compute_contiguous_strides_offsets(sizes)
    assert_same(A._nested_compute_contiguous_strides_offsets(sizes.to("xpu")), want)


def test_strides_and_offsets_of_no_items() -> None:
    strides, offsets = A._nested_compute_contiguous_strides_offsets(torch.empty(0, 3, dtype=torch.int64, device="xpu"))
    assert strides.shape == (0, 3) and offsets.shape == (0,)  # torch's CPU kernel writes to nothing here


def test_strides_and_offsets_of_other_layouts() -> None:
    sizes = torch.randint(1, 9, (5, 6))
    for there, here in ((sizes.to("xpu")[:, ::2], sizes[:, ::2]), (sizes.to("xpu").t(), sizes.t())):
        want = A._nested_compute_contiguous_strides_offsets(here.contiguous())
        assert_same(A._nested_compute_contiguous_strides_offsets(there), want)
    with pytest.raises(RuntimeError, match="a row of sizes per item"):
        A._nested_compute_contiguous_strides_offsets(sizes.to("xpu")[None])
    for wrong in (sizes[0], sizes.int()):
        for device in ("cpu", "xpu"):
            with pytest.raises(
                (RuntimeError, IndexError), match="Dimension out of range|expected scalar type Long but"
            ):
                A._nested_compute_contiguous_strides_offsets(wrong.to(device))


def test_errors() -> None:
    dense, values = torch.ones(3, 4, 2), torch.ones(7, 2)
    for function, args in (
        (A._padded_dense_to_jagged_forward.default, (dense, [OFFSETS], None)),  # an item longer than the padding
        (A._padded_dense_to_jagged_forward, (dense, [OFFSETS // 2], 99)),
        (A._jagged_to_padded_dense_forward, (values, [OFFSETS[None]], [4], 0.0)),
        (A._jagged_to_padded_dense_forward, (values, [OFFSETS, OFFSETS], [4, 4], 0.0)),
    ):
        with pytest.raises(RuntimeError):
            function(*args)
        with pytest.raises(RuntimeError, match=function.__name__.partition(".")[0]):
            function(*to_device(args))


def test_masks_that_are_aligned() -> None:
    x, mask = torch.randn(3, 4, 2), torch.arange(4)[None] < torch.tensor([2, 4, 3])[:, None]
    for m in (mask, mask.flip(1), mask | True):
        args = x, m
        want = A._nested_tensor_from_mask_left_aligned(*args)
        assert A._nested_tensor_from_mask_left_aligned(*to_device(args)) is want


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, dtype: torch.dtype) -> None:
    """Of sequences of several lengths, as each alone; queries and keys may differ in number. The gradients, too."""
    attention = torch.nn.functional.scaled_dot_product_attention
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    generator = torch.Generator().manual_seed(0)
    for queries, keys, dim in (((3, 7, 5), (3, 7, 5), 64), ((4, 1), (6, 2), 20), ((1,), (1,), 8)):
        if causal and queries != keys:
            continue
        parts = [
            [torch.randn(n, 2, dim, generator=generator).to(dtype).requires_grad_() for n in lengths]
            for lengths in (queries, keys, keys)
        ]
        there = [[p.detach().to("xpu").requires_grad_() for p in operand] for operand in parts]
        nested = [torch.nested.as_nested_tensor(o, layout=torch.jagged).transpose(1, 2) for o in there]
        out = attention(*nested, is_causal=causal).transpose(1, 2)
        wanted = [
            attention(*(p.float().transpose(0, 1)[None] for p in one), is_causal=causal)
            for one in zip(*parts, strict=True)
        ]
        for got, want in zip(out.unbind(), wanted, strict=True):
            torch.testing.assert_close(got.cpu().float(), want[0].transpose(0, 1), rtol=tolerance, atol=tolerance)
        out.values().square().sum().backward()
        sum(w.square().sum() for w in wanted).backward()
        for got_operand, operand in zip(there, parts, strict=True):
            for got, want in zip(got_operand, operand, strict=True):
                torch.testing.assert_close(got.grad.cpu(), want.grad, rtol=8 * tolerance, atol=8 * tolerance)
