"""torch.linalg on inputs with NaN and infinity, of single matrices and of batches: outcomes are those of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

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
    "eigvals": torch.linalg.eigvals,
    "pinv": torch.linalg.pinv,
    "matrix_rank": torch.linalg.matrix_rank,
    "matrix_exp": torch.linalg.matrix_exp,
    "lstsq": lambda a: torch.linalg.lstsq(a, a.mT).solution,
    "ldl_factor": lambda a: torch.linalg.ldl_factor_ex(a).LD,
    "cond": torch.linalg.cond,
}
PLACES = {"on the diagonal": (2, 2), "first": (0, 0), "last": (4, 4), "below": (3, 1), "above": (1, 3)}


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with xpu_ops.forbid_fallback():
        yield


def outcome(function: Callable[[torch.Tensor], Any], a: torch.Tensor) -> tuple[Any, ...]:
    """The error's type and text, or where results are finite."""
    try:
        out = function(a)
    except Exception as error:
        return type(error), str(error).split("(error code")[0]
    return tuple(t.cpu().isfinite().tolist() for t in ((out,) if isinstance(out, torch.Tensor) else out))


@pytest.mark.parametrize("count", [1, 37])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ROUTINES)
def test_not_finite(name: str, value: float, count: int) -> None:
    torch.manual_seed(0)
    good = torch.randn(5, 5, dtype=torch.float64)
    good = good @ good.mT + 5 * torch.eye(5)
    differ = {}
    for where, place in PLACES.items():
        a = good.clone()
        a[place] = value
        if count > 1:
            a = torch.stack([a, *[good] * (count - 1)])
        ours, theirs = outcome(ROUTINES[name], a.to("xpu")), outcome(ROUTINES[name], a)
        if ours != theirs:
            differ[where] = (ours, theirs)
    assert not differ
