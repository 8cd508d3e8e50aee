"""Linear algebra and Fourier transforms: batches of small matrices, single matrices, transforms of many lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .core import Case

SMALL = "linear algebra, batches"
SINGLE = "linear algebra"
FFT = "FFT"


def _positive(*shape: int) -> torch.Tensor:
    a = torch.randn(*shape)
    return a @ a.mT + shape[-1] * torch.eye(shape[-1])


# Results that no choice of signs changes.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky": lambda a, b: torch.linalg.cholesky_ex(a).L,
    "lu": lambda a, b: torch.linalg.lu_factor_ex(a).LU,
    "solve": lambda a, b: torch.linalg.solve_ex(a, b).result,
    "inv": lambda a, b: torch.linalg.inv_ex(a).inverse,
    "det": lambda a, b: torch.linalg.det(a),
    "qr": lambda a, b: torch.linalg.qr(a).R.abs(),
    "eigh": lambda a, b: torch.linalg.eigh(a).eigenvalues,
    "svd": lambda a, b: torch.linalg.svd(a).S,
}
OTHERS: dict[str, Callable[..., Any]] = {
    "slogdet": lambda a, b: torch.linalg.slogdet(a).logabsdet,
    "cholesky_solve": lambda a, b: torch.cholesky_solve(b, a),
    "cholesky_inverse": lambda a, b: torch.cholesky_inverse(a),
    "solve_triangular": lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
    "triangular_solve": lambda a, b: torch.triangular_solve(b, a).solution,
    "lu, unpacked": lambda a, b: torch.linalg.lu(a).U,
    "lu_unpack": lambda a, b: torch.lu_unpack(*torch.linalg.lu_factor(a))[2],
    "lu_solve": lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b),
    "geqrf": lambda a, b: torch.geqrf(a).a,
    "householder_product": lambda a, b: torch.linalg.householder_product(*torch.geqrf(a)).abs(),
    "ormqr": lambda a, b: torch.ormqr(*torch.geqrf(a), b).abs(),
    "svdvals": lambda a, b: torch.linalg.svdvals(a),
    "eigvalsh": lambda a, b: torch.linalg.eigvalsh(a),
    "eig": lambda a, b: torch.linalg.eig(a).eigenvalues.real.sort().values,
    "eigvals": lambda a, b: torch.linalg.eigvals(a).real.sort().values,
    "lstsq": lambda a, b: torch.linalg.lstsq(a, b).solution,
    "ldl_factor": lambda a, b: torch.linalg.ldl_factor(a).LD,
    "ldl_solve": lambda a, b: torch.linalg.ldl_solve(*torch.linalg.ldl_factor(a), b),
    "matrix_exp": lambda a, b: torch.linalg.matrix_exp(a / a.shape[-1] ** 2),
}
if hasattr(torch.ops.aten, "cholesky"):  # torch 2.14 has removed it
    OTHERS["torch.cholesky"] = lambda a, b: torch.cholesky(a)


def batches(full: bool) -> Iterator[Case]:
    for count, n in [(1000, 3), (1000, 8), (1000, 32), (20000, 4), (5000, 16)] + (
        [(100000, 3), (100000, 8)] if full else []
    ):
        a, b = _positive(count, n, n), torch.randn(count, n, 2)
        for name, function in FUNCTIONS.items():
            yield Case(SMALL, f"{name} {count} x {n}", function, (a, b))


def single(full: bool) -> Iterator[Case]:
    for n in (64, 256) + ((512, 1024) if full else ()):
        a, b = _positive(n, n), torch.randn(n, 16)
        for name, function in FUNCTIONS.items():
            yield Case(SINGLE, f"{name} {n}", function, (a, b))
    a, b = _positive(128, 128), torch.randn(128, 16)
    for name, function in OTHERS.items():
        yield Case(SINGLE, f"{name} 128", function, (a, b))


def fft(full: bool) -> Iterator[Case]:
    shapes = [(256,), (4096,), (1 << 16,), (1 << 20,), (1000,), (10007,), (512, 1024), (512, 512), (64, 64, 64)]
    for shape in shapes + ([(1 << 22,), (3 * 5 * 7 * 11 * 13,)] if full else []):
        size = "x".join(map(str, shape))
        # a batch of lines where two sizes differ, else one transform of all dims
        dims = (-1,) if len(shape) == 2 and shape[0] != shape[1] else tuple(range(len(shape)))
        z, x = torch.randn(*shape, dtype=torch.complex64), torch.randn(*shape)
        yield Case(FFT, f"fft {size}", lambda t, d=dims: torch.fft.fftn(t, dim=d), (z,))
        yield Case(FFT, f"rfft {size}", lambda t, d=dims: torch.fft.rfftn(t, dim=d), (x,))
        half = torch.fft.rfftn(x, dim=dims)
        sizes = [shape[d] for d in dims]
        yield Case(FFT, f"irfft {size}", lambda t, d=dims, s=sizes: torch.fft.irfftn(t, s=s, dim=d), (half,))
    x, window = torch.randn(4, 48000), torch.hann_window(512)
    yield Case(FFT, "stft 4 x 48000", lambda t, w: torch.stft(t, 512, 128, window=w, return_complex=True), (x, window))
    yield Case(FFT, "fft of real 4096", torch.fft.fft, (torch.randn(4096),))


def cases(level: str) -> Iterator[Case]:
    full = level == "full"
    if level == "sample":
        for function in (batches, single, fft):
            yield from list(function(False))[-len(OTHERS) - len(FUNCTIONS) :]
        return
    yield from batches(full)
    yield from single(full)
    yield from fft(full)
