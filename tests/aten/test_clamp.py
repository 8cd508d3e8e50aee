"""Bounds of clamp and hardtanh that integers do not hold: limits of the type, wrapped, or an error, as the release's CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from aten_data import same

import xpu_ops

Run = Callable[[torch.Tensor], torch.Tensor]
BOUNDS = [(-5, 100), (-5, 3), (3, 300), (0, 255), (-300, 300), (-10, -5), (300, 400), (-(2**40), 2**40), (2**40, 2**41)]
BOUNDS += [(0, 2**63), (2**63, 2**64 - 1), (-(2**63), 2**63 - 1)]
CALLS: dict[str, Callable[[torch.Tensor, int, int], torch.Tensor]] = {
    "clamp": lambda x, low, high: x.clamp(low, high),
    "clamp_": lambda x, low, high: x.clone().clamp_(low, high),
    "clamp_min": lambda x, low, high: x.clamp_min(low),
    "clamp_max": lambda x, low, high: x.clamp_max(high),
    "one bound": lambda x, low, high: x.clamp(min=low),
    "hardtanh": lambda x, low, high: F.hardtanh(x, low, high),
    "hardtanh of fractions": lambda x, low, high: F.hardtanh(x, low + 0.25, high + 0.75),
    "hardtanh_": lambda x, low, high: F.hardtanh_(x.clone(), low, high),
    "out": lambda x, low, high: torch.ops.aten.hardtanh.out(x, low, high, out=torch.empty_like(x)),
}


def outcome(run: Run, x: torch.Tensor) -> torch.Tensor | str:
    try:
        return run(x)
    except RuntimeError as error:
        return str(error).split("\n")[0]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_bounds_out_of_range(call: str, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.tensor([0, 3, 5, 100, 127, info.min, info.max], dtype=dtype)
    for low, high in BOUNDS:

        def run(x: torch.Tensor, low: int = low, high: int = high) -> torch.Tensor:
            return CALLS[call](x, low, high)

        for given in (x, x[:0], x.repeat(3000)):
            expected = outcome(run, given)
            with xpu_ops.fallback.forbid():
                found = outcome(run, given.to("xpu"))
            if isinstance(expected, str):
                assert found == expected, (low, high)
            else:
                assert isinstance(found, torch.Tensor), (low, high, found)
                torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned(dtype: torch.dtype) -> None:
    """Releases of torch before 2.15 have no clamp of them on the CPU, so integers of Python are the measure."""
    values = [0, 3, 5, 100, 40000, torch.iinfo(dtype).max]
    low, high = 4, 39999
    x = torch.tensor(values, dtype=dtype).to("xpu")
    bounds = torch.full_like(x, low), torch.full_like(x, high)
    for found in (x.clamp(low, high), torch.clamp(x, *bounds), x.clamp(min=low).clamp_max(high)):
        assert found.dtype == dtype and found.tolist() == [min(max(v, low), high) for v in values]
    assert torch.maximum(x, bounds[0]).tolist() == [max(v, low) for v in values]
    assert torch.minimum(x, bounds[1]).tolist() == [min(v, high) for v in values]
    assert torch.relu(x).tolist() == x.relu_().tolist() == values
    assert F.hardtanh(x, low, high).tolist() == [min(max(v, low), high) for v in values]


@pytest.mark.parametrize("bound", [float("inf"), float("nan"), 1e30, 2**63])
def test_hardtanh_of_integers_refuses_what_int64_does_not_hold(bound: float) -> None:
    for dtype in (torch.uint8, torch.int32):
        x = torch.tensor([0, 5], dtype=dtype)

        def run(x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.hardtanh(x, -1, bound)

        assert isinstance(outcome(run, x), str) and outcome(run, x.to("xpu")) == outcome(run, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_hardtanh_of_floats(dtype: torch.dtype) -> None:
    for n in (0, 7, 40000):
        x = torch.linspace(-3, 3, n).to(dtype)
        for low, high in ((-1, 1), (-0.5, float("inf")), (float("nan"), 1)):
            same(lambda x, low=low, high=high: F.hardtanh(x, low, high), x)
            same(lambda x, low=low, high=high: F.hardtanh_(x.clone(), low, high), x)
