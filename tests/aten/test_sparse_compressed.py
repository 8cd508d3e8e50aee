"""The compressed layouts (CSR, CSC, BSR, BSC) against the CPU: changes of layout, invariants, sums along rows."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
import torch
from aten_data import data
from hypothesis import given
from support.sparse import COMPRESSED, FLOATS, NUMBERS, coo, matrix, parts, same, values
from torch import Tensor

import xpu_ops

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
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


@pytest.fixture
def invariants() -> Iterator[None]:
    """Every sparse tensor is checked, as torch's own tests do."""
    before = torch.sparse.check_sparse_tensor_invariants.is_enabled()
    torch.sparse.check_sparse_tensor_invariants.enable()
    yield
    if not before:
        torch.sparse.check_sparse_tensor_invariants.disable()


@pytest.mark.usefixtures("invariants")
def test_results_pass_the_checks() -> None:
    """An empty compressed tensor, which sums and products begin with, is valid; coalesced indices are checked here."""
    held = [torch.full((6,), 77, device="xpu") for _ in range(50)]
    del held
    for layout in (torch.sparse_csr, torch.sparse_csc):
        assert torch.empty(5, 6, layout=layout, device="xpu").to_dense().count_nonzero() == 0
    a, b, t = (data(*size).relu().to_sparse_csr() for size in ((5, 7), (7, 6), (5, 6)))
    same(lambda a, b: (a @ b).to_dense(), a, b)
    same(lambda t, a, b: torch.addmm(t, a, b, beta=0.5, alpha=2.0).to_dense(), t, a, b)
    same(lambda t: t.to_sparse_coo().narrow_copy(0, 1, 2).to_dense(), t)
    same(lambda t: t.to_sparse(layout=torch.sparse_csc).to_sparse(layout=torch.sparse_csr), t)
    same(lambda t: torch.masked.amax(t.to_sparse_coo(), 0, mask=(t.to_dense() > 0).to_sparse_coo()).to_dense(), t)


@pytest.mark.parametrize("number", [torch.int64, torch.int32])
def test_coalesced_indices_are_checked(number: torch.dtype) -> None:
    def make(i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.sparse_coo_tensor(i.to(number), v, (2, 2), is_coalesced=True, check_invariants=True)

    good, bad = torch.tensor([[0, 0, 1], [0, 1, 0]]), torch.tensor([[0, 0, 1], [1, 1, 0]])
    same(make, good, torch.ones(3))
    same(lambda i, v: make(i, v).is_coalesced(), good, torch.ones(3))
    unchecked = torch.sparse_coo_tensor(bad.to("xpu"), torch.ones(3, device="xpu"), (2, 2), is_coalesced=True,
                                        check_invariants=False)  # fmt: skip
    assert unchecked.is_coalesced()
    for device in ("cpu", "xpu"):
        for f in (make, lambda i, v: torch._validate_sparse_coo_tensor_args(i, v, (2, 2), True)):
            with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
                f(bad.to(device), torch.ones(3, device=device))
    v = torch.ones(3, device="xpu", requires_grad=True)
    (make(good.to("xpu"), v).to_dense() * 2).sum().backward()
    assert v.grad is not None
    assert torch.equal(v.grad.cpu(), torch.full((3,), 2.0))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_compressed_plus_dense(layout: torch.layout) -> None:
    x = data(4, 5)
    same(lambda s, x: torch.add(s, x, alpha=3), x.relu().to_sparse(layout=layout), data(4, 5, seed=2))


@pytest.mark.parametrize("layout", [torch.sparse_bsr, torch.sparse_bsc])
def test_sums_of_blocks(layout: torch.layout) -> None:
    a, b = (data(6, 8, seed=s).relu().to_sparse(layout=layout, blocksize=(3, 2)).to("xpu") for s in (1, 2))
    assert torch.equal((a + b).to_dense(), a.to_dense() + b.to_dense())
    assert (a + b).layout == layout
    assert (a + b).values().shape[1:] == (3, 2)


def test_sampled_at_one_pattern_for_all_batches() -> None:
    pattern = data(4, 5).relu().to_sparse_csr()
    same(lambda c, a, b: torch.sparse.sampled_addmm(c, a, b).to_dense(),
         pattern, data(2, 3, 4, 6), data(2, 3, 6, 5, seed=2))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(dtype: torch.dtype, upper: bool, transpose: bool, unit: bool) -> None:
    """Of a full matrix: the other triangle is not read."""
    a = data(12, 12, dtype=dtype) * 0.2 + 2 * torch.eye(12).to(dtype)
    a[4, 7] = 0
    b = data(12, 3, dtype=dtype, seed=2)
    flags = {"upper": upper, "transpose": transpose, "unitriangular": unit}
    want = torch.triangular_solve(b, a, **flags).solution
    for s in (a.to_sparse_csr(), a.to_sparse_bsr((3, 2))):
        with xpu_ops.fallback.forbid():
            got = torch.triangular_solve(b.to("xpu"), s.to("xpu"), **flags)
        torch.testing.assert_close(got.solution.cpu(), want, rtol=1e-4, atol=1e-5)
        assert got.cloned_coefficient.numel() == 0


def test_triangular_systems_of_nothing() -> None:
    zeros = torch.zeros(4, 4, device="xpu").to_sparse_csr()
    assert torch.triangular_solve(torch.ones(4, 2, device="xpu"), zeros).solution.isnan().all()
    assert torch.triangular_solve(torch.ones(4, 0, device="xpu"), zeros).solution.shape == (4, 0)
    with pytest.raises(RuntimeError, match="Incompatible matrix sizes"):
        torch.triangular_solve(torch.ones(3, 2, device="xpu"), zeros)


LAYOUTS = {
    "strided": torch.clone,
    "coo": torch.Tensor.to_sparse,
    "csr": torch.Tensor.to_sparse_csr,
    "csc": torch.Tensor.to_sparse_csc,
    "bsr": lambda x: x.to_sparse_bsr((1, 1)),
    "bsc": lambda x: x.to_sparse_bsc((1, 1)),
}


@pytest.mark.parametrize("out", LAYOUTS)
def test_add_of_every_layout_into_every_layout(out: str) -> None:
    """A layout of `out` that the operands do not have raises; it used to end the process."""
    values = torch.tensor([[1.0, 0.0], [2.0, 3.0]], device="xpu")
    for a, b in itertools.product(LAYOUTS, repeat=2):
        result = LAYOUTS[out](values)
        fits = out == "strided" if "strided" in (a, b) else out == a
        try:
            torch.add(LAYOUTS[a](values), LAYOUTS[b](values), out=result)
        except (RuntimeError, NotImplementedError):
            assert not fits or "coo" in (a, b), (a, b, out)
            continue
        assert torch.equal(result.to_dense(), 2 * values), (a, b, out)


def test_a_strided_operand_in_place() -> None:
    csr = torch.eye(2, device="xpu").to_sparse_csr()
    with pytest.raises(RuntimeError, match="expected `out` of layout Strided"):
        csr += torch.ones(2, 2, device="xpu")


def test_batches_of_products() -> None:
    a = torch.tensor([[[1.0, 0, 2], [0, 3, 0]], [[0, 4, 0], [5, 0, 6]]])
    b, c = torch.randn(2, 3, 4), torch.randn(2, 2, 4)
    out = torch.empty(0, device="xpu")
    torch.bmm(a.to("xpu").to_sparse_csr(), b.to("xpu"), out=out)
    torch.testing.assert_close(out.cpu(), a @ b)
    out = torch.empty(2, 2, 4, device="xpu")
    torch.baddbmm(c.to("xpu"), a.to("xpu").to_sparse_csr(), b.to("xpu"), beta=0.5, alpha=2, out=out)
    torch.testing.assert_close(out.cpu(), 0.5 * c + 2 * (a @ b))
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
        torch.bmm(a.to("xpu").to_sparse_csr(), b.to("xpu")[:, :2], out=out)


def test_solve() -> None:
    a = torch.tensor([[4.0, 1, 0], [1, 3, 0], [0, 0, 2]])
    b = torch.randn(3)
    x = torch.ops.aten._spsolve(a.to("xpu").to_sparse_csr(), b.to("xpu"))
    torch.testing.assert_close(x.cpu(), torch.linalg.solve(a, b))


@pytest.mark.parametrize("wild", [10**8, -(10**8), 2**62])
def test_places_that_nothing_wrote_end_no_process(wild: int) -> None:
    """Without a check of invariants a tensor may hold any places; torch's CPU reads there."""
    ones = torch.ones(4, 2, device="xpu")

    def csr(crow: list[int], col: list[int]) -> Tensor:
        parts = torch.tensor(crow).to("xpu"), torch.tensor(col).to("xpu"), torch.ones(3, device="xpu")
        return torch.sparse_csr_tensor(*parts, (3, 4), check_invariants=False)

    for a in (csr([0, 1, 2, 3], [0, wild, 2]), csr([0, wild, wild + 1, 3], [0, 1, 2])):
        for call in (a.to_dense, a.to_sparse_coo, a.to_sparse_csc, lambda a=a: a @ ones, lambda a=a: a + a, a.cpu):
            with contextlib.suppress(RuntimeError, IndexError):
                call()
                torch.xpu.synchronize()
    with pytest.raises(RuntimeError, match="out of bounds"):
        _ = csr([0, 1, 2, 3], [0, wild, 2]) @ ones
        torch.xpu.synchronize()
    assert ones.sum().item() == 8
