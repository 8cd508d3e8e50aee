"""torch.ldexp against the CPU."""

from __future__ import annotations

import pytest
import torch
from support.compare import assert_same, to_device

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.int8, torch.int32, torch.int64, torch.uint8, torch.float32, torch.float64]


@pytest.mark.parametrize("exponents", OTHERS, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool, torch.complex64], ids=str)
def test_values(dtype: torch.dtype, exponents: torch.dtype) -> None:
    x = torch.tensor([1.0, -3.0, 0.0, 5.5, 2.0]).to(dtype)
    e = torch.tensor([1, 5, 7, 0, 3]).to(exponents)
    for args in ((x, e), (x[:, None], e), (x[0], e), (x, e[1]), (x[::2], e[::2])):
        assert_same(torch.ldexp(*to_device(args)), torch.ldexp(*args), tol=(1e-5, 1e-6))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponents_out_of_range_of_the_type(dtype: torch.dtype) -> None:
    """2 ** other overflows or vanishes where the result does not."""
    info = torch.finfo(dtype)
    x = torch.tensor([info.smallest_normal, info.max, 1.0, 1.0, torch.inf, -0.0, 1.0, -1.0], dtype=dtype)
    e = torch.tensor([200, -130, 5000, -5000, -3, 4, 2**33, -(2**31)])
    assert_same(torch.ldexp(*to_device((x, e))), torch.ldexp(x, e), tol=(0.0, 0.0))
    nan = torch.ldexp(
        torch.full((2,), torch.nan, dtype=dtype, device="xpu"), torch.ones(2, dtype=torch.int32, device="xpu")
    )
    assert bool(nan.isnan().all())


def test_out_and_inplace() -> None:
    x, e = torch.randn(5), torch.tensor([1, -2, 3, 0, 9])
    want = torch.ldexp(x, e)
    out = torch.empty(0, device="xpu")
    assert torch.ldexp(*to_device((x, e)), out=out) is out
    assert_same(out, want)
    y = x.to("xpu")
    assert y.ldexp_(e.to("xpu")) is y
    assert_same(y, want)
    wide = torch.empty(5, dtype=torch.float64, device="xpu")  # which the CPU asserts against
    assert_same(torch.ldexp(*to_device((x, e)), out=wide), want.double())
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            torch.tensor([1, 2], device=device).ldexp_(torch.tensor([1, 2], device=device))


def test_gradient() -> None:
    grads = []
    for device in ("cpu", "xpu"):
        x = torch.tensor([1.0, -3.0, 2.5], device=device, requires_grad=True)
        torch.ldexp(x, torch.tensor([1, -2, 3], device=device)).square().sum().backward()
        grads.append(x.grad)
    assert_same(grads[1], grads[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("base", [1e-45, 1e30, 0.3])
def test_pow_rounds_its_base_to_16_bits(base: float, dtype: torch.dtype) -> None:
    exponent = torch.tensor([-0.62, 0.3, 12.0]).to(dtype)
    torch.testing.assert_close(torch.pow(base, exponent.to("xpu")).cpu(), torch.pow(base, exponent))
