"""Sparse tensors (COO and the compressed layouts) against the CPU, drawn by Hypothesis; no fallback anywhere."""

from __future__ import annotations

import itertools
import re
import unittest
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from support.compare import TOLERANCES, assert_same, cpu_refuses
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops

pytestmark = pytest.mark.filterwarnings("ignore")

NUMBERS = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64,
    torch.int32, torch.uint8,
]  # fmt: skip
FLOATS = [torch.float32, torch.float64, torch.complex64, torch.complex128]
OUT_OF_RANGE = re.compile("out of range|out of DATA bounds|out of bounds|axis dim should be positive")
COMPRESSED = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


@pytest.fixture(autouse=True)
def native(request: pytest.FixtureRequest) -> Iterator[None]:
    with nullcontext() if request.function.__name__ == "test_what_is_missing" else xpu_ops.forbid_fallback():
        yield


def values(size: list[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(size, generator=g) > 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 5, size, generator=g).to(dtype)
    return torch.randn(size, generator=g, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)


def coo(sizes: list[int], sparse: int, nnz: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """An uncoalesced CPU tensor with repeated elements, or a tensor without any where there is no place for one."""
    g = torch.Generator().manual_seed(seed)
    nnz = 0 if 0 in sizes[:sparse] else nnz
    indices = torch.stack([torch.randint(0, max(s, 1), (nnz,), generator=g) for s in sizes[:sparse]])
    return torch.sparse_coo_tensor(indices, values([nnz, *sizes[sparse:]], dtype, seed + 1), sizes)


@st.composite
def tensors(draw: st.DrawFn, dtypes: list[torch.dtype] = NUMBERS, hybrid: bool = True) -> torch.Tensor:
    dtype = draw(st.sampled_from(dtypes))
    sparse = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(0, 7), min_size=sparse, max_size=sparse + (2 if hybrid else 0)))
    t = coo(sizes, sparse, draw(st.sampled_from([0, 1, 2, 9, 40])), dtype, draw(st.integers(0, 99)))
    return t.coalesce() if draw(st.booleans()) else t


def matrix(rows: int, columns: int, nnz: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return coo([rows, columns], 2, nnz, dtype, seed)


def parts(t: Any) -> Any:
    """A sparse tensor as its layout, sizes and dense parts; the elements of an uncoalesced one in order of their keys."""
    if not isinstance(t, torch.Tensor) or t.layout == torch.strided:
        return t
    if t.layout == torch.sparse_coo:
        c = t.coalesce()
        return ["coo", list(t.shape), t.sparse_dim(), t.is_coalesced(), c.indices(), c.values()]
    row = t.layout in (torch.sparse_csr, torch.sparse_bsr)
    compressed, plain = (t.crow_indices(), t.col_indices()) if row else (t.ccol_indices(), t.row_indices())
    return [str(t.layout), list(t.shape), compressed, plain, t.values()]


def outcome(fn: Callable[..., Any], args: Any) -> tuple[Any, BaseException | None]:
    try:
        result = fn(*args)
        torch.xpu.synchronize()  # an index out of range is reported here at the latest, and not by what follows
        return result, None
    except Exception as error:
        with suppress(Exception):
            torch.xpu.synchronize()
        return None, error


def moved(args: Any) -> Any:
    return tree_map(lambda t: t.to("xpu") if isinstance(t, torch.Tensor) else t, args)


def same(fn: Callable[..., Any], *args: Any, flags: bool = True) -> None:
    """`fn` gives the same on xpu as on the CPU, or the same kind of error; also in its arguments afterwards."""
    cpu_args = tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, args)
    xpu_args = moved(args)
    expected, error = outcome(fn, cpu_args)
    actual, raised = outcome(fn, xpu_args)
    if error is not None:
        # Along a dense dim the CPU calls an index out of range a RuntimeError or an IndexError, by the kernel it takes.
        kinds = (IndexError, RuntimeError) if OUT_OF_RANGE.search(str(error)) else (type(error),)
        # a type that the CPU lacks is xpu's to have
        assert cpu_refuses(error) or isinstance(raised, kinds), f"{raised!r}, expected {error!r}"
        return
    if raised is not None:
        raise raised
    assert all(t.device.type == "xpu" for t in tree_leaves(actual) if isinstance(t, torch.Tensor))

    def form(x: Any) -> Any:
        x = tree_map(parts, x)
        return x if flags else tree_map(lambda v: None if isinstance(v, bool) else v, x)

    leaves = [t for t in tree_leaves(form((expected, cpu_args))) if isinstance(t, torch.Tensor)]
    rtol, atol = max((TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in leaves), default=(0.0, 0.0))
    assert_same(form((actual, xpu_args)), form((expected, cpu_args)), tol=(4 * rtol, 4 * atol))


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


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 9)), nnz=st.tuples(st.integers(0, 90), st.integers(0, 90)),
    dtype=st.sampled_from(FLOATS), short=st.booleans(), alpha=st.sampled_from([1, 3]),
)  # fmt: skip
def test_compressed_sums(
    shape: tuple[int, int], nnz: tuple[int, int], dtype: torch.dtype, short: bool, alpha: int
) -> None:
    a, b = (matrix(*shape, n, dtype, seed).coalesce().to_sparse_csr() for seed, n in enumerate(nnz))
    if short:
        a, b = (
            torch.sparse_csr_tensor(t.crow_indices().int(), t.col_indices().int(), t.values(), shape) for t in (a, b)
        )
    same(lambda a, b: torch.add(a, b, alpha=alpha).to_dense(), a, b)
    same(lambda a, b: a.clone().add_(b).to_dense(), a, b)


def test_compressed_sum_of_columns_that_do_not_rise() -> None:
    crow, col = torch.tensor([0, 3, 3, 5]), torch.tensor([2, 0, 3, 1, 0])
    a = torch.sparse_csr_tensor(crow, col, torch.arange(1.0, 6.0), (3, 4), check_invariants=False).to("xpu")
    b = torch.eye(3, 4).to_sparse_csr().to("xpu")
    for t in (a + b, b + a, a + a):
        rows = [t.col_indices()[i:j].tolist() for i, j in itertools.pairwise(t.crow_indices().tolist())]
        assert all(r == sorted(set(r)) for r in rows)
    want = torch.tensor([[2.0, 0, 1, 3], [0, 0, 0, 0], [5, 4, 0, 0]])
    assert torch.equal((a + b).to_dense().cpu(), want + torch.eye(3, 4))
    assert torch.equal((a + a).to_dense().cpu(), 2 * want)


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


@pytest.mark.parametrize("inner", [5, 16, 100])
def test_sampled_addmm_of_many(inner: int) -> None:
    pattern = matrix(50, 60, 1000).coalesce().to_sparse_csr()
    short = torch.sparse_csr_tensor(
        pattern.crow_indices().int(), pattern.col_indices().int(), pattern.values(), pattern.shape
    )
    a, b = values([50, inner], torch.float32, 1), values([inner, 60], torch.float32, 2)
    for p in (pattern, short):
        same(lambda p, a, b: torch.sparse.sampled_addmm(p, a, b, beta=2, alpha=3), p, a, b)


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


# --- the compressed layouts ---


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_compressed(layout: torch.layout, index: torch.dtype) -> None:
    dense = values([6, 8], torch.float32, 0).relu()
    blocks = (2, 4) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
    t = dense.to_sparse(layout=layout, blocksize=blocks)
    _, _, compressed, plain, v = parts(t)
    t = torch.sparse_compressed_tensor(compressed.to(index), plain.to(index), v, t.shape, layout=layout)
    same(lambda t: t.clone(), t)
    same(lambda t: t.to_dense(), t)
    same(lambda t: t.to(torch.float64), t)
    same(lambda t: t.clone().zero_(), t)
    same(lambda t: t.transpose(0, 1), t)
    same(lambda t: t * 2, t)
    same(lambda t: t.sin(), t)
    same(lambda t: t.to_sparse(), t)
    assert torch.equal(t.to("xpu").cpu().to_dense(), dense)
    same(lambda c, p, v: torch.sparse_compressed_tensor(c, p, v, t.shape, layout=layout, check_invariants=True),
         compressed.to(index), plain.to(index), v)  # fmt: skip
    if layout == torch.sparse_csr:
        same(lambda t: t.sum(), t)
        for dims in ([0], [1], [0, 1]):
            same(lambda t, dims=dims: torch.ops.aten._sparse_csr_sum.dim_dtype(t, dims, True), t)
            same(lambda t, dims=dims: torch.ops.aten._sparse_csr_prod.dim_dtype(t, dims, True, dtype=torch.float64), t)
        same(lambda t: t.select(0, 1), t)
        same(lambda t: t * t, t)
        same(lambda t: t * torch.ones(6, 8, device=t.device), t)
        same(lambda t, d: d.sparse_mask(t), t, dense)
        str(t.to("xpu"))


def test_batches_of_csr() -> None:
    t = torch.stack([torch.eye(3), torch.eye(3).flip(0)]).to_sparse_csr()
    same(lambda t: t.to_dense(), t)
    same(lambda t: t.to_sparse(), t)
    same(lambda d: d.to_sparse_csr(), t.to_dense())


BROKEN = [
    ([1, 2, 3], [0, 1, 2], "crow_indices"),
    ([0, 2, 4], [0, 1, 2], "crow_indices"),
    ([0, 4, 3], [0, 1, 2], "crow_indices"),
    ([0, 2, 3], [0, 9, 2], "col_indices"),
    ([0, 2, 3], [0, -1, 2], "col_indices"),
    ([0, 2, 3], [1, 0, 2], "sorted and distinct"),
    ([0, 2, 3], [1, 1, 2], "sorted and distinct"),
]


@pytest.mark.parametrize(("crow", "col", "text"), BROKEN)
def test_invariants(crow: list[int], col: list[int], text: str) -> None:
    texts = []
    for device in ("cpu", "xpu"):
        args = [torch.tensor(x, device=device) for x in (crow, col)]
        with pytest.raises(RuntimeError, match=text) as error:
            torch.sparse_csr_tensor(*args, torch.ones(3, device=device), (2, 3), check_invariants=True)
        texts.append(str(error.value).splitlines()[0])
    assert texts[0] == texts[1]


@given(rows=st.integers(0, 20), nnz=st.integers(0, 50), short=st.booleans())
def test_index_conversions(rows: int, nnz: int, short: bool) -> None:
    g = torch.Generator().manual_seed(nnz)
    row = torch.randint(0, max(rows, 1), (nnz if rows else 0,), generator=g).sort().values
    same(lambda r: torch._convert_indices_from_coo_to_csr(r, rows, out_int32=short), row)
    crow, col = torch._convert_indices_from_coo_to_csr(row, rows), torch.randint(0, 9, row.shape, generator=g)
    for transpose in (False, True):
        same(
            lambda c, p, transpose=transpose: torch._convert_indices_from_csr_to_coo(c, p, out_int32=short, transpose=transpose),
            crow, col,
        )  # fmt: skip


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
    """An operator without a kernel for sparse tensors runs on the CPU where that is allowed, and says so where not."""
    t, b = (torch.eye(4) + values([4, 4], torch.float32, 0).triu(1)).to_sparse_csr(), values([4, 2], torch.float32, 1)
    same(lambda b, t: torch.triangular_solve(b, t).solution, b, t)
    with xpu_ops.forbid_fallback(), pytest.raises(NotImplementedError, match="triangular_solve"):
        torch.triangular_solve(b.to("xpu"), t.to("xpu"))
    # what neither has
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
