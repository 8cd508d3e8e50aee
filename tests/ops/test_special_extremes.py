"""Special functions at arguments where their formulas overflow, cancel or have poles, against torch's CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import pytest
import torch

INF, NAN = float("inf"), float("nan")
FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def check(function: Callable[..., torch.Tensor], *operands: torch.Tensor, tolerance: float) -> None:
    want, got = function(*operands), function(*(t.to("xpu") for t in operands)).cpu()
    torch.testing.assert_close(got, want, rtol=tolerance, atol=0, equal_nan=True)
    assert torch.equal(got.signbit() & (want == 0), want.signbit() & (want == 0))


@FLOATS
def test_lgamma(dtype: torch.dtype) -> None:
    x = [-1e38, -3.4e38, -8388609.0, -8388608.0, -1e10, -2.0, 0.0, -0.0, INF, -INF, NAN, 1.4e-45, -1e-42, 1e-30, 1e30]
    check(torch.lgamma, torch.tensor(x, dtype=dtype), tolerance=1e-6)
    check(lambda t: torch.mvlgamma(t, 3), torch.tensor([3.0, 1e30, -1e38], dtype=dtype), tolerance=1e-6)
    for half in (torch.float16, torch.bfloat16):
        check(torch.lgamma, torch.tensor([-6e4, -INF, INF, -2.5, NAN], dtype=torch.float64).to(half), tolerance=2e-2)


@FLOATS
def test_digamma_beside_poles(dtype: torch.dtype) -> None:
    """-1/d there; at::digamma of double is off by a third on the CPU."""
    pole = torch.tensor([-1.0, -2.0, -5.0, -100.0], dtype=dtype)
    for x in (torch.nextafter(pole, pole + 1), torch.nextafter(pole, pole - 1)):
        got = torch.digamma(x.to("xpu")).cpu()
        torch.testing.assert_close(got, -1 / (x - pole), rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=0)
    assert torch.digamma(pole.to("xpu")).isnan().all()


@FLOATS
def test_zeta(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 1.5, 2.0, 3.0, 16777216.0, 3e9, 1e12, 1e15, 1e30, INF, NAN, 0.5], dtype=dtype)
    q = torch.tensor([1.0, 2.0, 2.5, 3e9, 1e12, 1e20, 1e30, 1e37, 0.0, -1.0, -2.5, INF, NAN], dtype=dtype)
    a, b = torch.cartesian_prod(x, q).unbind(1)
    check(torch.special.zeta, a, b, tolerance=1e-5 if dtype == torch.float32 else 1e-10)


def polygamma(n: int, x: float) -> float:
    """By a long sum in 60 digits, the rest by Euler-Maclaurin."""
    with localcontext() as context:
        context.prec = 60
        terms, at = Decimal(0), Decimal(x)
        for _ in range(2000):
            terms += at ** -(n + 1)
            at += 1
        terms += at**-n / n + at ** -(n + 1) / 2 + (n + 1) * at ** -(n + 2) / 12
        return float((-1) ** (n + 1) * math.factorial(n) * terms)


@FLOATS
def test_polygamma_of_negative_numbers(dtype: torch.dtype) -> None:
    """The terms on both sides of 0 cancel; at::polygamma keeps fewer digits on the CPU."""
    x = [-1.5, -2.5, -10.5, -0.25, -3.75]
    for n in (2, 4):
        right = torch.tensor([polygamma(n, v) for v in x], dtype=torch.float64).to(dtype)
        got = torch.polygamma(n, torch.tensor(x, dtype=dtype).to("xpu")).cpu()
        torch.testing.assert_close(got, right, rtol=1e-3 if dtype == torch.float32 else 1e-10, atol=0)


@FLOATS
def test_incomplete_gamma(dtype: torch.dtype) -> None:
    a = torch.tensor([0.0, 0.5, 10.0, 10.5, 50.0, INF, NAN], dtype=dtype)
    x = torch.tensor([0.0, 1e-20, 1e-7, 1e-3, 0.1, 1.0, 30.0, INF, NAN], dtype=dtype)
    p, q = torch.cartesian_prod(a, x).unbind(1)
    large = ~(p > 10) | ~(q < 1e-3) | (q == 0)  # below the range of a float elsewhere
    tolerance = 2e-4 if dtype == torch.float32 else 1e-9
    for function in (torch.special.gammainc, torch.special.gammaincc):
        check(function, p[large], q[large], tolerance=tolerance)


@pytest.mark.parametrize("function", [torch.special.i1, torch.special.i1e, torch.special.modified_bessel_i1])
@FLOATS
def test_odd_bessel_functions_at_zero(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    check(function, torch.tensor([0.0, -0.0, 1e-30, -1e-30], dtype=dtype), tolerance=1e-6)


@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_roots_of_half(exponent: float) -> None:
    """at::pow computes no root of half."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.tensor([0.0, -0.0, 4.0, 2.0, -1.0, INF, -INF, NAN], dtype=dtype)
        check(lambda t: t.pow(exponent), x, tolerance=1e-2 if dtype != torch.float32 else 1e-6)
