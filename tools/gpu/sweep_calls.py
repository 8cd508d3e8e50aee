"""Tensors and calls of the sweep: tools/gpu/sweep.py and its kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.manifest import TORCH_TYPES

FLOATS = ["f16", "bf16", "f32", "f64"]
COMPLEX = ["c32", "c64", "c128"]
INTS = ["u8", "i8", "i16", "i32", "i64"]
UNSIGNED = ["u16", "u32", "u64"]
FLOAT8 = ["f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu"]
ORDERED = [*FLOATS, *INTS, "b8"]
SORTED = [*ORDERED, *UNSIGNED]
RAW = ["u8", "u16", "f32", "f64", "c128"]  # one of each width
EVERY = [*SORTED, *COMPLEX, *FLOAT8]
MIXED = [("bf16", "f32"), ("f16", "f32")]


def numbers(*shape: int, t: str, low: float = -3, high: float = 3) -> torch.Tensor:
    """Values of a type on the device, made on the CPU."""
    generator = torch.Generator().manual_seed(sum(shape) + len(t))
    dtype = TORCH_TYPES[t]
    values = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    if dtype.is_complex:
        values = torch.complex(values, values.flip(-1) if shape else values)
    elif dtype is torch.bool:
        values = values > 0
    elif not dtype.is_floating_point:
        values = values.abs() if t in ("u8", *UNSIGNED) else values.round()
    return values.to(dtype).xpu()


def places(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=torch.Generator().manual_seed(below)).xpu()


Case = Callable[[str], Any]


class Cases:
    """Calls by name, each with the element types that it is made for."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[list[str], Case]] = {}

    def of(self, types: list[str]) -> Callable[[Case], Case]:
        def register(call: Case) -> Case:
            self._calls[call.__name__] = (types, call)
            return call

        return register

    def params(self) -> list[Any]:
        return [pytest.param(call, t, id=f"{n}-{t}") for n, (types, call) in self._calls.items() for t in types]


def run(*calls: Callable[[], Any]) -> None:
    """Makes the calls; one that its operator refuses is left out."""
    for call in calls:
        try:
            call()
            torch.xpu.synchronize()
        except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
            continue
