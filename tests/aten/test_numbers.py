"""A number beside 16-bit floats is rounded to their type first, except where the CPU multiplies by it or divides by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

CALLS: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    name: getattr(torch, name)
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "remainder",
        "fmod",
        "floor_divide",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    )
} | {
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "rsub": torch.rsub,
    "pow": torch.pow,
    "foreach_pow": lambda a, b: torch._foreach_pow([a], [b] if isinstance(b, float) else b.item())[0],
}
# These take tensors only.
TENSORS: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    name: getattr(torch, name) for name in ("maximum", "fmin", "copysign", "hypot", "atan2")
}


@pytest.mark.parametrize("size", [1, 203, 200_003])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("call", [*CALLS, *TENSORS])
def test_numbers_are_rounded(call: str, dtype: torch.dtype, size: int) -> None:
    x = torch.linspace(0.1, 40, size).to(dtype)
    x[: size // 2] = torch.tensor([0.1, 0.3, 0.7]).to(dtype)[torch.arange(size // 2) % 3]
    zero_d = torch.tensor(0.3, dtype=torch.float64)
    numbers = (zero_d,) if call in TENSORS else (0.3, 0.7, zero_d)
    function = (CALLS | TENSORS)[call]
    for number in numbers:
        got, want = function(x.to("xpu"), number).cpu(), function(x, number)
        # The last bit of a root or an angle is each library's own.
        exact = call not in ("hypot", "atan2")
        tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": torch.finfo(dtype).eps, "atol": 0}
        torch.testing.assert_close(got, want, **tolerance)


@pytest.mark.parametrize("exponent", [True, False])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, e: x.pow(e),
        lambda x, e: x.clone().pow_(e),
        lambda x, e: torch.pow(x, e, out=torch.empty(0, dtype=torch.int32, device=x.device)),
        lambda x, e: torch._foreach_pow([x, x], e)[1],
        lambda x, e: torch._foreach_pow([x, x], [e, e])[1],
    ],
    ids=["pow", "pow_", "out", "foreach", "foreach_list"],
)
def test_a_bool_to_the_power_of_a_bool(call: Callable[..., torch.Tensor], exponent: bool) -> None:
    x = torch.tensor([True, False, True])
    want, got = call(x, exponent), call(x.to("xpu"), exponent)
    assert got.dtype == want.dtype and torch.equal(got.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_quotient_by_one_number_is_truncated_unrounded(dtype: torch.dtype) -> None:
    """One by a tensor is rounded first, as in torch."""
    x = torch.linspace(-300, 300, 20_003).to(dtype)
    for divisor in (torch.tensor(0.1), torch.tensor([0.7]), torch.full_like(x, 0.1)):
        other = divisor.to(dtype)
        want = torch.div(x, other, rounding_mode="trunc")
        assert torch.equal(torch.div(x.to("xpu"), other.to("xpu"), rounding_mode="trunc").cpu(), want)
        assert torch.equal(x.to("xpu").div_(other.to("xpu"), rounding_mode="trunc").cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x**1e39,
        lambda x: x.pow_(1e39),
        lambda x: torch._foreach_pow([x], 1e39),
        lambda x: x.masked_fill(x > 0, 1e39),
        lambda x: x.masked_fill(x > 0, torch.tensor(1e39, dtype=torch.float64, device=x.device)),
    ],
    ids=["pow", "pow_", "foreach_pow", "masked_fill", "masked_fill_by_tensor"],
)
def test_a_number_beyond_sixteen_bits(call: Callable[[torch.Tensor], Any], dtype: torch.dtype) -> None:
    x = torch.ones(3, dtype=dtype)
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type c10::(Half|BFloat16) without"):
            call(x.to(device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [77, 300_000])
def test_lerp_is_rounded_once(dtype: torch.dtype, n: int) -> None:
    """From the nearer end, as the CPU's vectors do, whether the weight is a number or a tensor."""
    generator = torch.Generator().manual_seed(0)
    a, b, weights = (torch.randn(n, generator=generator).to(dtype) for _ in range(3))
    a[:5] = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
    xa, xb = a.to("xpu"), b.to("xpu")
    for weight in (0.3, 0.7, -1.5, 0.5, 0.4999999, 0.0, 1.0, torch.nan, torch.inf):
        torch.testing.assert_close(xa.lerp(xb, weight).cpu(), a.lerp(b, weight), rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(
            torch._foreach_lerp([xa], [xb], weight)[0].cpu(),
            torch._foreach_lerp([a], [b], weight)[0],
            rtol=0,
            atol=0,
            equal_nan=True,
        )
    torch.testing.assert_close(xa.lerp(xb, weights.to("xpu")).cpu(), a.lerp(b, weights), rtol=0, atol=0, equal_nan=True)


def test_squares_of_complex_numbers_are_products() -> None:
    """The kernel of powers computes complex numbers item by item."""
    z = torch.randn(600, 500, dtype=torch.complex64)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as p:
        got = [z.xpu().square(), z.xpu() ** 2, z.xpu().pow_(2)]
        torch.xpu.synchronize()
    for square in got:
        assert torch.equal(square.cpu(), (z.xpu() * z.xpu()).cpu())
        torch.testing.assert_close(square.cpu(), z**2)
    kernels = [e.key for e in p.key_averages() if e.device_type != torch.autograd.DeviceType.CPU]
    assert any("mul" in k for k in kernels) and not any("pow" in k for k in kernels), kernels


@pytest.mark.parametrize("n", [3, 200_003])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize(
    "call",
    ["add", "sub", "mul", "rsub", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "lt", "ge", "maximum"],
)
def test_integers_meet_numbers_of_64_bits(call: str, dtype: torch.dtype, n: int) -> None:
    """A hash's constants have the highest bit set: their bits count, as on the CPU."""
    x = (torch.arange(n) % 119 + 1).to(dtype)
    for number in (0x9E3779B97F4A7C15, 2**63, 2**64 - 1):
        other = torch.tensor(number, dtype=torch.uint64) if call == "maximum" else number
        function = getattr(torch, call)
        assert torch.equal(function(x.to("xpu"), other).cpu(), function(x, other))
