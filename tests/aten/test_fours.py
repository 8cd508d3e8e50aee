"""Sizes and addresses at which a GPU moves four elements or sixteen bytes per load, and their neighbours at which it does not.

On the CPU device's own policy the same calls have other kernels; test_policy.py runs this file under a GPU's.
"""

from __future__ import annotations

import pytest
import torch
from support.compare import assert_near
from torch.nn import functional

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
SIZES = (4092, 4096, 4097, 20000)  # too few; whole fours; a rest; whole fours of more than one work-group
ROWS = (8, 77, 1000, 1023, 1024, 5000)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_pointwise(size: int, dtype: torch.dtype) -> None:
    a, b = numbers(size + 1, dtype=dtype), numbers(size + 2, dtype=dtype)[:-1]
    x, y = a.xpu(), b.xpu()
    for first in (0, 1, 4):  # the second begins between fours
        u, v, cpu_u, cpu_v = x[first:], y[first:], a[first:], b[first:]
        assert torch.equal((u + v).cpu(), cpu_u + cpu_v)
        assert torch.equal((u < v).cpu(), cpu_u < cpu_v)
        assert torch.equal((u * 3).cpu(), cpu_u * 3)
        assert torch.equal(torch.where(u < v, u, v).cpu(), torch.where(cpu_u < cpu_v, cpu_u, cpu_v))
        assert_near(functional.silu(u), functional.silu(cpu_u), rtol=1e-2, atol=1e-3)
    x.add_(y)
    assert torch.equal(x.cpu(), a + b)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("columns", [64, 66, 128])
def test_pointwise_rows(columns: int, dtype: torch.dtype) -> None:
    a = numbers(90, 130, dtype=dtype)[:, :columns]
    b, c = numbers(columns, dtype=dtype), numbers(90, 1, dtype=dtype)
    x = torch.empty(90, 130, dtype=dtype, device="xpu")[:, :columns].copy_(a)
    assert torch.equal((x + b.xpu()).cpu(), a + b)
    assert torch.equal((x * c.xpu()).cpu(), a * c)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_casts(size: int, target: torch.dtype, source: torch.dtype) -> None:
    a = numbers(size + 1, dtype=source)
    for first in (0, 1):
        assert torch.equal(a.xpu()[first:].to(target).cpu(), a[first:].to(target))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.int64, torch.complex128])
def test_moves(dtype: torch.dtype) -> None:
    a = (numbers(96, 160) * 50).to(dtype)
    x = a.xpu()
    for first in (0, 1, 16):
        assert torch.equal(x[:, first:].contiguous().cpu(), a[:, first:].contiguous())
        assert torch.equal(torch.cat([x, x[:, first:]], 1).cpu(), torch.cat([a, a[:, first:]], 1))
        assert torch.equal(torch.cat([x[first:], x]).cpu(), torch.cat([a[first:], a]))
        assert torch.equal(x.clone().view(-1)[first:].fill_(5).cpu(), a.clone().view(-1)[first:].fill_(5))
    for rows, columns in ((96, 160), (33, 70), (64, 1), (95, 159)):
        assert torch.equal(x[:rows, :columns].t().contiguous().cpu(), a[:rows, :columns].t().contiguous())
    images, there = a.view(2, 8, 30, 32), x.view(2, 8, 30, 32)
    last = there.contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.contiguous().cpu(), images)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.uint8, torch.int64])
@pytest.mark.parametrize("length", ROWS)
def test_reductions(length: int, dtype: torch.dtype) -> None:
    a = (numbers(40, 5001) * 30).to(dtype)[:, :length]
    x = torch.empty(40, 5001, dtype=dtype, device="xpu")[:, :length].copy_(a)
    for name in ("amax", "amin", "argmax", "argmin", "count_nonzero"):
        assert torch.equal(getattr(x, name)(1).cpu(), getattr(a, name)(1)), name
    assert torch.equal((x > 60).any(1).cpu(), (a > 60).any(1))
    if dtype.is_floating_point:
        wide = a.double()
        assert_near(x.float().sum(1), wide.sum(1), rtol=1e-5, atol=2e-2)
        assert_near(x.float().var(1), wide.var(1), rtol=1e-5)
        assert_near(x.mean(1).float(), wide.mean(1).float(), rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [600, 2048, 8191])
def test_many_rows(length: int, dtype: torch.dtype) -> None:
    """Enough rows that a sub-group has one each."""
    a = numbers(300, length, dtype=dtype)
    x, wide = a.xpu(), a.double()
    assert torch.equal(x.amax(1).cpu(), a.amax(1))
    assert_near(x.float().var(1), wide.var(1).float(), rtol=1e-5)
    assert_near(x.float().sum(1), wide.sum(1).float(), rtol=1e-5, atol=1e-3)
    a[5, 77], a[299, length - 1] = torch.nan, torch.nan
    for name in ("argmax", "argmin"):
        assert torch.equal(getattr(a.xpu(), name)(1).cpu(), getattr(a, name)(1)), name


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_nan(dtype: torch.dtype) -> None:
    a = numbers(6, 4096, dtype=dtype)
    for row, places in enumerate([(0,), (3,), (700, 701), (1, 4095), (2047, 2048)]):
        a[row, list(places)] = torch.nan
    x = a.xpu()
    assert torch.equal(x.argmax(1).cpu(), a.argmax(1)) and torch.equal(x.argmin(1).cpu(), a.argmin(1))
    assert torch.equal(x.amax(1).isnan().cpu(), a.amax(1).isnan())


def test_variance_of_large_numbers() -> None:
    a = numbers(8, 2048) + torch.tensor([0.0, 1e2, 1e4, 1e5, -1e5, 3e3, 7.0, -1.0]).unsqueeze(1)
    assert_near(a.xpu().var(1), a.double().var(1).float(), rtol=2e-2, atol=1e-5)
    equal = torch.full((2, 2048), 0.1)
    assert torch.equal(equal.xpu().var(1).cpu(), torch.zeros(2))
    huge = torch.full((2, 2048), 3e38)
    assert torch.equal(torch.var_mean(huge.xpu(), 1)[0].cpu(), torch.zeros(2))


@pytest.mark.parametrize("length", [77, 1000, 5000, 70001])
def test_scans(length: int) -> None:
    whole = (numbers(3, length) * 5).to(torch.int64)
    assert torch.equal(whole.xpu().cumsum(1).cpu(), whole.cumsum(1))
    assert torch.equal(whole[0].xpu().cumsum(0).cpu(), whole[0].cumsum(0))
    assert torch.equal((whole[0] | 1).xpu().cumprod(0).cpu(), (whole[0] | 1).cumprod(0))
    a = numbers(length)
    assert_near(a.xpu().cumsum(0), a.double().cumsum(0).float(), rtol=1e-4, atol=1e-3)
    for name in ("cummax", "cummin"):
        values, at = getattr(a.xpu(), name)(0)
        expected, where = getattr(a, name)(0)
        assert torch.equal(values.cpu(), expected) and torch.equal(at.cpu(), where)


@pytest.mark.parametrize("columns", [77, 1000, 1024, 4096, 4100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_norm_gradients(columns: int, dtype: torch.dtype) -> None:
    given = [numbers(40, columns), numbers(columns), numbers(columns)]
    grad = numbers(40, columns, dtype=dtype)
    there = [t.to(dtype).xpu().requires_grad_() for t in given]
    here = [t.to(dtype).double().requires_grad_() for t in given]
    functional.layer_norm(there[0], (columns,), *there[1:]).backward(grad.xpu())
    functional.layer_norm(here[0], (columns,), *here[1:]).backward(grad.double())
    tol = 1e-3 if dtype == torch.float32 else 8e-2
    for t, h in zip(there, here, strict=True):
        assert_near(t.grad.float(), h.grad.float(), rtol=tol, atol=tol)


@pytest.mark.parametrize("columns", [4, 36, 60, 64])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
def test_softmax_of_short_rows(columns: int, dtype: torch.dtype) -> None:
    """A sub-group takes four rows at a time, of which the last may be there already."""
    for rows in (1, 3, 4, 131):
        a = numbers(rows + 1, columns, dtype=dtype)[1:] * 20
        a[0, 1:] = -torch.inf
        for name in ("softmax", "log_softmax"):
            expected = getattr(torch, name)(a.double(), 1).to(dtype)
            got = getattr(torch, name)(a.xpu(), 1)
            assert_near(got.float(), expected.float(), rtol=1e-2 if dtype in FLOATS[:2] else 1e-5, atol=2e-6)


# The error of functions that are computed with 16 bits in mind, in units of the result's last place: half of one is the
# rounding, the rest that of the device's own functions.
@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_activations_of_16_bits(dtype: torch.dtype) -> None:
    aten = torch.ops.aten
    a = torch.cat([torch.linspace(-12, 12, 40000), torch.tensor([0.0, -0.0, 300.0, -300.0])]).to(dtype)
    grad = torch.ones_like(a)
    for f in (
        lambda x, g: functional.silu(x),
        lambda x, g: aten.silu_backward(g, x),
        lambda x, g: aten.gelu_backward(g, x),
        lambda x, g: aten.gelu_backward(g, x, approximate="tanh"),
    ):
        expected = f(a.double(), grad.double())
        place = expected.abs().clamp_min(torch.finfo(dtype).smallest_normal) * torch.finfo(dtype).eps
        off = (f(a.xpu(), grad.xpu()).cpu().double() - expected).abs() / place
        # Near a zero of the result its last place is smaller than the errors of the terms that it is the sum of.
        small = 2e-5 / place
        assert bool((off <= 0.75 + small).all()), off.max()
    odd = torch.tensor([torch.nan, torch.inf, -torch.inf]).repeat(4096).to(dtype)
    for f in (functional.silu, lambda x: aten.silu_backward(torch.ones_like(x), x)):
        assert torch.equal(f(odd.xpu()).cpu().nan_to_num(7), f(odd).nan_to_num(7))


@pytest.mark.parametrize("columns", [5000, 8192, 32001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_softmax_of_long_rows(columns: int, dtype: torch.dtype) -> None:
    a = numbers(4, columns, dtype=dtype)
    for name in ("softmax", "log_softmax"):
        assert_near(
            getattr(torch, name)(a.xpu(), 1).float(),
            getattr(torch, name)(a.double(), 1).float(),
            rtol=2e-2 if dtype == torch.bfloat16 else 1e-4,
            atol=1e-5,
        )
