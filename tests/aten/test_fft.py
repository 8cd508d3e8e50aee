"""torch.fft beyond OpInfo and drawn rows: lengths, layouts, order on a busy queue, autocast, the cache of plans."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.compare import assert_near, assert_same
from support.streams import slow_task

import xpu_ops
from xpu_ops import onemkl

pytestmark = pytest.mark.skipif(not onemkl.available(), reason="oneMKL is not installed")

LENGTHS = [1, 2, 3, 5, 7, 64, 97, 1000, 1021, 4096, 10007, 65536, 99991]  # with large primes
FLOAT_TOL = {"rtol": 1e-4, "atol": 1e-3}


@pytest.fixture(autouse=True)
def native() -> Any:
    with xpu_ops.fallback.forbid():
        yield


@pytest.mark.parametrize("n", LENGTHS)
def test_lengths(n: int) -> None:
    torch.manual_seed(n)
    z = torch.randn(2, n, dtype=torch.complex64)
    x = torch.randn(2, n)
    assert_near(torch.fft.fft(z.to("xpu")), torch.fft.fft(z.to(torch.complex128)), **FLOAT_TOL)
    assert_near(torch.fft.rfft(x.to("xpu")), torch.fft.rfft(x.double()), **FLOAT_TOL)
    half = torch.fft.rfft(x)
    assert_near(torch.fft.irfft(half.to("xpu"), n=n), x, **FLOAT_TOL)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("dims", [(0,), (1, 3), (3, 0, 2), (0, 1, 2, 3), (2, 1, 3, 0)])
def test_dims(dims: tuple[int, ...], norm: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 5, 3, 6, dtype=torch.float64)
    for base in (x, x.permute(2, 0, 3, 1), x[..., ::2], x.expand(2, *x.shape)[1]):
        given = base.to("xpu") if base.is_contiguous() else torch.empty_like(base, device="xpu").copy_(base)
        for f in (torch.fft.fftn, torch.fft.rfftn, torch.fft.ifftn):
            assert_same(f(given, dim=dims, norm=norm), f(base, dim=dims, norm=norm))
        half = torch.fft.rfftn(base, dim=dims)
        sizes = [base.shape[d] for d in dims]
        actual = torch.fft.irfftn(half.to("xpu"), s=sizes, dim=dims, norm=norm)
        assert_same(actual, torch.fft.irfftn(half, s=sizes, dim=dims, norm=norm))


# Beyond kSplitPoints: passes over batches and dims, on several threads, with parts of unequal size; one long dim.
LARGE: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((700, 131), (1,)), ((700, 131), (0,)), ((300, 301), (0, 1)), ((301, 300), (1, 0)), ((41, 43, 47), (0, 1, 2)),
    ((3, 200, 131), (1, 2)), ((70, 37, 39), (0, 2)), ((70, 37, 39), (0, 1)), ((9, 20, 21, 22), (0, 1, 2, 3)),
    ((256, 510), (0, 1)), ((64, 64, 64), (0, 1, 2)), ((720 * 1024,), (0,)), ((1 << 19,), (0,)),
    ((3**12,), (0,)), ((200000,), (0,)), ((2, 3, 90, 101), (2, 3)), ((9, 16, 17, 18), (1, 2, 3)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("shape", "dims"), LARGE, ids=str)
def test_several_threads(shape: tuple[int, ...], dims: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    z = torch.complex(x, x.flip(0))
    tol = FLOAT_TOL if dtype == torch.float32 else {"rtol": 1e-10, "atol": 1e-10}
    half = torch.fft.rfftn(x, dim=dims)
    sizes = [shape[d] for d in dims]
    for views in (lambda t: t, lambda t: t.transpose(0, -1).contiguous().transpose(0, -1)):
        real = views(x).to(dtype).to("xpu")
        complex_ = views(z).to(dtype.to_complex()).to("xpu")
        for norm in ("ortho", "backward"):
            actual = torch.fft.fftn(complex_, dim=dims, norm=norm)
            assert_near(actual, torch.fft.fftn(z, dim=dims, norm=norm), **scaled(tol, actual))
            actual = torch.fft.ifftn(complex_, dim=dims, norm=norm)
            assert_near(actual, torch.fft.ifftn(z, dim=dims, norm=norm), **tol)
            actual = torch.fft.rfftn(real, dim=dims, norm=norm)
            assert_near(actual, torch.fft.rfftn(x, dim=dims, norm=norm), **scaled(tol, actual))
        given = half.to(dtype.to_complex()).to("xpu")
        assert_near(torch.fft.irfftn(given, s=sizes, dim=dims), x, **tol)


def scaled(tol: dict[str, float], like: torch.Tensor) -> dict[str, float]:
    return tol | {"atol": tol["atol"] * like.abs().max().item() / 100}


def test_two_callers_of_large_transforms() -> None:
    """One of them has the threads at a time."""
    from concurrent.futures import ThreadPoolExecutor

    torch.manual_seed(0)
    xs = [torch.randn(300, 300 + i, dtype=torch.complex64) for i in range(4)]
    expected = [torch.fft.fft2(x) for x in xs]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: torch.fft.fft2(x.to("xpu")).cpu(), xs * 8))
    for y, e in zip(results, expected * 8, strict=True):
        assert_near(y, e, **scaled(FLOAT_TOL, e))


def test_views_are_read_where_they_lie() -> None:
    torch.manual_seed(0)
    base = torch.randn(6, 40, dtype=torch.complex64)
    on_xpu = base.to("xpu")
    for view in (lambda t: t.T, lambda t: t[::2], lambda t: t[:, 3::3], lambda t: t.conj(), lambda t: t.real):
        assert_near(torch.fft.fft(view(on_xpu)), torch.fft.fft(view(base)), **FLOAT_TOL)


def test_out_of_other_sizes_and_layouts() -> None:
    z = torch.randn(3, 8, dtype=torch.complex64)
    out = torch.empty(8, 3, dtype=torch.complex64, device="xpu").T
    given = out.data_ptr()
    torch.fft.fft(z.to("xpu"), out=out)
    assert out.data_ptr() == given and not out.is_contiguous()
    assert_near(out, torch.fft.fft(z), **FLOAT_TOL)


def test_empty_batch() -> None:
    z = torch.ones(0, 4, dtype=torch.complex64, device="xpu")
    assert torch.fft.fft(z).shape == (0, 4)
    assert torch.fft.rfft(z.real, dim=1).shape == torch.fft.ihfft(z.real).shape == (0, 3)
    assert torch.fft.irfft(z).shape == (0, 6)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(z, dim=0)


def test_input_is_kept() -> None:
    z = torch.randn(4, 9, dtype=torch.complex64, device="xpu")
    before = z.clone()
    torch.fft.irfftn(z, s=(4, 16))
    torch.fft.fftn(z)
    assert torch.equal(z, before)


@pytest.mark.parametrize("call", [torch.fft.fft, torch.fft.rfft, lambda t: torch.fft.irfft(t + 0j)])
def test_order_behind_a_slow_task(call: Any) -> None:
    x = torch.randn(64, 256)
    given = torch.zeros_like(x, device="xpu")
    slow_task()
    given.copy_(x.to("xpu"))
    assert_near(call(given), call(x), **FLOAT_TOL)


def test_gradients() -> None:
    x = torch.randn(3, 5, dtype=torch.float64, device="xpu", requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.fft.rfft(t, n=7).abs(), x)
    assert torch.autograd.gradcheck(lambda t: torch.fft.fft2(t).real, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_in_float(dtype: torch.dtype) -> None:
    x = torch.randn(2, 16, device="xpu", dtype=dtype)
    with torch.autocast("xpu", dtype=dtype):
        y = torch.fft.fft2(x)
        s = torch.stft(x, 8, window=torch.ones(8, device="xpu"), return_complex=True)
    assert y.dtype == s.dtype == torch.complex64
    assert_near(y, torch.fft.fft2(x.cpu().float()), **FLOAT_TOL)


def test_spectrogram_and_back() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4000)
    window = torch.hann_window(256)
    expected = torch.stft(x, 256, 64, window=window, return_complex=True)
    actual = torch.stft(x.to("xpu"), 256, 64, window=window.to("xpu"), return_complex=True)
    assert_near(actual, expected, **FLOAT_TOL)
    back = torch.istft(actual, 256, 64, window=window.to("xpu"), length=4000)
    assert_near(back, x, **FLOAT_TOL)


def test_plans_are_cached() -> None:
    cache = onemkl.plan_cache
    capacity = cache.capacity
    try:
        cache.clear()
        x = torch.randn(3, 32, device="xpu")
        torch.fft.rfft(x)
        assert (cache.size, cache.hits, cache.misses) == (1, 0, 1)
        torch.fft.rfft(x + 1)
        assert (cache.size, cache.hits, cache.misses) == (1, 1, 1)
        assert cache.entries() == [{"kind": "r2c forward f32", "shape": "3 x 32", "uses": 2}]
        cache.capacity = 1
        torch.fft.rfft(x.double())
        assert (cache.size, cache.evictions) == (1, 1)
        cache.capacity = 0
        assert cache.size == 0
        assert_near(torch.fft.rfft(x), torch.fft.rfft(x.cpu()), **FLOAT_TOL)
        with pytest.raises(ValueError, match="negative"):
            cache.capacity = -1
    finally:
        cache.capacity = capacity
        cache.clear()
    assert cache.stats() == {"capacity": capacity, "size": 0, "hits": 0, "misses": 0, "evictions": 0}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_one_element_of_stride_0(dtype: torch.dtype) -> None:
    """The queues of oneMKL, which the policy of a GPU takes, refuse a stride of 0."""
    row = torch.arange(1.0, 6).to("xpu", dtype)
    for x, dim in (
        (row[:1].expand(7)[:1], [0]),
        (row.as_strided((1, 5), (0, 1)), [0, 1]),
        (row[:, None].expand(5, 7)[:, :1], [1]),
    ):
        for f in (torch.fft.fftn, torch.fft.ifftn, torch.fft.irfftn, *([] if dtype.is_complex else [torch.fft.rfftn])):
            size = [1] * len(dim) if f is torch.fft.irfftn else None
            assert_near(f(x, size, dim), f(x.cpu(), size, dim), **FLOAT_TOL)


def test_threads_share_plans() -> None:
    from concurrent.futures import ThreadPoolExecutor

    xs = [torch.randn(8, 512, dtype=torch.complex64) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: torch.fft.fft(x.to("xpu")).cpu(), xs * 4))
    for x, y in zip(xs * 4, results, strict=True):
        assert_near(y, torch.fft.fft(x), **FLOAT_TOL)


@pytest.mark.parametrize("dim", [[], [1, 1], [2], [-1]], ids=str)
def test_direct_calls_with_dims_that_fit_nothing(dim: list[int]) -> None:
    real, spectrum = torch.ones(3, 4, device="xpu"), torch.ones(3, 4, device="xpu", dtype=torch.complex64)
    with pytest.raises((RuntimeError, IndexError), match="dim"):
        torch.ops.aten._fft_r2c(real, dim, 0, True)
    with pytest.raises((RuntimeError, IndexError), match="dim"):
        torch.ops.aten._fft_c2r(spectrum, dim, 0, 6)
