"""Sparse tensors (COO and the compressed layouts) against the CPU, drawn by Hypothesis; no fallback anywhere."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from support.sparse import (
    COMPRESSED,
    FLOATS,
    NUMBERS,
    coo,
    matrix,
    same,
    tensors,
    values,
)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo

import xpu_ops

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def native(request: pytest.FixtureRequest) -> Iterator[None]:
    with nullcontext() if request.function.__name__ == "test_what_is_missing" else xpu_ops.fallback.forbid():
        yield


# --- making them ---


@given(t=tensors([*NUMBERS, torch.bool]))
def test_copies(t: torch.Tensor) -> None:
    x = t.to("xpu")
    assert x.device.type == "xpu" and x.layout == t.layout
    back = x.cpu()
    assert torch.equal(back._indices(), t._indices()) and torch.equal(back._values(), t._values())
    assert back.is_coalesced() == t.is_coalesced()
    same(lambda t: torch.sparse_coo_tensor(t._indices(), t._values(), t.shape), t)
    same(lambda t: (t._nnz(), t.sparse_dim(), t.dense_dim(), t._dimI(), t._dimV()), t)
    same(lambda t: t.clone(), t)
    same(lambda t: t.clone().zero_(), t)
    same(lambda t: torch.empty_like(t).copy_(t), t)
    same(lambda t: t.to(torch.float64), t)
    same(lambda t: torch.zeros_like(t), t)
    str(x)


def test_constructors() -> None:
    i, v = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
    for x in (
        torch.sparse_coo_tensor(i, v, (2, 3), device="xpu"),
        torch.sparse_coo_tensor(i.xpu(), v.xpu()),
        torch.sparse_coo_tensor(i, v, (2, 3), device="xpu", dtype=torch.float64, check_invariants=True),
    ):
        assert x.device.type == "xpu"
        assert torch.equal(x.to_dense().cpu().float(), torch.tensor([[0.0, 0, 3], [4, 0, 5]]))
    with pytest.raises(RuntimeError, match="negative"):
        torch.sparse_coo_tensor(-i.xpu(), v.xpu(), (2, 3), check_invariants=True)
    with pytest.raises(RuntimeError, match="size is inconsistent"):
        torch.sparse_coo_tensor(i.xpu(), v.xpu(), (2, 2), check_invariants=True)


def test_wrong_indices_do_no_harm() -> None:
    """Unchecked tensors may hold indices out of range: an error, and no access outside."""
    i = torch.tensor([[0, 99, -5], [0, 1, 10**9]], device="xpu")
    v = torch.ones(3, device="xpu")
    for bad in (
        torch.sparse_coo_tensor(i, v, (2, 3)),
        torch.sparse_coo_tensor(i.flip(1).contiguous(), v, (2, 3), is_coalesced=True),
    ):
        for call in (
            lambda t: t.coalesce().cpu(),
            lambda t: t.to_dense().cpu(),
            lambda t: torch.sparse.mm(t, torch.ones(3, 4, device="xpu")).cpu(),
        ):
            if bad.is_coalesced() and call.__code__.co_names[0] == "coalesce":
                continue
            with pytest.raises((RuntimeError, IndexError)):
                call(bad)
    crow, col = torch.tensor([0, 900, 2], device="xpu"), torch.tensor([70, 1], device="xpu")
    csr = torch.sparse_csr_tensor(crow, col, torch.ones(2, device="xpu"), (2, 3), check_invariants=False)
    with pytest.raises(RuntimeError, match="out of bounds"):
        (csr @ torch.ones(3, 4, device="xpu")).cpu()
    assert (torch.ones(2, device="xpu") + 1).tolist() == [2, 2]


@given(t=tensors([*NUMBERS, torch.bool]))
def test_coalesce(t: torch.Tensor) -> None:
    same(lambda t: t.coalesce(), t)
    same(lambda t: t.coalesce().indices(), t)
    same(lambda t: t.coalesce().values(), t)
    x = t.to("xpu")
    first, second = x.coalesce(), x.clone().coalesce()
    assert torch.equal(first.values(), second.values())


@pytest.mark.parametrize(
    "sizes", [[3, 4], [100_000, 100_000], [2**40, 2**20], [2**31, 2**31], [5000], [70, 80, 90, 100]]
)
@pytest.mark.parametrize("nnz", [2, 65, 20_000])
def test_coalesce_many(sizes: list[int], nnz: int) -> None:
    """Keys that share a word with the element's number, and keys too long for that."""
    t = coo(sizes, len(sizes), nnz, torch.int64)
    same(lambda t: t.coalesce(), torch.cat([t, t])) if sizes[0] < 2**30 else same(lambda t: t.coalesce(), t)


@given(t=tensors([*NUMBERS, torch.bool]), layout=st.sampled_from([torch.sparse_coo, *COMPRESSED]))
def test_to_dense(t: torch.Tensor, layout: torch.layout) -> None:
    same(lambda t: t.to_dense(), t)
    dense = t.to_dense()
    same(lambda d: d.to_sparse(), dense)
    same(lambda d: d.to_sparse(1), dense)
    if dense.dim() == 2 and layout != torch.sparse_coo:
        blocks = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        same(lambda d: d.to_sparse(layout=layout, blocksize=blocks), dense)
        same(lambda d: d.to_sparse(layout=layout, blocksize=blocks).to_dense(), dense)
        if layout in (torch.sparse_csr, torch.sparse_csc):
            same(lambda t: t.to_sparse(layout=layout), t)
            same(lambda t: t.to_sparse(layout=layout).to_sparse(), t)
            same(lambda t: t.to_sparse_csr().to_sparse_csc(), t)


# --- elementwise ---


@given(t=tensors(), u=tensors(), alpha=st.sampled_from([1, 2, -3]))
def test_add(t: torch.Tensor, u: torch.Tensor, alpha: int) -> None:
    same(lambda t: torch.add(t, t, alpha=alpha), t)
    same(lambda t, u: torch.add(t, u, alpha=alpha), t, u, flags=False)
    same(lambda t: t.clone().add_(t, alpha=alpha), t)
    dense = values(list(t.shape), torch.float32, 5)
    same(lambda d, t: torch.add(d, t, alpha=alpha), dense, t)
    same(lambda d, t: d.clone().add_(t, alpha=alpha), dense, t)
    same(lambda d, t: d.transpose(0, -1).clone().transpose(0, -1).add_(t, alpha=alpha), dense, t)
    same(lambda d, t: torch.sub(d, t), dense, t)
    same(lambda t, d: t + d, t, dense)
    same(lambda t, u: t - u, t, t.coalesce(), flags=False)


@given(t=tensors(), u=tensors())
def test_mul(t: torch.Tensor, u: torch.Tensor) -> None:
    same(lambda t: t * 3, t)
    same(lambda t: t / 2, t)
    same(lambda t: t.clone().mul_(2), t)
    same(lambda t: t * torch.tensor(2.0, device=t.device), t)
    same(lambda t: t.coalesce() * t, t, flags=False)
    same(lambda t: t * t.coalesce(), t, flags=False)
    same(lambda t: t.coalesce() * t.coalesce(), t)
    if t.sparse_dim() == u.sparse_dim() and t.dim() == u.dim():
        same(lambda t, u: t.coalesce() * u.coalesce(), t, u)
    dense = values(list(t.shape), torch.float32, 5)
    same(lambda t, d: t * d, t, dense)
    same(lambda t, d: d * t, t, dense)


UNARY = [
    "abs", "neg", "sgn", "sign", "sqrt", "sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "erf", "expm1",
    "log1p", "floor", "ceil", "round", "trunc", "frac", "relu", "deg2rad", "rad2deg", "isnan", "isinf", "isposinf",
    "isneginf", "signbit", "conj_physical", "nan_to_num",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@given(t=tensors([torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool]))
def test_unary(name: str, t: torch.Tensor) -> None:
    same(getattr(torch, name), t)
    if t.layout == torch.sparse_coo and t.dim() == 2 and t.sparse_dim() == 2:
        same(lambda t: getattr(torch, name)(t.to_sparse_csr()), t.coalesce())


@given(t=tensors(), dim=st.integers(-3, 2), index=st.lists(st.integers(0, 3), max_size=5))
def test_shapes(t: torch.Tensor, dim: int, index: list[int]) -> None:
    same(lambda t: torch.cat([t, t], dim), t, flags=False)
    same(lambda t: t.unsqueeze(dim), t)
    same(lambda t: t.transpose(0, 1), t)
    same(lambda t: t.narrow_copy(0, 0, 1), t, flags=False)
    same(lambda t: t.index_select(dim, torch.tensor(index, dtype=torch.long, device=t.device)), t, flags=False)
    same(lambda t: t.select(dim, 0), t, flags=False)
    same(lambda t: t.permute(*range(t.dim())), t)


@given(t=tensors([torch.float32, torch.float64, torch.complex64, torch.int64, torch.bfloat16]), keep=st.booleans())
def test_sums(t: torch.Tensor, keep: bool) -> None:
    same(lambda t: t.sum(), t)
    same(lambda t: torch.sparse.sum(t), t)
    for dims in ([0], [-1], [0, 1], list(range(t.dim()))):
        same(lambda t, dims=dims: torch.sparse.sum(t, dims), t)
        same(lambda t, dims=dims: t.sum(dims, keepdim=keep), t, flags=False)
    same(lambda t: t.norm(), t.coalesce())
    same(lambda t: t.any(), t)


@given(t=tensors(FLOATS), mask=tensors([torch.float32]))
def test_masks(t: torch.Tensor, mask: torch.Tensor) -> None:
    same(lambda t: t.sparse_mask(t.coalesce()), t)
    same(lambda t, m: t.sparse_mask(m), t, mask)
    fitting = coo(list(t.shape), t.sparse_dim(), 12, torch.float32, 7)
    for m in (fitting, fitting.coalesce()):
        same(lambda t, m: t.sparse_mask(m), t, m)
        same(lambda d, m: d.sparse_mask(m), values(list(t.shape), t.dtype, 8), m)
        same(lambda t, m: torch.ops.aten._sparse_mask_projection(t, m), t, m)


@given(t=tensors([torch.float32, torch.float64]), dim=st.integers(-2, 2))
def test_softmax(t: torch.Tensor, dim: int) -> None:
    same(lambda t: torch.sparse.softmax(t, dim), t, flags=False)
    same(lambda t: torch.sparse.log_softmax(t, dim), t, flags=False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_softmax_needs_floating_point(dtype: torch.dtype) -> None:
    t = torch.eye(3).to(dtype).to_sparse().to("xpu")
    for function in (torch.sparse.softmax, torch.sparse.log_softmax):
        with pytest.raises(NotImplementedError, match='"softmax" not implemented for'):
            function(t, 1)


# --- products ---

SHAPES = st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([0, 1, 3, 16, 17, 64, 70, 130]))


@given(
    shape=SHAPES, nnz=st.integers(0, 30), dtype=st.sampled_from(NUMBERS), coalesced=st.booleans(), seed=st.integers(0, 9),
    beta=st.sampled_from([0, 1, 2]), alpha=st.sampled_from([1, 3]), turned=st.booleans(),
)  # fmt: skip
def test_addmm(
    shape: tuple[int, int, int],
    nnz: int,
    dtype: torch.dtype,
    coalesced: bool,
    seed: int,
    beta: int,
    alpha: int,
    turned: bool,
) -> None:
    m, k, n = shape
    a = matrix(m, k, nnz, dtype, seed)
    a = a.coalesce() if coalesced else a
    b, c = values([k, n], dtype, seed + 3), values([m, n], dtype, seed + 4)
    b = b.t().contiguous().t() if turned else b
    same(lambda a, b: torch.sparse.mm(a, b), a, b)
    same(lambda a, b: a @ b, a, b)
    same(lambda c, a, b: torch.sparse.addmm(c, a, b, beta=beta, alpha=alpha), c, a, b)
    same(lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), c, a, b)
    same(lambda c, a, b: c.clone().addmm_(a, b, beta=beta, alpha=alpha), c, a, b)
    same(lambda c, a, b: torch.addmm(c, a, b, out=c.new_empty(0)), c[:1], a, b)
    same(lambda a, v: torch.mv(a, v), a, values([k], dtype, seed))


def test_addmm_of_a_sparse_addend_is_refused() -> None:
    indices = torch.tensor([[0, 1], [0, 1]])
    for device in ("cpu", "xpu"):
        a = torch.sparse_coo_tensor(indices, torch.ones(2), (3, 3), check_invariants=True).to(device)
        b = torch.ones(3, 3, device=device)
        for call in (lambda a, b: torch.sparse.addmm(a, a, b), lambda a, b: a.clone().addmm_(a, b)):
            with pytest.raises(RuntimeError, match="addmm_sparse_dense: expected strided result tensor"):
                call(a, b)
        with pytest.raises(RuntimeError, match="expected 't' to have strided layout"):
            torch.addmm(a, a, b, out=torch.empty(3, 3, device=device))


@given(
    shape=SHAPES, nnz=st.integers(0, 30), dtype=st.sampled_from(FLOATS), seed=st.integers(0, 9),
    beta=st.sampled_from([0, 1, 2]), layout=st.sampled_from([torch.sparse_csr, torch.sparse_csc]), short=st.booleans(),
)  # fmt: skip
def test_addmm_compressed(
    shape: tuple[int, int, int], nnz: int, dtype: torch.dtype, seed: int, beta: int, layout: torch.layout, short: bool
) -> None:
    m, k, n = shape
    a = matrix(m, k, nnz, dtype, seed).coalesce().to_sparse(layout=layout)
    if short and layout == torch.sparse_csr:
        a = torch.sparse_csr_tensor(a.crow_indices().int(), a.col_indices().int(), a.values(), a.shape)
    b, c = values([k, n], dtype, seed + 3), values([m, n], dtype, seed + 4)
    same(lambda a, b: a @ b, a, b)
    same(lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=2), c, a, b)
    same(lambda a, b: b.t() @ a.t(), a, b)
    if layout == torch.sparse_csr:
        same(lambda a, v: torch.mv(a, v), a, values([k], dtype, seed))
    same(lambda a, b: a @ b, a, values([k + 1, n], dtype, 1))


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)), nnz=st.integers(0, 30),
    dtype=st.sampled_from(FLOATS), seed=st.integers(0, 9),
)  # fmt: skip
def test_sparse_times_sparse(shape: tuple[int, int, int], nnz: int, dtype: torch.dtype, seed: int) -> None:
    m, k, n = shape
    a, b = matrix(m, k, nnz, dtype, seed), matrix(k, n, nnz, dtype, seed + 1)
    same(lambda a, b: torch.sparse.mm(a, b), a, b)
    same(lambda a, b: torch.sparse.mm(a.to_sparse_csr(), b.to_sparse_csr()).to_dense(), a.coalesce(), b.coalesce())
    dense = values([k, n], dtype, 3)
    same(lambda a, d: torch.hspmm(a, d), a, dense)
    same(lambda a, d: torch.smm(a, d).to_dense(), a, dense)
    same(lambda s, a, d: torch.sspaddmm(s, a, d, beta=2, alpha=3).to_dense(), matrix(m, n, 5, dtype), a, dense)
    batch, dense3 = coo([3, m, k], 3, nnz, dtype, seed), values([3, k, n], dtype, 4)
    same(lambda a, d: torch.bmm(a, d), batch, dense3)
    same(lambda c, t: t + c, matrix(m, k, 4, dtype, 5).to_sparse_csr(), a.to_sparse_csr())
    same(lambda d, t: d + t, values([m, k], dtype, 5), a.to_sparse_csr())


@pytest.mark.parametrize("nnz", [30, 5000])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("size", [40, 100000])
def test_index_select_of_many(nnz: int, dim: int, size: int) -> None:
    g = torch.Generator().manual_seed(0)
    t = coo([size, size], 2, nnz)
    index = torch.randint(-size, size, (700,), generator=g)
    for x in (t, t.coalesce()):
        same(lambda t, i: t.index_select(dim, i), x, index % size)
        same(lambda t, i: t.index_select(dim, i), x, index)
        same(lambda t, i: t.index_select(dim, i), x, torch.cat([index, torch.tensor([size])]))


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9)), nnz=st.integers(0, 30),
    dtype=st.sampled_from(FLOATS), beta=st.sampled_from([0, 1, 2]),
)  # fmt: skip
def test_sampled_addmm(shape: tuple[int, int, int], nnz: int, dtype: torch.dtype, beta: int) -> None:
    m, n, k = shape
    pattern = matrix(m, n, nnz, dtype).coalesce().to_sparse_csr()
    a, b = values([m, k], dtype, 1), values([k, n], dtype, 2)
    same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, beta=beta, alpha=2), pattern, a, b)
    same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, out=p.clone()), pattern, a, b)
    same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, beta=beta, out=p), pattern, a, b)


@pytest.mark.parametrize("inner", [5, 16, 31, 100])
@pytest.mark.parametrize(("rows", "nnz"), [(50, 1000), (9000, 6000)])
def test_sampled_addmm_of_many(inner: int, rows: int, nnz: int) -> None:
    pattern = matrix(rows, 60, nnz).coalesce().to_sparse_csr()
    short = torch.sparse_csr_tensor(
        pattern.crow_indices().int(), pattern.col_indices().int(), pattern.values(), pattern.shape
    )
    a, b = values([rows, inner], torch.float32, 1), values([inner, 60], torch.float32, 2)
    a[3, inner - 2], b[0, 7] = torch.inf, torch.nan
    for p in (pattern, short):
        same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, beta=2, alpha=3), p, a, b)
        same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, beta=0), p, a, b)


@pytest.mark.parametrize("inner", [5, 16])
@pytest.mark.parametrize("column", [-1, 60, 1 << 40])
def test_sampled_addmm_of_wrong_columns(inner: int, column: int) -> None:
    """A tensor without checked invariants is not read out of range."""
    columns = torch.arange(50) % 60
    columns[17] = column
    pattern = torch.sparse_csr_tensor(
        torch.arange(0, 51, 5), columns, torch.ones(50), (10, 60), check_invariants=False
    ).to("xpu")
    with pytest.raises(RuntimeError, match="out of (range|bounds)"):
        torch.sparse.sampled_addmm(pattern, torch.ones(10, inner).to("xpu"), torch.ones(inner, 60).to("xpu"))
        torch.xpu.synchronize()


@given(
    shape=SHAPES, nnz=st.integers(0, 30), dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    reduce=st.sampled_from(["sum", "mean", "amax", "amin"]),
)  # fmt: skip
def test_reduced_product(shape: tuple[int, int, int], nnz: int, dtype: torch.dtype, reduce: str) -> None:
    m, k, n = shape
    a, b = matrix(m, k, nnz, dtype).coalesce().to_sparse_csr(), values([k, n], dtype, 3)
    same(lambda a, b: torch.sparse.mm(a, b, reduce), a, b)

    def gradients(a: torch.Tensor, b: torch.Tensor) -> Any:
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        torch.sparse.mm(a, b, reduce).sum().backward()
        return a.grad, b.grad

    if m * k * n and nnz:
        same(gradients, a, b)


# --- training ---


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_gradients(layout: torch.layout) -> None:
    a, b = matrix(5, 6, 12).coalesce().to_sparse(layout=layout), values([6, 3], torch.float32, 1)

    def product(a: torch.Tensor, b: torch.Tensor) -> Any:
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        torch.sparse.mm(a, b).square().sum().backward()
        return a.grad, b.grad

    def dense(a: torch.Tensor) -> Any:
        a = a.detach().requires_grad_()
        a.to_dense().square().sum().backward()
        return a.grad

    same(product, a, b)
    same(dense, a)


def test_gradients_of_coo() -> None:
    def of(fn: Callable[..., Any]) -> Callable[..., Any]:
        def run(t: torch.Tensor) -> Any:
            t = t.detach().requires_grad_()
            out = fn(t)
            (out.to_dense() if out.layout != torch.strided else out).square().sum().backward()
            return t.grad

        return run

    t = coo([4, 5, 3], 2, 9).coalesce()
    for fn in (
        lambda t: torch.sparse.sum(t), lambda t: torch.sparse.sum(t, [0]), lambda t: torch.sparse.sum(t, [1, 2]),
        lambda t: torch.sparse.sum(t, [0, 1]), lambda t: torch.sparse.softmax(t, 1), lambda t: torch.sparse.softmax(t, 2),
        lambda t: torch.sparse.log_softmax(t, 0), lambda t: t * 2, lambda t: t.coalesce(), lambda t: t + t,
    ):  # fmt: skip
        same(of(fn), t, flags=False)
    same(of(lambda d: d.sparse_mask(t.to(d.device))), t.to_dense())
    same(of(lambda d: d.to_sparse()), t.to_dense())
    a, b = matrix(4, 5, 9).coalesce(), matrix(5, 3, 7).coalesce()
    same(of(lambda a: torch.sparse.mm(a, b.to(a.device))), a, flags=False)


@pytest.mark.parametrize("bag", [False, True])
@pytest.mark.parametrize("optimizer", ["SGD", "SparseAdam", "Adagrad"])
def test_sparse_embedding(bag: bool, optimizer: str) -> None:
    def run(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        kind = torch.nn.EmbeddingBag if bag else torch.nn.Embedding
        layer = kind(20, 5, sparse=True).to(device)
        step = getattr(torch.optim, optimizer)(layer.parameters(), lr=0.1)
        ids = torch.tensor([[1, 2, 2], [3, 19, 1]], device=device)
        for _ in range(3):
            step.zero_grad()
            layer(ids).square().sum().backward()
            assert layer.weight.grad.is_sparse
            step.step()
        return layer.weight.detach().cpu()

    torch.testing.assert_close(run("xpu"), run("cpu"))


def test_what_is_missing() -> None:
    """An operator that neither device has for sparse tensors."""
    for call in (torch.exp, torch.linalg.svd, lambda t: t.fill_(1), lambda t: t == t, lambda t: torch.where(t, t, t)):
        with pytest.raises(NotImplementedError):
            call(matrix(4, 4, 9).to("xpu"))


def sampled(op: OpInfo, layout: torch.layout) -> bool:
    """Whether torch has samples: many operators that declare a layout come without."""
    try:
        return next(op.sample_inputs_sparse(layout, "cpu", torch.float32), None) is not None
    except (NotImplementedError, unittest.SkipTest):
        return False


def sparse_samples() -> list[Any]:
    """torch's own sparse samples: each operator with each layout it declares."""
    flags = {torch.sparse_coo: "supports_sparse"} | {x: f"supports_{str(x).removeprefix('torch.')}" for x in COMPRESSED}
    return [
        pytest.param(op, layout, id=f"{op.formatted_name}-{str(layout).removeprefix('torch.sparse_')}")
        for op in op_db
        for layout, flag in flags.items()
        if getattr(op, flag) and op.name != "randn_like" and sampled(op, layout)
    ]


@pytest.mark.parametrize(("op", "layout"), sparse_samples())
def test_opinfo(op: OpInfo, layout: torch.layout) -> None:
    for dtype in (torch.float32, torch.int64):
        if dtype not in op.dtypes:
            continue
        for sample in itertools.islice(op.sample_inputs_sparse(layout, "cpu", dtype), 0, 40, 5):
            args = sample.input, *sample.args
            same(lambda args, kwargs: op.op(*args, **kwargs), args, sample.kwargs, flags=False)
