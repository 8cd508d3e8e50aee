"""Batches of small matrices, which have kernels of their own: against torch CPU, and hard inputs among easy ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_near, assert_same
from support.streams import slow_task

import xpu_ops
from xpu_ops import onemkl

pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")

TYPES = [torch.float32, torch.float64]
# Whole vectors of matrices and a part of one; sizes up to the largest, and one beyond.
COUNT = 37
SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 32, 33]
NAN = float("nan")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def tolerance(dtype: torch.dtype, wide: float = 1.0) -> dict[str, float]:
    eps = wide * (2e-4 if dtype == torch.float32 else 1e-11)
    return {"rtol": eps, "atol": eps}


def matrices(count: int, m: int, n: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, m, n, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def regular(count: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    """Well-conditioned, with pivots that are no ties."""
    return matrices(count, n, n, dtype) + 0.1 * n * torch.eye(n, dtype=dtype).flip(0)


def positive(count: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    a = matrices(count, n, n, dtype)
    return a @ a.mT + n * torch.eye(n, dtype=dtype)


SOLVERS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, b: torch.linalg.cholesky_ex(a @ a.mT + eye(a)),
    "cholesky, upper": lambda a, b: torch.linalg.cholesky_ex(a @ a.mT + eye(a), upper=True),
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a + 9 * eye(a)),
    "cholesky_solve, upper": lambda a, b: torch.cholesky_solve(b, a + 9 * eye(a), upper=True),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(a + 9 * eye(a)),
    "lu_factor": lambda a, b: torch.linalg.lu_factor_ex(a),
    "solve": lambda a, b: torch.linalg.solve_ex(a + 9 * eye(a), b),
    "solve, vectors": lambda a, b: torch.linalg.solve(a + 9 * eye(a), b[..., 0]),
    "solve, right": lambda a, b: torch.linalg.solve(a + 9 * eye(a), b.mT, left=False),
    "inv": lambda a, b: torch.linalg.inv_ex(a + 9 * eye(a)),
    "det": lambda a, b: torch.linalg.det(a / 3),
    "slogdet": lambda a, b: torch.linalg.slogdet(a),
    "qr": lambda a, b: torch.linalg.qr(a),
    "geqrf": lambda a, b: torch.geqrf(a),
    "eigvalsh": lambda a, b: torch.linalg.eigvalsh(a),
    "svdvals": lambda a, b: torch.linalg.svdvals(a),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a.triu() + 9 * eye(a)),
    "triangular_solve, transposed": lambda a, b: torch.triangular_solve(b, a.triu() + 9 * eye(a), transpose=True),
    "solve_triangular, unit": lambda a, b: torch.linalg.solve_triangular(
        a / 30, b, upper=False, unitriangular=True),
    "solve_triangular, right": lambda a, b: torch.linalg.solve_triangular(
        a + 9 * eye(a), b.mT, upper=True, left=False),
}  # fmt: skip


def eye(a: torch.Tensor) -> torch.Tensor:
    return torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_size(name: str, dtype: torch.dtype) -> None:
    for n in SIZES:
        a, b = regular(COUNT, n, dtype), matrices(COUNT, n, 3, dtype, seed=1)
        actual = SOLVERS[name](a.to("xpu"), b.to("xpu"))
        assert_near(actual, SOLVERS[name](a.double(), b.double()), **tolerance(dtype, 1 + n))


def test_lu_without_pivots() -> None:
    """torch CPU has none."""
    a = matrices(COUNT, 7, 7) + 30 * torch.eye(7)
    data, pivots, info = torch.linalg.lu_factor_ex(a.to("xpu"), pivot=False)
    assert_near((data.tril(-1) + eye(data)) @ data.triu(), a, rtol=1e-11, atol=1e-11)
    assert not info.any() and (pivots == torch.arange(1, 8, device="xpu")).all()


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "by columns": lambda t: t.mT.contiguous().mT,
    "strided": lambda t: t.repeat_interleave(2, -1).repeat_interleave(3, -2)[..., ::3, ::2],
    "within rows": lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
    "within columns": lambda t: torch.cat([t, t], -2)[..., : t.shape[-2], :],
    "batch last": lambda t: t.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "two batches": lambda t: t.reshape(COUNT, 1, *t.shape[1:]).expand(COUNT, 2, *t.shape[1:]),
    "two batches, turned": lambda t: torch.stack([t, t]).transpose(0, 1),
    "one for all": lambda t: t[0].expand(COUNT, *t.shape[1:]),
    "negative": lambda t: torch._neg_view(t),
    "offset": lambda t: torch.cat([t, t])[1 : COUNT + 1],
}


@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view: str) -> None:
    a, b = regular(COUNT, 6, torch.float64), matrices(COUNT, 6, 2)
    for function in SOLVERS.values():
        x, y = VIEWS[view](a), VIEWS[view](b)
        given = VIEWS[view](a.to("xpu")), VIEWS[view](b.to("xpu"))
        assert_near(function(*given), function(x, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (3, 8), (8, 3), (32, 17), (17, 32), (33, 4)])
def test_rectangles(shape: tuple[int, int], dtype: torch.dtype) -> None:
    a = matrices(COUNT, *shape, dtype)
    given = a.to("xpu")
    tol = tolerance(dtype, 30)
    for mode in ("reduced", "complete", "r"):
        assert_near(torch.linalg.qr(given, mode=mode), torch.linalg.qr(a, mode=mode), **tol)
    assert_near(torch.linalg.lu_factor_ex(given), torch.linalg.lu_factor_ex(a), **tol)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(given, full_matrices=full)
        expected = torch.linalg.svd(a, full_matrices=full)
        assert_near(s, expected.S, **tol)
        assert u.shape == expected.U.shape and vh.shape == expected.Vh.shape
        check_orthogonal(u, tol)
        check_orthogonal(vh.mT, tol)
        k = s.shape[-1]
        assert_near((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, **tol)


def check_orthogonal(q: torch.Tensor, tol: dict[str, float]) -> None:
    assert_near(q.mT @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1), **tol)


def spectrum(values: list[float], count: int, dtype: torch.dtype) -> torch.Tensor:
    q = torch.linalg.qr(matrices(count, len(values), len(values))).Q
    return ((q * torch.tensor(values, dtype=torch.float64)) @ q.mT).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "values",
    [[1, 1, 1, 2, 2, 5, 5], [0, 0, 0, 0], [3, -3, 3, -3], [1e-6, 1, 1e6], [-1, -2, -3, 0, 0], [7.0] * 32],
    ids=str,
)
def test_hard_spectra(values: list[float], dtype: torch.dtype) -> None:
    """Repeated, vanishing and widely spread eigenvalues: vectors are orthogonal all the same."""
    a = spectrum(values, COUNT, dtype)
    size = max(1e-30, max(abs(v) for v in values))
    tol = tolerance(dtype, 0.1)
    w, v = torch.linalg.eigh(a.to("xpu") / size)
    assert_near(w, torch.tensor(sorted(values), dtype=dtype).div(size).expand(COUNT, -1), **tol)
    check_orthogonal(v, tol)
    assert_near((v * w.unsqueeze(-2)) @ v.mT, a / size, **tol)
    u, s, vh = torch.linalg.svd(a.to("xpu") / size)
    falling = sorted((abs(x) / size for x in values), reverse=True)
    assert_near(s, torch.tensor(falling, dtype=dtype).expand(COUNT, -1), **tol)
    check_orthogonal(u, tol)
    check_orthogonal(vh.mT, tol)
    assert_near((u * s.unsqueeze(-2)) @ vh, a / size, **tol)


@pytest.mark.parametrize("scale", [1e-35, 1e-30, 1e30, 3e36])
def test_scale(scale: float) -> None:
    """Squares of the elements leave float32's range."""
    a = positive(COUNT, 5, torch.float64) / 30
    given = (a * scale).float().to("xpu")
    tol = {"rtol": 1e-4, "atol": 0.0}
    assert_near(torch.linalg.svdvals(given).double() / scale, torch.linalg.svdvals(a), **tol)
    assert_near(torch.linalg.eigvalsh(given).double() / scale, torch.linalg.eigvalsh(a), **tol)
    r = torch.linalg.qr(given).R.double() / scale
    assert_near(r, torch.linalg.qr(a).R, rtol=1e-4, atol=1e-5)


def bad_batch(bad: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Good matrices, with the bad one in two lanes."""
    a = positive(COUNT, bad.shape[-1], dtype)
    a[5], a[COUNT - 1] = bad.to(dtype), bad.to(dtype)
    return a


BAD = {
    "zeros": torch.zeros(4, 4),
    "rank one": torch.ones(4, 4),
    "indefinite": torch.diag(torch.tensor([1.0, -1.0, 2.0, 3.0])),
    "indefinite at the end": torch.diag(torch.tensor([1.0, 1.0, 2.0, 0.0])),
    "NaN on the diagonal": torch.diag(torch.tensor([1.0, NAN, 2.0, 3.0])),
    "a column of zeros": torch.tensor([[1.0, 0, 2, 3], [4, 0, 6, 7], [8, 0, 9, 5], [3, 0, 2, 2]]),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", BAD)
def test_info(name: str, dtype: torch.dtype) -> None:
    """Per matrix as LAPACK's, and the good matrices of the batch are not touched by the bad ones."""
    a = bad_batch(BAD[name], dtype)
    given = a.to("xpu")
    good = [i for i in range(COUNT) if i not in (5, COUNT - 1)]
    for f in (torch.linalg.cholesky_ex, torch.linalg.lu_factor_ex, torch.linalg.inv_ex):
        ours, theirs = f(given), f(a)
        assert ours.info.is_xpu and ours.info.dtype == torch.int32
        assert_same(ours.info, theirs.info)
        assert_near(ours[0].cpu()[good], theirs[0][good], **tolerance(dtype))
    assert_near(torch.linalg.det(given).cpu()[good], torch.linalg.det(a)[good], rtol=1e-4, atol=0)
    ours, theirs = (torch.linalg.det(t)[[5]].nan_to_num(nan=7.0) for t in (given, a))
    assert_near(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 31])
def test_cholesky_that_fails_leaves_what_lapack_leaves(n: int) -> None:
    a = matrices(300, n, n)
    a = (a + a.mT) / 2 + torch.linspace(0, 2 * n**0.5, 300, dtype=torch.float64).view(-1, 1, 1) * eye(a)
    factor, info = torch.linalg.cholesky_ex(a)
    assert 0 < int((info > 0).sum()) < 300
    actual = torch.linalg.cholesky_ex(a.to("xpu"))
    assert torch.equal(actual.info.cpu(), info)
    torch.testing.assert_close(actual.L.cpu(), factor, rtol=1e-8, atol=1e-8)


ERRORS: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "cholesky": (torch.linalg.cholesky, "indefinite"),
    "cholesky_ex": (lambda a: torch.linalg.cholesky_ex(a, check_errors=True), "indefinite at the end"),
    "cholesky_inverse": (torch.cholesky_inverse, "zeros"),
    "inv": (torch.linalg.inv, "rank one"),
    "inv_ex": (lambda a: torch.linalg.inv_ex(a, check_errors=True), "zeros"),
    "solve": (lambda a: torch.linalg.solve(a, a), "a column of zeros"),
    "lu_factor": (torch.linalg.lu_factor, "zeros"),
    "eigh": (torch.linalg.eigh, "NaN everywhere"),
    "svd": (torch.linalg.svd, "NaN everywhere"),
}
if hasattr(torch.ops.aten, "cholesky"):  # torch 2.14 has removed it
    ERRORS["torch.cholesky"] = (torch.cholesky, "indefinite")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    function, which = ERRORS[name]
    a = bad_batch(BAD.get(which, torch.full((4, 4), NAN)), torch.float32)
    with pytest.raises(Exception) as expected:
        function(a)
    with pytest.raises(type(expected.value)) as actual:
        function(a.to("xpu"))
    ours, theirs = str(actual.value), str(expected.value)
    assert ours.split("(error code")[0] == theirs.split("(error code")[0]


@pytest.mark.parametrize("function", [torch.linalg.inv, torch.linalg.cholesky, torch.linalg.eigvalsh])
def test_order_behind_a_slow_task(function: Callable[..., Any]) -> None:
    a = positive(COUNT, 6, torch.float64)
    source, given = a.to("xpu"), torch.zeros(COUNT, 6, 6, dtype=a.dtype, device="xpu")
    slow_task()
    given.copy_(source)
    assert_near(function(given), function(a), rtol=1e-9, atol=1e-9)


def test_out_and_in_place_of_the_operand() -> None:
    a, b = positive(COUNT, 6, torch.float64), matrices(COUNT, 6, 6, seed=1)
    x = a.to("xpu")
    torch.linalg.inv(x, out=x)
    assert_near(x, torch.linalg.inv(a), rtol=1e-9, atol=1e-9)
    for target in (0, 1):
        given = [a.to("xpu"), b.to("xpu")]
        torch.linalg.solve(*given, out=given[target])
        assert_near(given[target], torch.linalg.solve(a, b), rtol=1e-9, atol=1e-9)
        given = [a.to("xpu"), b.to("xpu")]
        torch.linalg.solve_triangular(*given, upper=True, out=given[target])
        assert_near(given[target], torch.linalg.solve_triangular(a, b, upper=True), rtol=1e-9, atol=1e-9)
    strided = torch.zeros(COUNT, 12, 6, dtype=a.dtype, device="xpu")[:, ::2]
    torch.linalg.cholesky(a.to("xpu"), out=strided)
    assert_near(strided, torch.linalg.cholesky(a), rtol=1e-9, atol=1e-9)


GRADIENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT + 3 * eye(a)),
    "solve": lambda a: torch.linalg.solve(a, a.mT),
    "det": torch.linalg.det,
    "qr": torch.linalg.qr,
    "eigh": lambda a: torch.linalg.eigh(a + a.mT).eigenvalues,
    "svd": lambda a: torch.linalg.svd(a).S,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_the_cpu(name: str) -> None:
    a = regular(COUNT, 4, torch.float64) + 4 * torch.diag(torch.arange(1.0, 5.0, dtype=torch.float64))
    results = []
    for device in ("cpu", "xpu"):
        x = a.detach().clone().to(device).requires_grad_()
        out = GRADIENTS[name](x)
        parts = [out] if isinstance(out, torch.Tensor) else list(out)
        sum((p * p.cos()).sum() for p in parts).backward()
        results.append(x.grad)
    assert_near(results[1], results[0], rtol=1e-7, atol=1e-7)


def test_large_batches() -> None:
    """More matrices than workers: each worker takes several."""
    a = positive(20_000, 3, torch.float32)
    assert_near(torch.linalg.cholesky(a.to("xpu")), torch.linalg.cholesky(a), rtol=1e-3, atol=1e-3)
    assert_near(torch.linalg.eigvalsh(a.to("xpu")), torch.linalg.eigvalsh(a), rtol=1e-3, atol=1e-3)


def test_a_pair_that_rounding_keeps_turning() -> None:
    """A well-conditioned matrix for which Jacobi's rotations met the limit of rounding in no sweep, in the kernel of many matrices."""
    rows = [
        [-1.5844957828521729, -1.8170249462127686, 0.22588522732257843],
        [0.7686320543289185, -0.6642769575119019, -0.46830886602401733],
        [0.190780371427536, 1.3172098398208618, -1.9642118215560913],
    ]
    a = torch.tensor(rows).expand(1000, 3, 3).contiguous()
    u, s, vh = torch.linalg.svd(a.to("xpu"))
    torch.testing.assert_close(s.cpu(), torch.linalg.svdvals(a))
    torch.testing.assert_close(((u * s.unsqueeze(-2)) @ vh).cpu(), a)
