"""Every function of torch.linalg and its older kin, forward and backward as the CPU, without a fallback."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.linalg as la
from support.compare import assert_near

import xpu_ops
from xpu_ops import onemkl

pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")


def seeded(function: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(0)
    return function(*args)


# Of a: 4 x 4 and regular, s: 4 x 4 and positive definite, t: 6 x 4, v: 4 x 2, w: 6 x 2. Results are unique.
CALLS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, s, t, v, w: la.cholesky(s),
    "cholesky_ex": lambda a, s, t, v, w: la.cholesky_ex(s).L,
    "cond": lambda a, s, t, v, w: la.cond(a),
    "cross": lambda a, s, t, v, w: la.cross(t[..., :3], t[..., 1:]),
    "det": lambda a, s, t, v, w: la.det(a),
    "diagonal": lambda a, s, t, v, w: la.diagonal(a),
    "eig": lambda a, s, t, v, w: la.eig(a).eigenvalues.abs(),
    "eigh": lambda a, s, t, v, w: la.eigh(s).eigenvalues,
    "eigvals": lambda a, s, t, v, w: la.eigvals(a).abs(),
    "eigvalsh": lambda a, s, t, v, w: la.eigvalsh(s),
    "householder_product": lambda a, s, t, v, w: la.householder_product(t / 3, s.diagonal(0, -2, -1) / 99),
    "inv": lambda a, s, t, v, w: la.inv(a),
    "inv_ex": lambda a, s, t, v, w: la.inv_ex(a).inverse,
    "ldl_factor": lambda a, s, t, v, w: la.ldl_factor(s.detach()).LD,
    "ldl_factor_ex": lambda a, s, t, v, w: la.ldl_factor_ex(s.detach()).LD,
    "ldl_solve": lambda a, s, t, v, w: la.ldl_solve(*la.ldl_factor(s.detach()), v.detach()),
    "lstsq": lambda a, s, t, v, w: la.lstsq(t, w).solution,
    "lu": lambda a, s, t, v, w: la.lu(a)[1:],
    "lu_factor": lambda a, s, t, v, w: la.lu_factor(a).LU,
    "lu_factor_ex": lambda a, s, t, v, w: la.lu_factor_ex(a).LU,
    "lu_solve": lambda a, s, t, v, w: la.lu_solve(*la.lu_factor(a), v),
    "matmul": lambda a, s, t, v, w: la.matmul(a, v),
    "matrix_exp": lambda a, s, t, v, w: la.matrix_exp(a / 4),
    "matrix_norm": lambda a, s, t, v, w: la.matrix_norm(t, "nuc"),
    "matrix_power": lambda a, s, t, v, w: la.matrix_power(a, -2),
    "matrix_rank": lambda a, s, t, v, w: la.matrix_rank(t),
    "multi_dot": lambda a, s, t, v, w: la.multi_dot([x.flatten(0, -3)[0] if x.dim() > 2 else x for x in (t, a, v)]),
    "norm": lambda a, s, t, v, w: la.norm(t, ord=2, dim=(-2, -1)),
    "pinv": lambda a, s, t, v, w: (la.pinv(t), la.pinv(s, hermitian=True)),
    "qr": lambda a, s, t, v, w: la.qr(t),
    "slogdet": lambda a, s, t, v, w: la.slogdet(a).logabsdet,
    "solve": lambda a, s, t, v, w: la.solve(a, v),
    "solve_ex": lambda a, s, t, v, w: la.solve_ex(a, v).result,
    "solve_triangular": lambda a, s, t, v, w: la.solve_triangular(a, v, upper=True),
    "svd": lambda a, s, t, v, w: tuple(x.abs() for x in la.svd(t, full_matrices=False)),
    "svdvals": lambda a, s, t, v, w: la.svdvals(t),
    "tensorinv": lambda a, s, t, v, w: la.tensorinv(a.reshape(-1, 4, 4)[0].reshape(2, 2, 4)),
    "tensorsolve": lambda a, s, t, v, w: la.tensorsolve(
        a.reshape(-1, 4, 4)[0].reshape(2, 2, 4), v.flatten()[:4].reshape(2, 2)),
    "vander": lambda a, s, t, v, w: la.vander(v),
    "vecdot": lambda a, s, t, v, w: la.vecdot(t, t.flip(-1)),
    "vector_norm": lambda a, s, t, v, w: la.vector_norm(t, 3, -1),
    "torch.cholesky_inverse": lambda a, s, t, v, w: torch.cholesky_inverse(s),
    "torch.cholesky_solve": lambda a, s, t, v, w: torch.cholesky_solve(v, s),
    "torch.geqrf": lambda a, s, t, v, w: torch.geqrf(t.detach()),
    "torch.logdet": lambda a, s, t, v, w: torch.logdet(s),
    "torch.ormqr": lambda a, s, t, v, w: torch.ormqr(t.tril(-1) / 9, s.diagonal(0, -2, -1) / 99, w),
    "torch.svd_lowrank": lambda a, s, t, v, w: seeded(torch.svd_lowrank, t, 4)[1],
    "torch.pca_lowrank": lambda a, s, t, v, w: seeded(torch.pca_lowrank, t, 4)[1],
    "torch.triangular_solve": lambda a, s, t, v, w: torch.triangular_solve(v, a).solution,
}  # fmt: skip
if hasattr(la, "polar"):  # torch 2.14 has added both
    CALLS["matrix_sqrth"] = lambda a, s, t, v, w: la.matrix_sqrth(s)
    CALLS["polar"] = lambda a, s, t, v, w: la.polar(t)


def test_nothing_of_torch_linalg_is_left_out() -> None:
    public = {n for n in dir(la) if not n.startswith("_") and inspect.isbuiltin(getattr(la, n))}
    assert public == {n for n in CALLS if not n.startswith("torch.")}


@pytest.mark.parametrize("lead", [(), (35,)], ids=["one", "batch"])  # batches have kernels of their own
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", CALLS)
def test_forward_and_backward(name: str, dtype: torch.dtype, lead: tuple[int, ...]) -> None:
    gen = torch.Generator().manual_seed(1)
    a, t, v, w = (torch.randn(*lead, *s, dtype=dtype, generator=gen) for s in ((4, 4), (6, 4), (4, 2), (6, 2)))
    eye = torch.eye(4, dtype=dtype)
    operands = (a + 4 * eye, a @ a.mH + 4 * eye, t, v, w)
    results = []
    with xpu_ops.fallback.forbid():
        for device in ("cpu", "xpu"):
            leaves = [x.detach().to(device).requires_grad_() for x in operands]
            out = CALLS[name](*leaves)
            parts = [out] if isinstance(out, torch.Tensor) else list(out)
            flowing = [p for p in parts if p.requires_grad]
            found = list(parts)
            if flowing:
                # independent of the phase of a column, which no factorisation fixes
                loss = sum((p.abs().square() + p.abs()).sum() for p in flowing)
                found += [g for g in torch.autograd.grad(loss, leaves, allow_unused=True) if g is not None]
            results.append([p.detach().cpu() for p in found])
    assert_near(results[1], results[0], rtol=1e-6, atol=1e-6)
