"""How kernels go through the rows of their operands: no lane divides or gathers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from support.modes import GPU_POLICY
from torch._inductor.utils import run_and_get_code


def fastest(f: Callable[..., torch.Tensor], *args: torch.Tensor) -> float:
    """The least time of a call in seconds."""
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        f(*args)
        torch.xpu.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


@pytest.mark.parametrize("length", [1 << 15, 1 << 17])
def test_rows_of_a_power_of_two_are_vectors(length: int) -> None:
    """Where the lane fits below the bits of a row's begin, the compiler joins them by `or`, and then finds no vectors."""
    f = torch.compile(lambda x, s: x * s + 1, dynamic=False)
    times = []
    with torch.no_grad():
        for columns in (length, length - 512):
            rows = (1 << 20) // length
            x, s = torch.randn(rows, columns, device="xpu"), torch.randn(rows, 1, device="xpu")
            torch.testing.assert_close(f(x, s), x * s + 1)
            times.append(fastest(f, x, s))
    assert times[0] < 4 * times[1]


def planes_as_images(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    """Operands of an instance norm, whose planes are the channels of one image."""
    return F.instance_norm(x * s)


def folded(x: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    b, c, h, w = x.shape
    return (x * s).reshape(1, b * c, h, w).flip(1) * 2


@pytest.mark.parametrize("f", [planes_as_images, folded])
def test_quotients_of_an_index_become_rows(f: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(3, 5, 6, 20, device="xpu")
    for operand in (x, x.to(memory_format=torch.channels_last)):
        s = torch.randn(5, 1, 1, device="xpu")
        with torch.no_grad():
            got, (code, *_) = run_and_get_code(torch.compile(f, dynamic=False), operand, s)
            torch.testing.assert_close(got, f(operand, s), rtol=1e-4, atol=1e-4)
        loops = re.findall(r"\[&\]\(long xc.*?\}\);", code, re.DOTALL)
        # Items of a GPU divide once for all of their elements.
        assert GPU_POLICY or (loops and not any(re.search(r" [/%] ", loop) for loop in loops)), code
