"""2:4 sparse tensors on xpu: torch's classes unmodified, against dense products, and torch's own model of the pruning."""

from __future__ import annotations

import pytest
import torch
from support.compare import assert_near
from torch.sparse import SparseSemiStructuredTensorCUTLASS, to_sparse_semi_structured
from torch.sparse._semi_structured_conversions import (
    _sparse_semi_structured_tile,
    sparse_semi_structured_from_dense_cutlass,
)

import xpu_ops
from xpu_ops.coverage import dispatcher
from xpu_ops.upstream.sparse_semi_structured import OPERATORS

FLOATS = [torch.float16, torch.bfloat16, torch.float32]
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-5}


@pytest.fixture(autouse=True)
def no_fallback():  # type: ignore[no-untyped-def]
    with xpu_ops.fallback.forbid():
        yield


def two_of_four(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """On the CPU; of float32 one of two."""
    one_of_two = dtype == torch.float32
    wide = torch.randint(1, 9, (rows, columns)) if dtype == torch.int8 else torch.randn(rows, columns)
    group = 2 if one_of_two else 4
    order = torch.rand(rows, columns // group, group).argsort(-1)
    return (wide * (order < group // 2).view(rows, columns)).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products(dtype: torch.dtype) -> None:
    weight = two_of_four(64, 128, dtype)
    sparse = to_sparse_semi_structured(weight.to("xpu"))
    assert isinstance(sparse, SparseSemiStructuredTensorCUTLASS) and sparse.device.type == "xpu"
    assert sparse.packed.numel() * 2 == weight.numel()
    assert torch.equal(sparse.to_dense().cpu(), weight)
    tol = {"rtol": TOLERANCE[dtype], "atol": 4 * TOLERANCE[dtype]}
    for rows in (1, 5, 64):
        x, bias = torch.randn(rows, 128).to(dtype), torch.randn(64).to(dtype)
        wide = weight.double() @ x.double().t()
        assert_near(torch.mm(sparse, x.to("xpu").t()), wide, **tol)
        linear = torch.nn.functional.linear(x.to("xpu"), sparse, bias.to("xpu"))
        assert_near(linear, wide.t() + bias.double(), **tol)
        assert_near(torch.mm(x.to("xpu"), sparse.t()), wide.t(), **tol)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("activation", [None, "relu", "silu"])
def test_the_operators(dtype: torch.dtype, activation: str | None) -> None:
    weight, x, bias = two_of_four(64, 128, dtype), torch.randn(8, 128).to(dtype), torch.randn(64).to(dtype)
    packed, meta = torch._to_sparse_semi_structured(weight.to("xpu"))
    want_packed, want_meta = sparse_semi_structured_from_dense_cutlass(weight)
    assert torch.equal(packed.cpu(), want_packed) and torch.equal(meta.cpu(), want_meta)
    tol = {"rtol": TOLERANCE[dtype], "atol": 4 * TOLERANCE[dtype]}
    wide = x.double() @ weight.double().t()
    act = {None: lambda t: t, "relu": torch.relu, "silu": torch.nn.functional.silu}[activation]
    xs = x.to("xpu")
    got = torch._sparse_semi_structured_linear(xs, packed, meta, bias=bias.to("xpu"), activation=activation)
    assert_near(got, act(wide + bias.double()), **tol)
    fake = torch._sparse_semi_structured_linear(xs.to("meta"), packed.to("meta"), meta.to("meta"))
    assert got.stride() == fake.stride() and got.shape == fake.shape
    added = torch._sparse_semi_structured_addmm(bias.to("xpu"), packed, meta, xs.t(), alpha=2, beta=0.5)
    assert_near(added, 2 * wide.t() + 0.5 * bias.double()[:, None], **tol)


def test_whole_numbers() -> None:
    weight, x = two_of_four(64, 128, torch.int8), torch.randint(-9, 9, (128, 16), dtype=torch.int8)
    packed, meta = torch._to_sparse_semi_structured(weight.to("xpu"))
    want = weight.int() @ x.int()
    got = torch._sparse_semi_structured_mm(packed, meta, x.to("xpu"), out_dtype=torch.int32)
    assert torch.equal(got.cpu(), want)
    narrow = torch._sparse_semi_structured_mm(packed, meta, x.to("xpu"))
    assert torch.equal(narrow.cpu(), want.clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_pruning(dtype: torch.dtype) -> None:
    """Two of each row and column of a tile stay, the largest first, as torch's model of it has them."""
    tiles = torch.stack([torch.randperm(16) for _ in range(512)]).view(16, 32, 4, 4) + 1  # no ties
    x = tiles.transpose(1, 2).reshape(64, 128).to(dtype)
    want = _sparse_semi_structured_tile(x.clone())
    sparse = SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort(x.to("xpu"))
    assert torch.equal(sparse.to_dense().cpu(), want)
    b = torch.randn(128, 8).div(64).to(dtype)
    assert_near(torch.mm(sparse, b.to("xpu")), want.double() @ b.double(), rtol=1.6e-2, atol=0.1)
    c = torch.randn(64, 8).div(64).to(dtype)
    assert_near(torch.mm(sparse.t(), c.to("xpu")), want.t().double() @ c.double(), rtol=1.6e-2, atol=0.1)
    masks = sparse.compressed_swizzled_bitmask
    other = torch.randn(64, 128).to(dtype)
    masked = torch._sparse_semi_structured_apply_dense(other.to("xpu"), masks)
    assert torch.equal(masked.cpu(), other * (want != 0))
    packed, packed_t = torch._sparse_semi_structured_apply(other.to("xpu"), masks)
    again = SparseSemiStructuredTensorCUTLASS(x.shape, packed, sparse.meta, packed_t, sparse.meta_t, masks)
    assert torch.equal(again.to_dense().cpu(), other * (want != 0))


def test_the_largest_by_magnitude() -> None:
    x = torch.randn(64, 64).half()
    kept = torch._sparse_semi_structured_tile(x.to("xpu"), algorithm="largest_abs_values_greedy")
    want = _sparse_semi_structured_tile(x.abs().clone()) != 0
    bits = torch._sparse_semi_structured_apply_dense(torch.ones_like(x).to("xpu"), kept[4])
    assert torch.equal(bits.cpu() != 0, want)


def test_training() -> None:
    """A layer whose weights are pruned, by torch's functions for both passes."""
    x, weight = torch.randn(16, 64).half(), torch.randn(64, 64).half()
    sparse = SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort(weight.to("xpu"))
    dense = sparse.to_dense().cpu().double()
    xs = x.to("xpu").requires_grad_()
    y = torch.nn.functional.linear(xs, sparse)
    y.sum().backward()
    assert_near(y, x.double() @ dense.t(), rtol=2e-3, atol=1e-2)
    assert_near(xs.grad, torch.ones(16, 64).double() @ dense, rtol=2e-3, atol=2e-2)


def test_refusals() -> None:
    good = two_of_four(64, 64, torch.float16).to("xpu")
    packed, meta = torch._to_sparse_semi_structured(good)
    b = torch.ones(64, 8, dtype=torch.float16, device="xpu")
    for call, text in (
        (lambda: to_sparse_semi_structured(good[:48].contiguous()), "is not supported"),
        (lambda: to_sparse_semi_structured(good.t()), "not contiguous"),
        (lambda: to_sparse_semi_structured(good.double()), "not a supported dtype"),
        (lambda: torch._sparse_semi_structured_mm(packed, meta, b[:32]), "columns takes 64"),
        (lambda: torch._sparse_semi_structured_mm(packed, meta, b.bfloat16()), "two types"),
        (lambda: torch._sparse_semi_structured_mm(packed, meta, b, out_dtype=torch.float32), "out_dtype"),
        (lambda: torch._sparse_semi_structured_addmm(b[:, 0][:32], packed, meta, b), "one element per row"),
        (lambda: torch._sparse_semi_structured_linear(b.t(), packed, meta, activation="tanh"), "activation"),
        (lambda: torch._sparse_semi_structured_tile(good[:32]), "multiples of 64"),
        (lambda: torch._sparse_semi_structured_tile(good, algorithm="some"), "unknown algorithm"),
        (lambda: torch._sparse_semi_structured_apply_dense(good, meta), "masks"),
        (lambda: torch._cslt_compress(good), "_cslt_compress"),
    ):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            call()


def test_none_is_called_native() -> None:
    found = {r.name: r for r in dispatcher.scan() if r.name in OPERATORS}
    assert found.keys() == OPERATORS.keys()
    assert {r.registration for r in found.values()} == {"composite"} and {r.by for r in found.values()} == {None}
