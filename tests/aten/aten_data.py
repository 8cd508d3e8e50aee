"""Inputs and the comparison that the direct tests of ATen families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from support.compare import assert_same, clone, reference, to_device

MOVED = [
    torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128, torch.bool, torch.uint16, torch.float8_e4m3fn,
]  # fmt: skip
ADDED = [
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.bool,
]


def data(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    if dtype.is_complex:
        return torch.complex(torch.randn(size, generator=g), torch.randn(size, generator=g)).to(dtype)
    if dtype == torch.bool:
        return torch.rand(size, generator=g) > 0.5
    if dtype.is_floating_point:
        return torch.randn(size, generator=g).to(dtype)
    return torch.randint(0, 100, size, generator=g).to(dtype)


def ids(high: int, *size: int, low: int = 0, seed: int = 1) -> torch.Tensor:
    return torch.randint(low, high, size, generator=torch.Generator().manual_seed(seed))


def same(
    fn: Callable[..., Any], *args: Any, strides: bool = False, tol: tuple[float, float] | None = None, **kwargs: Any
) -> None:
    """`fn` gives the same on xpu as on the CPU, also in what it does to its arguments."""
    cpu_args, xpu_args = clone(args), to_device(clone(args))
    expected, actual = fn(*cpu_args, **kwargs), fn(*xpu_args, **kwargs)

    def wide() -> Any:
        return reference(lambda a, k: (fn(*a, **k), a), args, kwargs)

    both = (actual, xpu_args), (expected, cpu_args)
    assert_same(*both, strides=strides, tol=tol, reference=wide, accumulates=True)
