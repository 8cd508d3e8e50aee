"""Products of float64 and complex numbers, which oneDNN has not: oneMKL's, in any layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import script
from support.modes import INLINE
from support.processors import pretend
from torch.profiler import ProfilerActivity, profile

from xpu_ops import onemkl

WIDE = (torch.float64, torch.complex64, torch.complex128)
HOST = onemkl.available() and INLINE


def rand(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def strided(t: torch.Tensor) -> torch.Tensor:
    """The same values with gaps between rows and columns."""
    wide = t.new_full((*t.shape[:-2], 2 * t.shape[-2], 3 * t.shape[-1]), float("nan"))
    view = wide[..., ::2, ::3]
    return view.copy_(t)


def across(t: torch.Tensor) -> torch.Tensor:
    """The same values, the batch innermost but one."""
    return t.transpose(0, -2).contiguous().transpose(0, -2)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rows": lambda t: t,
    "columns": lambda t: t.mT.contiguous().mT,
    "wide rows": lambda t: torch.cat([t, t], -1)[..., : t.shape[-1]],
    "wide columns": lambda t: torch.cat([t, t], -2).mT.contiguous().mT[..., : t.shape[-2], :],
    "gaps": strided,
}


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4 if want.dtype == torch.complex64 else 1e-11, atol=1e-4)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(70, 65, 66), (1, 600, 500), (500, 600, 1), (1, 300_000, 1), (300, 1, 900), (3, 4, 5), (9, 1, 1)]
)
def test_layouts(dtype: torch.dtype, m: int, k: int, n: int) -> None:
    a, b, c = rand(dtype, m, k), rand(dtype, k, n), rand(dtype, m, n)
    want = a @ b
    alpha, beta = (0.5 - 2j, 1.5j) if dtype.is_complex else (0.5, -1.5)
    added = torch.addmm(c, a, b, alpha=alpha, beta=beta)
    for left, as_left in LAYOUTS.items():
        for right, as_right in LAYOUTS.items():
            x, y = as_left(a.xpu()), as_right(b.xpu())
            close(x @ y, want)
            for out in LAYOUTS.values():
                to = out(torch.full((m, n), float("nan"), dtype=dtype, device="xpu"))
                strides = to.stride()
                close(torch.mm(x, y, out=to), want)
                assert to.stride() == strides
            close(torch.addmm(LAYOUTS[left](c.xpu()), x, y, alpha=alpha, beta=beta), added)
            close(LAYOUTS[right](c.xpu()).addmm_(x, y, alpha=alpha, beta=beta), added)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize(("m", "k", "n"), [(33, 34, 35), (1, 90, 80), (90, 80, 1), (3, 4, 5), (150, 151, 152)])
def test_batches(dtype: torch.dtype, m: int, k: int, n: int) -> None:
    a, b, c = rand(dtype, 40, m, k), rand(dtype, 40, k, n), rand(dtype, 40, m, n)
    for layout in (*LAYOUTS.values(), across):
        x, y, z = layout(a.xpu()), layout(b.xpu()), layout(c.xpu())
        close(x @ y, a @ b)
        close(torch.baddbmm(z, x, y, beta=2), torch.baddbmm(c, a, b, beta=2))
        close(torch.bmm(x, y, out=z), a @ b)
    close(a.xpu() @ b[:1].xpu(), a @ b[:1])
    close(a[:1].expand(40, m, k).xpu() @ b.xpu(), a[:1] @ b)
    close(torch.einsum("bmk,bkn->mn", a.xpu(), b.xpu()), torch.einsum("bmk,bkn->mn", a, b))


@pytest.mark.parametrize("dtype", WIDE)
def test_vectors(dtype: torch.dtype) -> None:
    a, v, c = rand(dtype, 700, 800), rand(dtype, 800), rand(dtype, 700)
    for layout in LAYOUTS.values():
        x = layout(a.xpu())
        close(x @ v.xpu(), a @ v)
        close(c.xpu() @ x, c @ a)
        close(torch.addmv(c.xpu(), x, v.xpu(), alpha=2, beta=3), torch.addmv(c, a, v, alpha=2, beta=3))
        close(x @ torch.stack([v, v], 1).xpu()[:, 0], a @ v)


@pytest.mark.parametrize("dtype", WIDE)
def test_conjugates_and_what_is_not_read(dtype: torch.dtype) -> None:
    a, b = rand(dtype, 80, 90), rand(dtype, 80, 100)
    close(a.xpu().mH @ b.xpu(), a.mH @ b)
    close((a.xpu().conj().T @ b.xpu().conj()).conj(), (a.conj().T @ b.conj()).conj())
    nan = torch.full((90, 100), float("nan"), dtype=dtype, device="xpu")
    close(torch.addmm(nan, a.xpu().T, b.xpu(), beta=0), a.T @ b)
    square = rand(dtype, 90, 90)
    x = square.xpu()
    close(torch.mm(x, x, out=x), square @ square)
    x = square.xpu().requires_grad_()
    y = square.clone().requires_grad_()
    (x @ x).abs().sum().backward()
    (y @ y).abs().sum().backward()
    assert x.grad is not None and y.grad is not None
    close(x.grad, y.grad)


@pytest.mark.skipif(not HOST, reason="own kernels compute there")
@pytest.mark.parametrize("dtype", WIDE)
def test_small_ones_with_gaps_are_not_copied_for_onemkl(dtype: torch.dtype) -> None:
    large, small = strided(rand(dtype, 80, 80).xpu()), strided(rand(dtype, 8, 8).xpu())
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as p:
        _ = large @ large
        _ = small @ small
        torch.xpu.synchronize()
    assert sum("gemm" in e.key and "80x80x80" in e.key for e in p.key_averages()) == 1
    assert sum("gemm" in e.key for e in p.key_averages()) == 1


@pytest.mark.skipif(not HOST, reason="own kernels compute there")
def test_threads_share_a_product(tmp_path: Path) -> None:
    """Blocks of one product, and matrices of a batch, on more threads than rows, columns or matrices."""
    code = """
        import torch
        for dtype in (torch.float64, torch.complex64):
            for batch, m, k, n in [(1, 300, 129, 257), (1, 9, 2000, 1001), (1, 1001, 2000, 9), (1, 1, 3000, 2003),
                                   (1, 2003, 3000, 1), (3, 300, 129, 257), (5, 200, 200, 7), (3000, 3, 4, 5)]:
                a, b, c = (torch.randint(-3, 4, s).to(dtype) for s in ((batch, m, k), (batch, k, n), (batch, m, n)))
                x, y, z = a.to("xpu"), b.to("xpu"), c.to("xpu")
                want = (a @ b).to(dtype)
                assert torch.equal((x @ y).cpu(), want), (dtype, batch, m, k, n)
                turned = x.mT.contiguous().mT @ y.mT.contiguous().mT
                assert torch.equal(turned.cpu(), want), (dtype, batch, m, k, n)
                assert torch.equal(torch.baddbmm(z, x, y, beta=2).cpu(), want + 2 * c), (dtype, batch, m, k, n)
                assert torch.equal((x @ y[:1]).cpu(), a @ b[:1]), (dtype, batch, m, k, n)
    """
    script.out(code, **pretend(8, tmp_path))


@pytest.mark.parametrize("dtype", WIDE)
def test_a_graph_replays_it(dtype: torch.dtype) -> None:
    a, b = rand(dtype, 90, 91), rand(dtype, 91, 92)
    x, y, out = a.xpu(), b.xpu(), torch.zeros(90, 92, dtype=dtype, device="xpu")
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        out.copy_(x @ y)
    x.copy_(2 * a)
    graph.replay()
    close(out, 2 * a @ b)


def test_many_in_flight() -> None:
    """Products, kernels and copies of one stream keep their order."""
    a = rand(torch.float64, 100, 100) / 10
    x, want = a.xpu(), a
    y = x
    for _ in range(60):
        y = (y @ x).sin() + 1
        want = (want @ a).sin() + 1
    close(y, want)


@pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")
def test_threads_share_factorisations(tmp_path: Path) -> None:
    """The matrices of a batch on several threads give what each gives alone."""
    code = """
        import torch
        from torch import linalg as L
        torch.manual_seed(0)
        calls = {
            "cholesky": lambda a, r: L.cholesky(a), "cholesky_inverse": lambda a, r: torch.cholesky_inverse(L.cholesky(a)),
            "cholesky_solve": lambda a, r: torch.cholesky_solve(r, L.cholesky(a)), "inv": lambda a, r: L.inv(a),
            "solve": L.solve, "lu": lambda a, r: torch.cat([t.flatten(-2) for t in L.lu(a)], -1), "det": lambda a, r: L.det(a),
            "ldl": lambda a, r: L.ldl_solve(*L.ldl_factor(a), r), "qr": lambda a, r: L.qr(a)[0] @ L.qr(a)[1],
            "eigh": lambda a, r: torch.cat([L.eigh(a)[0], L.eigvalsh(a)], -1), "svd": lambda a, r: L.svd(a)[1],
            "svdvals": lambda a, r: L.svdvals(a), "eig": lambda a, r: L.eigvals(a).real.sort().values,
            "lstsq": lambda a, r: L.lstsq(a, r)[0], "gelsd": lambda a, r: L.lstsq(a, r, driver="gelsd")[0],
            "triangular": lambda a, r: L.solve_triangular(a, r, upper=True),
        }
        for dtype in (torch.float32, torch.complex128):
            a = torch.randn(40, 70, 70, dtype=dtype)
            a, r = a @ a.mH / 70 + torch.eye(70, dtype=dtype), torch.randn(40, 70, 5, dtype=dtype)
            x, y = a.to("xpu"), r.to("xpu")
            for name, f in calls.items():
                want = torch.stack([f(a[i], r[i]) for i in range(40)])
                tolerance = 2e-3 if dtype is torch.float32 else 1e-10
                torch.testing.assert_close(f(x, y).cpu(), want, rtol=tolerance, atol=tolerance, msg=lambda m: name + m)
            a[7] = 0
            assert [int(i) for i in L.cholesky_ex(a.to("xpu")).info] == [int(i == 7) for i in range(40)]
    """
    script.out(code, **pretend(8, tmp_path))
