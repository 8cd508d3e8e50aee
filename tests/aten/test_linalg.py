"""torch.linalg beyond OpInfo and drawn rows: hard inputs, errors, order on a busy queue, oneMKL beside torch's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_near, assert_same
from support.streams import slow_task

import xpu_ops
from xpu_ops import onemkl

pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")

TYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
NAN = float("nan")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def matrix(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def positive(n: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    a = matrix(n, n, dtype=dtype)
    return a @ a.mH + n * torch.eye(n, dtype=dtype)


# Every routine, as a function of a square well-conditioned matrix whose result is unique.
ROUTINES: dict[str, Callable[[torch.Tensor], Any]] = {
    "potrf": torch.linalg.cholesky,
    "potri": torch.cholesky_inverse,
    "potrs": lambda a: torch.cholesky_solve(a, a.abs() + 1),
    "getrf": torch.linalg.lu_factor,
    "getrs": lambda a: torch.linalg.solve(a, a.mT),
    "trsm": lambda a: torch.linalg.solve_triangular(a, a.mT, upper=True),
    "geqrf": torch.geqrf,
    "orgqr": lambda a: torch.linalg.qr(a).Q,
    "ormqr": lambda a: torch.ormqr(a.tril(-1) / 100, torch.ones_like(a[0]), a),
    "gesdd": torch.linalg.svdvals,
    "syevd": torch.linalg.eigvalsh,
    "geev": lambda a: torch.linalg.eigvals(a.triu()).real.sort().values,
    "lstsq": lambda a: torch.linalg.lstsq(a, a.mT).solution,
    "sytrf": lambda a: torch.linalg.ldl_factor(a).LD,
    "sytrs": lambda a: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), a),
    "lu_permutation": lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a))[0],
}


@pytest.mark.parametrize("name", ROUTINES)
@pytest.mark.parametrize("n", [6, 70])
def test_order_behind_a_slow_task(name: str, n: int) -> None:
    """A routine reads the result of an earlier task that is still running."""
    a = positive(n)
    source, given = a.to("xpu"), torch.eye(n, dtype=a.dtype, device="xpu") * 7
    slow_task()
    given.copy_(source)
    actual = ROUTINES[name](given)
    assert_near(actual, ROUTINES[name](a), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ROUTINES)
def test_two_onemkl_in_one_process(name: str) -> None:
    """torch's CPU routines and ours, in turn: each keeps to the library it was linked with."""
    a = positive(40)
    before = ROUTINES[name](a)
    for _ in range(2):
        assert_near(ROUTINES[name](a.to("xpu")), before, rtol=1e-8, atol=1e-8)
        assert_same(ROUTINES[name](a), before)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_smallest(n: int, dtype: torch.dtype) -> None:
    a = positive(n, dtype)
    given = a.to("xpu")
    tol = {"rtol": 1e-4, "atol": 1e-4}
    for f in (torch.linalg.cholesky, torch.linalg.inv, torch.linalg.det, torch.linalg.slogdet, torch.linalg.eigvalsh,
              torch.linalg.svdvals, torch.linalg.matrix_exp, torch.linalg.lu, torch.linalg.pinv):  # fmt: skip
        assert_near(f(given), f(a), **tol)
    q, r = torch.linalg.qr(given, mode="complete")
    assert_near(q @ r, a, **tol)


def test_rank_deficient() -> None:
    a = matrix(6, 3) @ matrix(3, 5, seed=1)
    given = a.to("xpu")
    assert torch.linalg.matrix_rank(given).item() == 3
    assert_near(torch.linalg.pinv(given), torch.linalg.pinv(a), rtol=1e-8, atol=1e-8)
    for driver in ("gelsy", "gelsd", "gelss"):
        b = matrix(6, 2, seed=2)
        ours, theirs = (torch.linalg.lstsq(x, y, driver=driver) for x, y in ((given, b.to("xpu")), (a, b)))
        assert_near(ours, theirs, rtol=1e-8, atol=1e-8)
        assert ours.rank.item() == 3


def test_badly_scaled() -> None:
    scale = torch.logspace(-120, 120, 8, dtype=torch.float64)
    a = matrix(8, 8) * scale
    u, s, vh = torch.linalg.svd(a.to("xpu"))
    assert_near(s / s[0], torch.linalg.svdvals(a) / s[0].item(), rtol=1e-10, atol=1e-14)
    assert_near(u @ u.mH, torch.eye(8), rtol=0, atol=1e-12)
    assert_near(vh @ vh.mH, torch.eye(8), rtol=0, atol=1e-12)


def test_repeated_eigenvalues() -> None:
    q = torch.linalg.qr(matrix(7, 7)).Q
    a = (q * torch.tensor([1.0, 1, 1, 2, 2, 5, 5], dtype=torch.float64)) @ q.mT
    w, v = torch.linalg.eigh(a.to("xpu"))
    assert_near(w, torch.tensor([1.0, 1, 1, 2, 2, 5, 5]))
    assert_near((v * w) @ v.mT, a, rtol=1e-10, atol=1e-10)
    assert_near(v.mT @ v, torch.eye(7), rtol=0, atol=1e-10)


def test_defective() -> None:
    a = torch.eye(4, dtype=torch.float64) * 2 + torch.diag(torch.ones(3, dtype=torch.float64), 1)
    w, v = torch.linalg.eig(a.to("xpu"))
    assert_near(w, torch.full((4,), 2 + 0j), rtol=1e-3, atol=1e-3)
    assert_near(a.to("xpu").to(v.dtype) @ v, (v * w).cpu(), rtol=1e-10, atol=1e-10)


def test_complex_pairs() -> None:
    a = matrix(9, 9)
    w, v = torch.linalg.eig(a.to("xpu"))
    assert_near(a.to("xpu").to(v.dtype) @ v, (v * w).cpu(), rtol=1e-10, atol=1e-10)
    assert_near(v.abs().square().sum(0), torch.ones(9), rtol=1e-10, atol=0)


BAD: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "singular solve": (lambda a: torch.linalg.solve(a, a), torch.zeros(3, 3)),
    "singular inverse": (torch.linalg.inv, torch.ones(2, 3, 3)),
    "cholesky": (torch.linalg.cholesky, -torch.eye(3)),
    "cholesky of a batch": (torch.linalg.cholesky, torch.stack([torch.eye(3), -torch.eye(3)])),
    "cholesky_ex": (lambda a: torch.linalg.cholesky_ex(a, check_errors=True), -torch.eye(3)),
    "lu_factor": (torch.linalg.lu_factor, torch.zeros(2, 2)),
    "svd of NaN": (torch.linalg.svd, torch.full((3, 3), NAN)),
    "eig of NaN": (torch.linalg.eig, torch.full((3, 3), NAN)),
    "not square": (torch.linalg.inv, torch.ones(2, 3)),
    "a vector": (torch.linalg.qr, torch.ones(3)),
    "bfloat16": (torch.linalg.cholesky, torch.eye(2, dtype=torch.bfloat16)),
    "half": (torch.linalg.svd, torch.eye(2, dtype=torch.float16)),
    "integers": (torch.linalg.inv, torch.eye(2, dtype=torch.int64)),
    "driver": (lambda a: torch.linalg.lstsq(a, a, driver="qr"), torch.eye(3)),
    "svd driver": (lambda a: torch.linalg.svd(a, driver="gesvd"), torch.eye(3)),
    "qr mode": (lambda a: torch.linalg.qr(a, mode="full"), torch.eye(3)),
}
if hasattr(torch.ops.aten, "cholesky"):  # torch 2.14 has removed it
    BAD["cholesky, old"] = (torch.cholesky, -torch.eye(3))


@pytest.mark.parametrize("name", BAD)
def test_errors_are_those_of_the_cpu(name: str) -> None:
    function, a = BAD[name]
    with pytest.raises(Exception) as expected:
        function(a)
    with pytest.raises(type(expected.value)) as actual:
        function(a.to("xpu"))
    if "not implemented for" not in str(expected.value):
        assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("dtype", [*TYPES, torch.bfloat16])
def test_matrix_exp(dtype: torch.dtype) -> None:
    """Norms from 0 to some hundred in one batch: each matrix has its own number of squarings."""
    scales = torch.tensor([0, 1e-9, 1e-3, 0.1, 1, 7, 60]).reshape(-1, 1, 1)
    a = (matrix(7, 5, 5, dtype=torch.complex128 if dtype.is_complex else torch.float64) * scales / 5).to(dtype)
    a -= 0.5 * a.mH  # a skew part and little of the rest, so that large norms have no large results
    wide = a.to(torch.complex128 if dtype.is_complex else torch.float64)
    tol = 3e-2 if dtype == torch.bfloat16 else 1e-10 if dtype in (torch.float64, torch.complex128) else 1e-3
    actual = torch.linalg.matrix_exp(a.to("xpu"))
    assert actual.dtype == dtype
    expected = torch.linalg.matrix_exp(wide)
    for x, e in zip(actual, expected, strict=True):
        assert_near(x / e.abs().max().item(), e / e.abs().max(), rtol=0, atol=tol)
    assert torch.linalg.matrix_exp(torch.full((3, 3), NAN, device="xpu", dtype=dtype)).isnan().all()


if hasattr(torch.linalg, "polar"):  # torch 2.14 has added both

    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("shape", [(5, 3), (2, 4, 4), (0, 3, 2), (3, 0)])
    def test_polar(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
        a = matrix(*shape, dtype=dtype)
        for ours, theirs in zip(torch.linalg.polar(a.to("xpu")), torch.linalg.polar(a), strict=True):
            assert_near(ours, theirs, rtol=1e-4, atol=1e-5)
            assert ours.stride() == theirs.stride()
        h = torch.linalg.polar(a.to("xpu")).H.cpu()
        assert torch.equal(h, h.mH)

    @pytest.mark.parametrize("dtype", TYPES)
    def test_matrix_sqrth(dtype: torch.dtype) -> None:
        a = positive(4, dtype)
        assert_near(torch.linalg.matrix_sqrth(a.to("xpu")), torch.linalg.matrix_sqrth(a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", [torch.linalg.solve, torch.linalg.solve_ex, torch.linalg.lstsq])
def test_operands_of_two_devices(function: Callable[..., Any]) -> None:
    a, b = torch.eye(3), torch.ones(3, 2)
    for operands in ((a.to("xpu"), b), (a, b.to("xpu"))):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            function(*operands)


def test_info_is_on_the_device() -> None:
    a = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1.0, 1.0])), torch.zeros(3, 3)])
    for f in (torch.linalg.cholesky_ex, torch.linalg.lu_factor_ex, torch.linalg.inv_ex, torch.linalg.ldl_factor_ex):
        ours, theirs = f(a.to("xpu")).info, f(a).info
        assert ours.is_xpu and ours.dtype == torch.int32
        assert_same(ours, theirs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (0,)])
def test_layouts_and_batches(lead: tuple[int, ...], dtype: torch.dtype) -> None:
    """Row-major, column-major, conjugate, negative, strided and expanded inputs solve the same system."""
    a = matrix(*lead, 12, 12, dtype=dtype) + 6 * torch.eye(12, dtype=dtype)
    b = matrix(*lead, 12, 4, dtype=dtype, seed=1)
    views = [lambda t: t, lambda t: t.mT, lambda t: t.mH, lambda t: t.conj(), lambda t: -t, lambda t: t[..., ::2, ::2],
             lambda t: torch._neg_view(t)]  # fmt: skip
    tol = {"rtol": 1e-4, "atol": 1e-4}
    for view in views:
        x, y = view(a), b[..., : view(a).shape[-1], :]
        gx, gy = view(a.to("xpu")), b.to("xpu")[..., : x.shape[-1], :]
        assert_near(torch.linalg.solve(gx, gy), torch.linalg.solve(x, y), **tol)
        for upper in (False, True):
            for left in (False, True):
                rhs, grhs = (y, gy) if left else (y.mT, gy.mT)
                ours = torch.linalg.solve_triangular(gx, grhs, upper=upper, left=left)
                assert_near(ours, torch.linalg.solve_triangular(x, rhs, upper=upper, left=left), **tol)
        assert_near(torch.linalg.det(gx), torch.linalg.det(x), rtol=1e-3, atol=1e-3)


def test_solve_in_place_of_its_matrix() -> None:
    a, b = matrix(5, 5) + 9 * torch.eye(5), matrix(5, 5, seed=1)
    for target in (0, 1):
        given = [a.to("xpu"), b.to("xpu")]
        torch.linalg.solve_triangular(*given, upper=True, out=given[target])
        assert_near(given[target], torch.linalg.solve_triangular(a, b, upper=True), rtol=1e-10, atol=1e-10)


def test_pivots_of_anyone_are_checked() -> None:
    data = torch.eye(3, device="xpu")
    for pivots in ([9, 9, 9], [-4, 0, 2]):
        p, _, _ = torch.lu_unpack(data, torch.tensor(pivots, dtype=torch.int32, device="xpu"))
        assert p.shape == (3, 3)
        torch.xpu.synchronize()


@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_lu_unpack_refuses_pivots_of_another_size(shape: tuple[int, ...]) -> None:
    """More pivots than rows were written behind the permutation; of fewer matrices, memory outside was read."""
    # From 2.15 on torch's meta function refuses them first.
    with pytest.raises((RuntimeError, ValueError), match="xpected LU_pivots"):
        torch.lu_unpack(torch.eye(3, device="xpu"), torch.ones(shape, dtype=torch.int32, device="xpu"))


def test_eigenvalues_of_infinity_are_nan() -> None:
    """eig refuses it, eigvals does not."""
    a = torch.tensor([[1.0, math.inf], [0.0, 2.0]], device="xpu")
    assert torch.linalg.eigvals(a).isnan().all()


@pytest.mark.parametrize("pivots", [[9, 9, 9], [-4, 1, 2], [0, 1, 2]])
def test_solvers_refuse_pivots_that_name_no_row(pivots: list[int]) -> None:
    data, b = torch.eye(3, device="xpu"), torch.ones(3, 1, device="xpu")
    where = torch.tensor(pivots, dtype=torch.int32, device="xpu")
    with pytest.raises(RuntimeError, match="Pivots given to lu_solve must all be"):
        torch.linalg.lu_solve(data, where, b)
    with pytest.raises(RuntimeError, match="Pivots given to ldl_solve"):
        torch.linalg.ldl_solve(data, where, b)


GRADIENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT + 3 * torch.eye(3, dtype=a.dtype, device=a.device)),
    "inv": torch.linalg.inv,
    "slogdet": lambda a: torch.linalg.slogdet(a)[1],
    "solve": lambda a: torch.linalg.solve(a, a.mT),
    "qr": torch.linalg.qr,
    "svdvals": torch.linalg.svdvals,
    "eigvalsh": lambda a: torch.linalg.eigvalsh(a + a.mT),
    "eigvals": lambda a: torch.linalg.eigvals(a).abs(),
    "lstsq": lambda a: torch.linalg.lstsq(a, a.mT).solution,
    "matrix_exp": torch.linalg.matrix_exp,
    "pinv": torch.linalg.pinv,
    "lu": lambda a: torch.linalg.lu(a)[1:],
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    a = matrix(2, 3, 3)
    a = (a + 4 * torch.diag(torch.arange(1.0, 4.0))).to("xpu").requires_grad_()
    assert torch.autograd.gradcheck(GRADIENTS[name], a)


@pytest.mark.parametrize("function", [torch.linalg.inv, torch.linalg.cholesky, torch.linalg.svdvals, torch.linalg.qr])
def test_autocast_computes_in_float(function: Callable[[torch.Tensor], Any]) -> None:
    a = positive(5, torch.float32).bfloat16()
    with torch.autocast("xpu", dtype=torch.bfloat16):
        actual = function(a.to("xpu"))
    assert_near(actual, function(a.float()), rtol=1e-3, atol=1e-3)


def test_composed_functions() -> None:
    """Those that torch puts together from the routines above."""
    a, b = matrix(6, 6) + 6 * torch.eye(6), matrix(6, 2, seed=1)
    s = positive(30)
    calls: list[Callable[..., Any]] = [
        lambda t: torch.linalg.cond(t(a)),
        lambda t: torch.linalg.matrix_power(t(a), -3),
        lambda t: torch.linalg.matrix_norm(t(a), ord="nuc"),
        lambda t: torch.linalg.norm(t(a), ord=2),
        lambda t: torch.linalg.tensorinv(t(a).reshape(2, 3, 6)),
        lambda t: torch.linalg.tensorsolve(t(a).reshape(2, 3, 6), t(b[:, 0]).reshape(2, 3)),
        lambda t: torch.linalg.multi_dot([t(a), t(a), t(b)]),
        lambda t: torch.logdet(t(s)),
        lambda t: torch.pinverse(t(a)),
        lambda t: torch.lobpcg(t(s), k=2, X=t(matrix(30, 2)))[0],
        lambda t: torch.cov(t(a)),
    ]
    for call in calls:
        assert_near(call(lambda x: x.to("xpu")), call(lambda x: x), rtol=1e-6, atol=1e-6)
    torch.manual_seed(0)
    u, values, v = torch.svd_lowrank(s.to("xpu"), q=30)
    assert_near((u * values) @ v.mT, s, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(3, 0), (2, 3, 0), (0, 3), (2, 0, 3), (0, 0)])
def test_least_squares_of_no_elements(driver: str, shape: tuple[int, ...]) -> None:
    a, b = matrix(*shape), matrix(*shape[:-1], 2)
    ours, theirs = (torch.linalg.lstsq(a.to(d), b.to(d), driver=driver) for d in ("xpu", "cpu"))
    assert_near(ours, theirs, rtol=1e-12, atol=1e-12)


def test_least_squares_of_no_right_sides() -> None:
    for device in ("cpu", "xpu"):
        r = torch.linalg.lstsq(torch.eye(3, 2, device=device)[None], torch.ones(0, 3, 2, device=device), driver="gelsy")
        assert r.solution.shape == (0, 2, 2)
        assert r.rank.shape == (1,)


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3, 2), (1, 3)), ((2, 3, 2), (3, 2)), ((0, 0, 2), (0, 2)), ((2, 2, 2), (2, 1)), ((2, 3, 2), (2, 3))],
)
def test_least_squares_of_fewer_dimensions(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Right sides are vectors only where they have the shape of the batch."""

    def shapes(device: str) -> Any:
        r = torch.linalg.lstsq(matrix(*a).to(device), matrix(*b).to(device), driver="gelsd")
        return [(x.shape, x.dtype) for x in r]

    try:
        expected = shapes("cpu")
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as found:
            shapes("xpu")
        assert str(found.value) == str(error)
    else:
        assert shapes("xpu") == expected
