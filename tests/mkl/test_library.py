"""libxpu_ops_mkl.so: loaded on first use, told of by doctor, and done without."""

from __future__ import annotations

import pytest
from support import script

from xpu_ops import doctor, onemkl

needs_onemkl = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")


def test_without_it_calls_fall_back() -> None:
    code = """
    import torch, xpu_ops
    from xpu_ops import doctor, onemkl
    print(onemkl.available(), onemkl.missing())
    a = 2 * torch.eye(3, device="xpu")
    print(torch.linalg.inv(a).diagonal().tolist(), torch.fft.fft(a)[0].real.tolist())
    print(sorted(xpu_ops.fallback.counts()))
    print([f.state for f in doctor.caches() if f.name == "oneMKL"])
    from xpu_ops.coverage import dispatcher
    found = {r.name: r.registration for r in dispatcher.scan()}
    print(found["linalg_inv_ex"], found["_fft_c2c.out"], found["linalg_matrix_exp"])
    for f in (torch.linalg.solve, torch.linalg.solve_ex):
        try:
            f(a, torch.ones(3))
        except RuntimeError as error:
            print(str(error).split(",")[0])
    """
    assert script.out(code, XPU_OPS_MKL="0").splitlines() == [
        "False XPU_OPS_MKL=0",
        "[0.5, 0.5, 0.5] [2.0, 2.0, 2.0]",
        "['aten::_fft_r2c', 'aten::linalg_inv_ex']",
        "['note']",
        "fallback fallback native",
        *2 * ["Expected all tensors to be on the same device"],
    ]


@needs_onemkl
def test_it_is_loaded_on_first_use() -> None:
    code = """
    import torch
    loaded = lambda: "libmkl_core" in open("/proc/self/maps").read()
    x = torch.randn(4, 4, device="xpu") @ torch.randn(4, 4, device="xpu")
    print(loaded())
    torch.linalg.det(x)
    print(loaded())
    """
    assert script.out(code).splitlines() == ["False", "True"]


@needs_onemkl
def test_version_and_doctor() -> None:
    assert "Math Kernel Library" in onemkl.version()
    assert [f.state for f in doctor.caches() if f.name == "oneMKL"] == ["ok"]


@needs_onemkl
def test_memory_that_the_host_does_not_reach() -> None:
    """The paths of a GPU: transforms through oneMKL's SYCL interface on the queue, matrices copied to the host and back."""
    code = """
    import torch, xpu_ops
    torch.manual_seed(0)
    z = torch.randn(4, 6, 5, dtype=torch.complex128)
    x = torch.randn(3, 9, 9, dtype=torch.float64) + 9 * torch.eye(9, dtype=torch.float64)
    calls = [
        lambda t: torch.fft.fft(t(z)), lambda t: torch.fft.ifftn(t(z), norm="ortho"), lambda t: torch.fft.rfftn(t(x)),
        lambda t: torch.fft.irfft(t(z), n=11), lambda t: torch.fft.fft2(t(z).transpose(0, 2)), lambda t: torch.fft.fft(t(x)),
        lambda t: torch.linalg.inv(t(x)), lambda t: torch.linalg.lu_factor(t(x)), lambda t: torch.linalg.qr(t(x))[1].abs(),
        lambda t: torch.linalg.svdvals(t(x)), lambda t: torch.linalg.eigvalsh(t(x)), lambda t: torch.linalg.cholesky(t(x) @ t(x).mT),
        lambda t: torch.linalg.solve_triangular(t(x), t(x), upper=True), lambda t: torch.linalg.lstsq(t(x), t(x)).solution,
        lambda t: torch.linalg.ldl_factor(t(x))[0], lambda t: torch.linalg.eigvals(t(x)).abs().sort()[0],
        lambda t: torch.linalg.lstsq(t(x)[..., :3], t(x), driver="gelsd"), lambda t: torch.cholesky_inverse(t(x)),
    ]
    with xpu_ops.fallback.forbid():
        for i, call in enumerate(calls):
            actual, expected = call(lambda v: v.to("xpu")), call(lambda v: v)
            for a, e in zip(*(r if isinstance(r, tuple) else (r,) for r in (actual, expected))):
                torch.testing.assert_close(a.cpu(), e, rtol=1e-8, atol=1e-8)
    print("right")
    """
    assert script.out(code, XPU_OPS_DISCRETE="1") == "right"
