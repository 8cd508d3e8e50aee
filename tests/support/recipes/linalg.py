"""Recipes of linear algebra and of Fourier transforms: matrices that are well conditioned, factors made on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from support.recipe import recipe

Args = dict[str, Any]
aten = torch.ops.aten
MATRIX = ("f32", "f64", "c64", "c128")
NOT_MATRICES = [torch.ones(3), torch.ones(2, 3)]
INTEGERS = torch.ones(2, 2, dtype=torch.int64)
# Factors of condition numbers up to a few hundred; products of what is solved.
TOL = {"f32": (2e-4, 2e-4), "c64": (2e-4, 2e-4), "f64": (1e-9, 1e-9), "c128": (1e-9, 1e-9)}


def batch(d: Any) -> list[int]:
    return d.pick([], [], [2], [3, 2], [0], [1, 4])


def order(d: Any) -> int:
    return d.pick(0, 1, 2, 3, 4, 7, 16, 33, 40)


def sides(d: Any) -> list[int]:
    return d.pick([3, 3], [5, 2], [2, 5], [1, 1], [0, 3], [3, 0], [17, 33], [40, 20], [1, 7], [7, 1])


def square(d: Any, *lead: int, n: int) -> torch.Tensor:
    """Diagonally dominant, in any layout that has its elements apart."""
    a = d.own((*lead, n, n), domain=(-1, 1))
    a.diagonal(0, -2, -1).add_(2 * n + 1)
    return a


def positive(d: Any, *lead: int, n: int) -> torch.Tensor:
    a = d.own((*lead, n, n), domain=(-1, 1))
    return a.copy_(a @ a.mH + 2 * torch.eye(n, dtype=a.dtype))


def regular(d: Any, *shape: int) -> torch.Tensor:
    """Of full rank: the factors of others hang on rounding."""
    a = d.own(shape, domain=(-1, 1))
    a.diagonal(0, -2, -1).add_(shape[-1] + shape[-2])
    return a


def factors(a: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.linalg.lu_factor_ex(a.contiguous())[:2])


@recipe("linalg_cholesky_ex", "cholesky", types=MATRIX, tol=TOL, bad={"self": [*NOT_MATRICES, INTEGERS]})
def cholesky(d: Any) -> Args:
    a = positive(d, *batch(d), n=order(d))
    if d.name.startswith("linalg") and a.numel() and d.flag():
        a.select(-1, 0).select(-1, 0).fill_(-1.0)  # not positive definite from the first step on
    return {"self": a, "upper": d.flag(), "check_errors": d.flag()}


@recipe("cholesky_inverse", types=MATRIX, tol=TOL, bad={"self": NOT_MATRICES})
def cholesky_inverse(d: Any) -> Args:
    return {"self": square(d, *batch(d), n=order(d)), "upper": d.flag()}


@recipe("_cholesky_solve_helper", types=MATRIX, tol=TOL)
def cholesky_solve(d: Any) -> Args:
    lead, n = batch(d), order(d)
    return {"self": d.plain(*lead, n, d.int(0, 5)), "A": square(d, *lead, n=n), "upper": d.flag()}


@recipe("linalg_lu_factor_ex", "linalg_lu", types=MATRIX, tol=TOL, bad={"A": [torch.ones(3), INTEGERS]})
def lu(d: Any) -> Args:
    return {"A": regular(d, *batch(d), *sides(d)), "pivot": True, "check_errors": False}


@recipe("lu_unpack", types=MATRIX, bad={"LU_pivots": [torch.ones(2, dtype=torch.int64)]})
def lu_unpack(d: Any) -> Args:
    data, pivots = factors(regular(d, *batch(d), *sides(d)))
    return {"LU_data": data, "LU_pivots": pivots, "unpack_data": d.flag(), "unpack_pivots": d.flag()}


@recipe("linalg_lu_solve", types=MATRIX, tol=TOL, bad={"B": [torch.ones(77, 2), torch.ones(2)]})
def lu_solve(d: Any) -> Args:
    lead, n, left = batch(d), order(d), d.flag()
    data, pivots = factors(square(d, *lead, n=n))
    b = d.plain(*d.pick(lead, [1] * len(lead), []), *((n, d.int(0, 5)) if left else (d.int(0, 5), n)))
    return {"LU": data, "pivots": pivots, "B": b, "left": left, "adjoint": d.flag()}


@recipe("_linalg_solve_ex", types=MATRIX, tol=TOL, bad={"A": NOT_MATRICES, "B": [torch.ones(77, 2)]})
def solve(d: Any) -> Args:
    lead, n, left = batch(d), order(d), d.flag()
    b = d.plain(*d.pick(lead, [1] * len(lead)), *((n, d.int(1, 5)) if left else (d.int(1, 5), n)))
    return {"A": square(d, *lead, n=n), "B": b, "left": left, "check_errors": d.flag()}


@recipe("linalg_inv_ex", "_linalg_det", "_linalg_slogdet", types=MATRIX, tol=TOL, bad={"A": [*NOT_MATRICES, INTEGERS]})
def inverse(d: Any) -> Args:
    return {"A": square(d, *batch(d), n=order(d)), "check_errors": d.flag()}


@recipe("linalg_solve_triangular", types=MATRIX, tol=TOL, bad={"self": NOT_MATRICES, "B": [torch.ones(77, 2)]})
def solve_triangular(d: Any) -> Args:
    lead, n, left = batch(d), order(d), d.flag()
    b = d.plain(*d.pick(lead, [1] * len(lead), []), *((n, d.int(0, 5)) if left else (d.int(0, 5), n)))
    a = square(d, *d.pick(lead, []), n=n)
    unit = d.flag()
    if unit:
        a = a / (2 * n + 1)
    return {"self": a, "B": b, "upper": d.flag(), "left": left, "unitriangular": unit}


@recipe("triangular_solve", types=MATRIX, tol=TOL, bad={"A": [torch.ones(2, 3), torch.ones(3)]})
def triangular_solve(d: Any) -> Args:
    lead, n = batch(d), order(d)
    return {"self": d.plain(*lead, n, d.int(0, 5)), "A": square(d, *lead, n=n), "upper": d.flag(),
            "transpose": d.flag(), "unitriangular": False}  # fmt: skip


@recipe("linalg_qr", types=MATRIX, tol=TOL, bad={"A": [torch.ones(3), INTEGERS], "mode": ["some"]})
def qr(d: Any) -> Args:
    return {"A": regular(d, *batch(d), *sides(d)), "mode": d.pick("reduced", "complete", "r")}


@recipe("geqrf", types=MATRIX, tol=TOL, bad={"self": [torch.ones(3)]})
def geqrf(d: Any) -> Args:
    return {"self": regular(d, *batch(d), *sides(d))}


def reflectors(d: Any, *lead: int, m: int, n: int) -> list[torch.Tensor]:
    return list(torch.geqrf(regular(d, *lead, m, n).contiguous()))


@recipe("linalg_householder_product", types=MATRIX, tol=TOL, bad={"tau": [torch.ones(77), torch.ones(1, 1, 1)]})
def householder_product(d: Any) -> Args:
    n = d.pick(0, 1, 3, 20)
    a, tau = reflectors(d, *batch(d), m=n + d.pick(0, 1, 5), n=n)
    return {"input": a, "tau": tau}


@recipe(
    "ormqr", types=MATRIX, tol=TOL, bad={"input2": [torch.ones(77), torch.ones(1, 1, 1)], "input3": [torch.ones(2)]}
)
def ormqr(d: Any) -> Args:
    lead, n, left = batch(d), d.pick(0, 1, 3, 20), d.flag()
    m = n + d.pick(0, 1, 5)
    a, tau = reflectors(d, *lead, m=m, n=n)
    c = d.plain(*lead, *((m, d.int(0, 5)) if left else (d.int(0, 5), m)))
    return {"self": a, "input2": tau, "input3": c, "left": left, "transpose": d.flag()}


def singular(result: Any) -> Any:
    """Singular vectors are free in their phase, and those of no singular value in more: their product is not."""
    u, s, vh = result
    k = s.shape[-1]
    return s, ((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :] if u.numel() and vh.numel() else []), u.shape, vh.shape


@recipe("_linalg_svd", types=MATRIX, tol=TOL, view=singular, bad={"A": [torch.ones(3), INTEGERS], "driver": ["gesvd"]})
def svd(d: Any) -> Args:
    return {"A": d.plain(*batch(d), *sides(d)), "full_matrices": d.flag(), "compute_uv": d.flag(), "driver": None}


def spectral(result: Any) -> Any:
    w, v = result
    return w, ((v * w.unsqueeze(-2)) @ v.mH if v.numel() else [])


@recipe("_linalg_eigh", types=MATRIX, tol=TOL, view=spectral, bad={"A": [*NOT_MATRICES, INTEGERS], "UPLO": ["x"]})
def eigh(d: Any) -> Args:
    a = square(d, *batch(d), n=order(d))
    return {"A": a, "UPLO": d.pick("L", "U", "l"), "compute_v": d.flag()}


def apart(d: Any) -> torch.Tensor:
    """Eigenvalues far from one another, in no doubt about their order."""
    lead, n = batch(d), d.pick(0, 1, 2, 3, 4, 7, 16, 33)
    a = d.own((*lead, n, n), domain=(-0.2, 0.2))
    a.diagonal(0, -2, -1).add_(torch.arange(1, n + 1) ** 1.2 * 3)
    return a


def by_value(w: torch.Tensor) -> torch.Tensor:
    return w.gather(-1, w.real.argsort(-1))


def rebuilt(result: Any) -> Any:
    w, v = result
    return by_value(w), (v * w.unsqueeze(-2)) @ torch.linalg.inv(v) if v.numel() else []


@recipe(
    "linalg_eig", types=MATRIX, tol=TOL, view=rebuilt, bad={"self": [*NOT_MATRICES, torch.full((2, 2), float("nan"))]}
)
def eig(d: Any) -> Args:
    return {"self": apart(d)}


@recipe("_linalg_eigvals", "linalg_eigvals", types=MATRIX, tol=TOL, view=by_value, bad={"self": NOT_MATRICES})
def eigvals(d: Any) -> Args:
    return {"self": apart(d)}


@recipe(
    "linalg_lstsq", types=MATRIX, tol=TOL, bad={"b": [torch.ones(77, 2)], "driver": ["qr"], "self": [torch.ones(3)]}
)
def lstsq(d: Any) -> Args:
    lead, (m, n), driver = batch(d), sides(d), d.pick(None, "gels", "gelsy", "gelsd", "gelss")
    a = regular(d, *lead, m, n)
    b = d.plain(*lead, m, *d.pick([3], [1]))
    return {"self": a, "b": b, "rcond": d.pick(None, 1e-5), "driver": driver}


def hermitian(d: Any) -> bool:
    return d.flag()


@recipe("linalg_ldl_factor_ex", types=MATRIX, tol=TOL, bad={"self": [*NOT_MATRICES, INTEGERS]})
def ldl_factor(d: Any) -> Args:
    a, same = square(d, *batch(d), n=order(d)), hermitian(d)
    a.copy_(a + (a.mH if same else a.mT))
    return {"self": a, "hermitian": same, "check_errors": d.flag()}


@recipe("linalg_ldl_solve", types=MATRIX, tol=TOL, bad={"B": [torch.ones(77, 2)]})
def ldl_solve(d: Any) -> Args:
    lead, n, same = batch(d), order(d), hermitian(d)
    a = square(d, *lead, n=n).contiguous()
    data, pivots, _ = torch.linalg.ldl_factor_ex(a + (a.mH if same else a.mT), hermitian=same)
    return {"LD": data, "pivots": pivots, "B": d.plain(*lead, n, d.int(0, 5)), "hermitian": same}


@recipe("linalg_matrix_exp", types=MATRIX, tol=TOL, bad={"self": [*NOT_MATRICES, INTEGERS]})
def matrix_exp(d: Any) -> Args:
    n = d.pick(0, 1, 2, 3, 5)
    return {"self": d.plain(*batch(d), n, n, low=-1, high=1)}


# ---- Fourier transforms
FFT_TOL = {"f32": (1e-4, 1e-4), "c64": (1e-4, 1e-4), "f64": (1e-10, 1e-10), "c128": (1e-10, 1e-10)}


def signal(d: Any) -> tuple[torch.Tensor, list[int]]:
    """No empty batch: the CPU's own transform refuses it, tests/aten/test_fft.py has it."""
    x = d.plain(*d.pick([1], [8], [17], [3, 5], [16, 12], [2, 3, 4], [4, 1, 6], [2, 3, 2, 5], [2, 3, 2, 3, 4], [257]))
    dims = d.order(x.dim()).tolist()[: d.int(1, x.dim())]
    return x, [i for i in dims if x.shape[i]]


@recipe("_fft_c2c", types=("c64", "c128"), tol=FFT_TOL)
def fft_c2c(d: Any) -> Args:
    x, dims = signal(d)
    return {"self": x, "dim": dims, "normalization": d.int(0, 2), "forward": d.flag()}


# Upstream's meta function promises a contiguous result; the CPU's of several dims is not.
@recipe("_fft_r2c", types=("f32", "f64"), tol=FFT_TOL, strides=False)
def fft_r2c(d: Any) -> Args:
    x, dims = signal(d)
    return {"self": x, "dim": dims or [x.dim() - 1], "normalization": d.int(0, 2), "onesided": d.flag()}


@recipe("_fft_c2r", types=("c64", "c128"), tol=FFT_TOL)
def fft_c2r(d: Any) -> Args:
    """Of half a spectrum that is a real signal's: what of others the CPU gives is nobody's."""
    x, dims = signal(d)
    dims = dims or [x.dim() - 1]
    if d.name.endswith(".out") or d.flag():
        half = aten._fft_r2c(x.real.contiguous(), dims, 0, True)
        return {"self": half, "dim": dims, "normalization": d.int(0, 2), "last_dim_size": x.shape[dims[-1]]}
    return {"self": x, "dim": dims[-1:], "normalization": d.int(0, 2), "last_dim_size": 2 * x.shape[dims[-1]] - 1}
