"""torch.linalg on inputs with NaN and infinity, of single matrices and of batches: outcomes are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_near

import xpu_ops
from xpu_ops import onemkl

pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")

ROUTINES: dict[str, Callable[[torch.Tensor], Any]] = {
    "cholesky": torch.linalg.cholesky,
    "cholesky_ex": torch.linalg.cholesky_ex,
    "cholesky_inverse": torch.cholesky_inverse,
    "lu_factor": torch.linalg.lu_factor,
    "lu": torch.linalg.lu,
    "solve": lambda a: torch.linalg.solve(a, a.mT),
    "inv": torch.linalg.inv,
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "solve_triangular": lambda a: torch.linalg.solve_triangular(a, a.mT, upper=True),
    "qr": torch.linalg.qr,
    "svdvals": torch.linalg.svdvals,
    "svd": lambda a: torch.linalg.svd(a).S,
    "eigvalsh": torch.linalg.eigvalsh,
    "eigh": lambda a: torch.linalg.eigh(a).eigenvalues,
    "pinv": torch.linalg.pinv,
    "matrix_rank": torch.linalg.matrix_rank,
    "matrix_exp": torch.linalg.matrix_exp,
    "lstsq": lambda a: torch.linalg.lstsq(a, a.mT).solution,
    "ldl_factor": lambda a: torch.linalg.ldl_factor_ex(a).LD,
    "cond": torch.linalg.cond,
}
NAN, INF = float("nan"), float("inf")
PLACES = {"on the diagonal": (2, 2), "first": (0, 0), "last": (4, 4), "below": (3, 1), "above": (1, 3)}


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def outcome(function: Callable[[torch.Tensor], Any], a: torch.Tensor) -> tuple[Any, ...]:
    """The error's type and text, or the results."""
    try:
        out = function(a)
    except Exception as error:
        return type(error), str(error).split("(error code")[0]
    return (out,) if isinstance(out, torch.Tensor) else tuple(out)


def positive() -> torch.Tensor:
    good = torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return good @ good.mT + 5 * torch.eye(5)


# LAPACK of torch's CPU gives numbers without a meaning, or fails, depending on where infinity stands. Rotations fail.
ROTATED = {"eigvalsh", "eigh"}


@pytest.mark.parametrize("count", [1, 37])
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("name", ROUTINES)
def test_not_finite(name: str, value: float, count: int) -> None:
    """Errors are those of the CPU, and the other matrices of the batch are what they are without the bad one."""
    for where, place in PLACES.items():
        a = positive().expand(count, 5, 5).clone()
        a[(count - 1, *place)] = value
        ours, theirs = outcome(ROUTINES[name], a.to("xpu")), outcome(ROUTINES[name], a)
        if isinstance(ours[0], type) and name in ROTATED and value == INF:
            assert "failed to converge" in ours[1], where
        elif isinstance(ours[0], type) or isinstance(theirs[0], type):
            assert ours == theirs, where
        else:
            for x, y in zip(ours, theirs, strict=True):
                assert_near(x[: count - 1], y[: count - 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("value", [NAN, INF])
def test_eigenvectors_of_what_is_not_finite(value: float) -> None:
    """Refused as linalg.eig of the CPU does; eigvals hands such a matrix to LAPACK on both."""
    a = positive()
    a[1, 3] = value
    with pytest.raises(RuntimeError, match="input tensor should not contain infs or NaNs"):
        torch.linalg.eig(a.to("xpu"))


@pytest.mark.parametrize("driver", [None, "gels", "gelsd"])
@pytest.mark.parametrize(
    "sizes", [((5, 3), (5, 2)), ((3, 5), (3, 2)), ((2, 5, 3), (2, 5, 2)), ((2, 5, 3), (2, 5))], ids=str
)
def test_lstsq_has_the_strides_of_the_cpus(sizes: tuple[tuple[int, ...], tuple[int, ...]], driver: str | None) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(s, dtype=torch.float64) for s in sizes)
    want, got = torch.linalg.lstsq(a, b, driver=driver), torch.linalg.lstsq(a.to("xpu"), b.to("xpu"), driver=driver)
    for w, g in zip(want, got, strict=True):
        assert g.stride() == w.stride()
        torch.testing.assert_close(g.cpu(), w)
