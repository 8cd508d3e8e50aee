"""Cumulative operators against torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from aten_data import same
from support.compare import assert_same

INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex64, torch.complex128]
SHAPES = [(), (0,), (2, 0), (1,), (33,), (5, 16), (3, 100, 2), (4, 7, 40), (40000,), (2, 70000)]
TOL = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 2e-5, torch.complex64: 2e-5}


def draw(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(0, 10, shape).to(dtype)
    return torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)


def dims(x: torch.Tensor) -> list[int]:
    return list(range(-1, max(x.dim() - 1, 0)))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX, torch.bool], ids=str)
def test_cumsum(dtype) -> None:
    for shape in SHAPES:
        x = draw(shape, dtype)
        for dim in dims(x):
            tol = TOL.get(dtype)
            scale = max(1.0, float(x.double().cumsum(dim).abs().max())) if dtype in FLOATS and x.numel() else 1.0
            same(lambda x, dim=dim: x.cumsum(dim), x, strides=True, tol=tol and (tol, tol * scale))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX], ids=str)
def test_cumprod(dtype) -> None:
    for shape in [(), (0,), (33,), (3, 20, 2)]:
        x = draw(shape, dtype)
        x = x / x.abs().clamp(min=0.1) if dtype in FLOATS + COMPLEX else x
        for dim in dims(x):
            tol = TOL.get(dtype)
            same(lambda x, dim=dim: x.cumprod(dim), x, tol=tol and (tol, tol))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, torch.bool], ids=str)
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_cummax(name, dtype) -> None:
    for shape in SHAPES:
        x = draw(shape, dtype)
        if dtype.is_floating_point:
            x = x.round()
            if x.numel() > 20:
                x.view(-1)[11] = float("nan")
        for dim in dims(x):
            v, i = getattr(torch, name)(x, dim)
            gv, gi = getattr(torch, name)(x.to("xpu"), dim)
            torch.testing.assert_close(gv.cpu(), v, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(gi.cpu(), i), (shape, dim)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_logcumsumexp(dtype) -> None:
    for shape in [(), (0,), (33,), (3, 20, 2), (2, 500)]:
        x = draw(shape, dtype)
        if x.numel() > 30 and dtype.is_floating_point:
            x.view(-1)[0], x.view(-1)[25] = -float("inf"), float("inf")
        for dim in dims(x):
            tol = TOL.get(dtype)
            same(lambda x, dim=dim: x.logcumsumexp(dim), x, tol=tol and (tol, tol))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_logcumsumexp_of_complex_numbers_without_value(dtype) -> None:
    """NaN in one part is NaN in both from there on; beside an infinite real part the rest is nothing, of any angle."""
    nan, inf = float("nan"), float("inf")
    rows = [
        [complex(1, nan), 1, 2], [complex(nan, 1), 1, 2], [1, complex(2, nan), 0], [1, complex(inf, 2), 0],
        [complex(inf, inf), 1, 2], [1, complex(-inf, inf), 2], [1, complex(-inf, 3), 0.5], [2, complex(inf, -inf), 1],
    ]  # fmt: skip
    x = torch.tensor(rows, dtype=dtype)
    same(lambda x: x.logcumsumexp(1), x, tol=(1e-5, 1e-6))
    same(lambda x: x.logcumsumexp(1), x.repeat(1, 30)[:, :3], tol=(1e-5, 1e-6))


def test_views_inplace_out_and_dtype() -> None:
    x = torch.randn(4, 5, 6).transpose(0, 2)
    g = x.to("xpu")
    torch.testing.assert_close(g.cumsum(1).cpu(), x.cumsum(1))
    torch.testing.assert_close(g.cumsum(0, dtype=torch.float64).cpu(), x.cumsum(0, dtype=torch.float64))
    out = torch.empty(5, 6, 4, device="xpu").transpose(0, 1)
    torch.cumsum(g, 2, out=out)
    torch.testing.assert_close(out.cpu(), x.cumsum(2))
    g2 = g.clone()
    torch.testing.assert_close(g2.cumsum_(0).cpu(), x.cumsum(0))


def test_long_float_sums_stay_exact() -> None:
    x = torch.rand(1 << 20)
    exact = x.double().cumsum(0)
    error = (x.to("xpu").cumsum(0).cpu().double() - exact).abs().max()
    assert error < 0.1


def test_gradients() -> None:
    for f in (lambda t: t.cumsum(0), lambda t: t.cumprod(1), lambda t: t.cummax(0)[0], lambda t: t.logcumsumexp(1)):
        x = torch.randn(5, 6, dtype=torch.float64, requires_grad=True)
        g = x.detach().to("xpu").requires_grad_()
        w = torch.randn(5, 6, dtype=torch.float64)
        (a,) = torch.autograd.grad((f(x) * w).sum(), x)
        (b,) = torch.autograd.grad((f(g) * w.to("xpu")).sum(), g)
        torch.testing.assert_close(b.cpu(), a)


def test_runs_are_identical() -> None:
    x = torch.randn(3, 100000).to("xpu")
    first = x.cumsum(1).cpu()
    assert all(torch.equal(first, x.cumsum(1).cpu()) for _ in range(10))


def test_one_number_of_any_type() -> None:
    """0-d and empty tensors ask for no kernel: a bool in place, which has none."""
    for call in (torch.Tensor.cumsum_, torch.Tensor.cumprod_):
        for x in (torch.tensor(True), torch.empty(0, dtype=torch.bool)):
            assert_same(call(x.clone().to("xpu"), 0), call(x.clone(), 0))


def test_helpers_check_their_tensors() -> None:
    x = torch.ones(3, 4, device="xpu")
    values, indices = torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)
    for v, i in ((values[:2], indices), (values, indices[:2]), (values.double(), indices), (values, indices.int())):
        with pytest.raises(RuntimeError):
            torch.ops.aten._cummax_helper(x, v, i, 0)


@pytest.mark.parametrize("shape,dim", [((300_000,), 0), ((20_000, 3), 0), ((3, 20_000), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_long_products_are_exact(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    """torch's CPU accumulates in double: one float would lose a bit per block."""
    x = torch.full(shape, 1.0000001, dtype=dtype) if dtype == torch.float32 else torch.full(shape, 1 + 1e-4j)
    want = torch.cumprod(x, dim)
    bound = 3e-7 if dtype == torch.float32 else 1e-6
    torch.testing.assert_close(torch.cumprod(x.to("xpu"), dim).cpu(), want, rtol=bound, atol=0)
    wide = torch.complex128 if dtype == torch.complex64 else torch.float64
    got = torch.prod(x.to("xpu"), dim).cpu()
    torch.testing.assert_close(got.to(wide), torch.prod(x.to(wide), dim), rtol=bound, atol=0)


def test_products_without_an_error_term() -> None:
    """Zeros keep their sign; infinity and NaN stay what they are."""
    inf, nan = float("inf"), float("nan")
    for row in ([-0.0, 1.5], [inf, 2.0], [inf, 0.0], [nan, 1.0], [1e30, 1e30, -1.0], [1e-30, 1e-30], [-inf, -inf]):
        x = torch.tensor(row)
        for got, want in (
            (torch.cumprod(x.to("xpu"), 0), torch.cumprod(x, 0)),
            (torch.prod(x.to("xpu")), torch.prod(x)),
        ):
            assert_same(got, want, tol=(1e-6, 0))
            assert torch.equal(torch.signbit(got.cpu()) | got.cpu().isnan(), torch.signbit(want) | want.isnan())


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_long_products_of_numbers_near_one(dtype: torch.dtype) -> None:
    """Products of rounding errors, which a short product may leave out, must not gather: they were 1e-4 of the result here."""
    step = torch.randn(3_000_000, generator=torch.Generator().manual_seed(0), dtype=dtype)
    x = 1 + 1e-4 * step
    wide = torch.complex128 if dtype == torch.complex64 else torch.float64
    for shape in ((3_000_000,), (2, 1_500_000), (40, 75_000), (300_000, 10)):
        dim = 0 if len(shape) == 1 or shape[0] == 300_000 else 1
        want = torch.cumprod(x.view(shape).to(wide), dim)
        torch.testing.assert_close(x.view(shape).to("xpu").cumprod(dim).cpu().to(wide), want, rtol=3e-7, atol=0)
