"""A number beside 16-bit floats is rounded to their type first, except where the CPU multiplies by it or divides by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

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
    "rsub": torch.rsub,
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
