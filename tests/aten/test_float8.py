"""The operators that torch's CPU has for 8-bit floats, besides copies, against it; every pair of values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

TYPES = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "eq.Scalar": lambda a, b: a == 2.0,
    "isnan": lambda a, b: a.isnan(),
    "abs": lambda a, b: a.abs(),
    "mul": torch.mul,
    "where": lambda a, b: torch.where(torch.arange(a.numel(), device=a.device).view_as(a) % 3 == 0, a, b),
    "any": lambda a, b: a.any(1),
    "all": lambda a, b: a.all(0),
}


# float8_e8m0fnu has no zero and no sign, and no kernel of any, all and abs.
CASES = [(c, t) for c in CALLS for t in TYPES if c not in ("any", "all", "abs") or t != torch.float8_e8m0fnu]


@pytest.mark.parametrize(("call", "dtype"), CASES, ids=str)
def test_values(call: str, dtype: torch.dtype) -> None:
    numbers = torch.arange(256, dtype=torch.uint8)
    every = numbers.view(dtype)
    a, b = every.view(16, 16), numbers.flip(0).view(dtype).view(16, 16)
    if call in ("eq", "ne", "mul"):
        a, b = every.view(256, 1), every.view(1, 256)
    want = CALLS[call](a, b)
    got = CALLS[call](a.to("xpu"), b.to("xpu")).cpu()
    assert got.dtype == want.dtype
    if want.dtype == dtype:
        got, want = got.float(), want.float()
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_products(dtype: torch.dtype) -> None:
    """Every sum is a whole number that float32 holds, and is rounded once."""
    torch.manual_seed(0)
    a, b, c = (torch.randint(-3, 4, sizes).to(dtype) for sizes in ((5, 7), (7, 6), (6,)))
    calls: list[Callable[..., torch.Tensor]] = [
        torch.mm,
        torch.matmul,
        lambda a, b, c: torch.addmm(c, a, b, beta=2, alpha=0.5),
        lambda a, b, c: torch.addmm(c, a, b, beta=0, alpha=0),
        lambda a, b, c: torch.nn.functional.linear(a, b.t(), c),
        lambda a, b, c: torch.linalg.multi_dot([a, b, b.t()]),
    ]
    for call in calls:
        on = (t.to("xpu") for t in (a, b, c))
        given = (a, b, c) if call not in (torch.mm, torch.matmul) else (a, b)
        want, got = call(*given), call(*[t for t, _ in zip(on, given, strict=False)])
        assert got.dtype == want.dtype
        assert torch.equal(got.cpu().float(), want.float())


@pytest.mark.parametrize("dtype", TYPES[:4], ids=str)
def test_sums_at_an_index(dtype: torch.dtype) -> None:
    def run(device: str) -> torch.Tensor:
        x = torch.zeros(4, 3).to(dtype).to(device)
        v = torch.ones(6, 3).to(dtype).to(device)
        return x.index_put_((torch.tensor([1, 1, 0, 3, 1, 3], device=device),), v, accumulate=True).float().cpu()

    assert torch.equal(run("xpu"), run("cpu"))
