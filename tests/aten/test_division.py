"""Division of integers on the device, which makes it of products, against torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch
from aten_data import ids

OPS = {
    "floor": torch.floor_divide,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("op", OPS)
def test_integer_division(op: str, dtype: torch.dtype) -> None:
    info, bits = torch.iinfo(dtype), torch.iinfo(dtype).bits
    n = 300_000
    a, b = ids(info.max, n, low=info.min, seed=1).to(dtype), ids(info.max, n, low=info.min, seed=2).to(dtype)
    a >>= ids(bits, n, seed=3).to(dtype)
    b >>= ids(bits, n, seed=4).to(dtype)
    b[b == 0] = 1

    def safe() -> torch.Tensor:  # the processor traps on the lowest number by -1
        return torch.where((a == info.min) & (b.to(torch.int64) == -1), 1, b).to(dtype)

    b = safe()
    near = torch.tensor([-1, 0, 1])[torch.arange(n) % 3].to(dtype)
    a[::2] = (a // b * b + near)[::2]  # about a multiple
    ends = torch.tensor([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7], dtype=dtype)
    a[: len(ends)] = ends
    f = OPS[op]
    b = safe()
    assert torch.equal(f(a.to("xpu"), b.to("xpu")).cpu(), f(a, b))
    for divisor in (*ends.tolist(), *(x for x in (-1, -2, -3, -7, 10, 100) if x >= info.min)):
        if divisor == 0:
            continue
        x = a if divisor != -1 else a.clamp(min=info.min + 1)
        assert torch.equal(f(x.to("xpu"), divisor).cpu(), f(x, divisor)), divisor


def test_by_zero() -> None:
    a = torch.tensor([-(2**63), -5, 0, 5, 2**63 - 1], device="xpu")
    zero = torch.zeros_like(a)
    assert torch.floor_divide(a, zero).tolist() == [-1] * 5
    assert torch.remainder(a, zero).tolist() == [0] * 5
    assert torch.floor_divide(a[:1], -1).tolist() == [-(2**63)]
