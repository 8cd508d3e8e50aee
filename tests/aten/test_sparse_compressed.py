"""The compressed layouts (CSR, CSC, BSR, BSC) against the CPU: changes of layout, invariants, sums along rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from support.sparse import COMPRESSED, FLOATS, NUMBERS, coo, matrix, parts, same, values

import xpu_ops

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.forbid_fallback():
        yield


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


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 9)), nnz=st.integers(0, 90),
    dtype=st.sampled_from([t for t in NUMBERS if t != torch.bool]), short=st.booleans(),
)  # fmt: skip
def test_rows_reduced(shape: tuple[int, int], nnz: int, dtype: torch.dtype, short: bool) -> None:
    t = matrix(*shape, nnz, dtype).coalesce().to_sparse_csr()
    if short:
        t = torch.sparse_csr_tensor(t.crow_indices().int(), t.col_indices().int(), t.values(), shape)
    same(lambda t: torch.ops.aten._sparse_csr_sum.dim_dtype(t, [1], True), t)
    same(lambda t: torch.ops.aten._sparse_csr_prod.dim_dtype(t, [1], True), t)


def test_many_rows_reduced() -> None:
    t = matrix(3000, 500, 30_000).coalesce().to_sparse_csr()
    same(lambda t: torch.sum(t, 1, keepdim=True), t)
    same(lambda t: torch._sparse_csr_prod(t, 1, True), t)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
@given(
    lines=st.tuples(st.integers(0, 12), st.integers(0, 40)), block=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    nnz=st.sampled_from([0, 1, 7, 60, 4000]), dtype=st.sampled_from(NUMBERS),
)  # fmt: skip
def test_blocks(
    layout: torch.layout, lines: tuple[int, int], block: tuple[int, int], nnz: int, dtype: torch.dtype
) -> None:
    t = coo([lines[0] * block[0], lines[1] * block[1]], 2, nnz, dtype).coalesce().to_sparse(layout=layout)
    to = torch.sparse_bsr if layout == torch.sparse_csr else torch.sparse_bsc
    same(lambda t: t.to_sparse(layout=to, blocksize=block), t)


def test_invariants_of_batches() -> None:
    t = torch.stack([torch.eye(40), torch.eye(40).flip(0)]).to_sparse_csr()
    for place, wrong in ((None, 0), ((1, 0), 1), ((0, 40), 39), ((1, 20), 30)):
        crow = t.crow_indices().clone()
        if place is not None:
            crow[place] = wrong
        same(lambda c, p: torch.sparse_csr_tensor(c, p, torch.ones_like(p), t.shape, check_invariants=True).values(),
             crow, t.col_indices())  # fmt: skip
    col = t.col_indices().clone()
    col[1, 39] = 40
    same(lambda c, p: torch.sparse_csr_tensor(c, p, torch.ones_like(p), t.shape, check_invariants=True),
         t.crow_indices(), col)  # fmt: skip
