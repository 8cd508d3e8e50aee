"""softmax, log_softmax, masked softmax and their gradients against torch's CPU."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import xpu_ops

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
TOLERANCE = {
    torch.float32: (1e-5, 1e-6),
    torch.float64: (1e-12, 1e-12),
    torch.bfloat16: (1.6e-2, 1e-3),
    torch.float16: (2e-3, 2e-4),
}
SHAPES = [
    (),
    (1,),
    (7,),
    (5000,),
    (33, 129),
    (300, 10),
    (50, 64),  # whole vectors of four, also one per item
    (5, 2000),
    (4, 5, 6),
    (2, 70, 65),
    (3, 5, 150),
    (2, 3, 4, 5, 6),
    (3, 0),
    (0, 4),
]
FUNCTIONS = [torch.softmax, torch.log_softmax]


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3).to(dtype)


def check(got: torch.Tensor, want: torch.Tensor, wide: torch.Tensor | None = None) -> None:
    assert got.dtype == want.dtype
    assert got.stride() == want.stride()
    rtol, atol = TOLERANCE[want.dtype]
    reference = want if wide is None else wide.to(want.dtype)
    torch.testing.assert_close(got.cpu(), reference, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_forward(fn: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    cpu = values(shape, dtype)
    for dim in range(-1, len(shape)):
        with xpu_ops.fallback.forbid():
            got = fn(cpu.to("xpu"), dim)
        # torch's CPU rounds log_softmax of 16-bit floats more than once.
        check(got, fn(cpu, dim), fn(cpu.double(), dim))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(33, 129), (4, 5, 70), (2, 5, 304), (2, 3, 4, 5)])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_backward(fn: object, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    cpu, weight = values(shape, dtype), values(shape, dtype, 1)
    for dim in range(len(shape)):
        out = fn(cpu, dim)
        op = torch.ops.aten._softmax_backward_data if fn is torch.softmax else torch.ops.aten._log_softmax_backward_data
        with xpu_ops.fallback.forbid():
            got = op(weight.to("xpu"), out.to("xpu"), dim, dtype)
        check(got, op(weight.double(), out.double(), dim, torch.float64).to(dtype))


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_special_values(fn: object) -> None:
    inf, nan = float("inf"), float("nan")
    cpu = torch.tensor([[-inf, 0, 1, 2], [-inf, -inf, -inf, -inf], [inf, 0, 1, 2], [nan, 0, 1, 2], [1e4, -1e4, 0, 1e4]])
    for repeats in (1, 4, 7, 11, 15, 16, 60):
        t = cpu.repeat(1, repeats)
        for dim in (0, 1):
            check(fn(t.to("xpu"), dim), fn(t, dim))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [15, 16, 17, 31, 32, 33, 47, 48, 50, 63, 64, 65])
@pytest.mark.parametrize("fn", FUNCTIONS)
def test_short_rows(fn: object, columns: int, dtype: torch.dtype) -> None:
    """Rows that a CPU device computes by fours and sixteens: any number of them, also where the result is the input."""
    op = torch.ops.aten._softmax.out if fn is torch.softmax else torch.ops.aten._log_softmax.out
    for rows in (1, 2, 3, 5, 16, 18, 37, 700):
        cpu = values((rows, columns), dtype, rows)
        xpu = cpu.to("xpu")
        check(fn(xpu, 1), fn(cpu, 1), fn(cpu.double(), 1))
        op(xpu, 1, False, out=xpu)
        check(xpu, fn(cpu, 1), fn(cpu.double(), 1))


@pytest.mark.parametrize("fn", FUNCTIONS)
def test_strides_and_out(fn: object) -> None:
    cpu = values((20, 30), torch.float32)
    xpu = cpu.to("xpu")
    for change in (lambda t: t.t(), lambda t: t[::2, 5:], lambda t: t[:1].expand(20, 30)):
        check(fn(change(xpu), 1), fn(change(cpu), 1))
    base = torch.zeros(30, 40, device="xpu")
    op = torch.ops.aten._softmax.out if fn is torch.softmax else torch.ops.aten._log_softmax.out
    op(xpu.t(), 1, False, out=base[:, ::2])
    torch.testing.assert_close(base.cpu()[:, ::2], fn(cpu.t(), 1))
    assert (base.cpu()[:, 1::2] == 0).all()


def test_widening() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        cpu = values((9, 40), dtype)
        for fn in (F.softmax, F.log_softmax):
            check(fn(cpu.to("xpu"), 1, dtype=torch.float32), fn(cpu, 1, dtype=torch.float32))
        got = torch.ops.aten._softmax(cpu.to("xpu"), 1, dtype == torch.float16)
        assert got.dtype == (torch.float32 if dtype == torch.float16 else dtype)


def test_errors() -> None:
    x = torch.ones(3, 4, device="xpu")
    with pytest.raises(IndexError):
        torch.softmax(x, 2)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.softmax(x.to(torch.int64), 0)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_masked(kind: int) -> None:
    cpu = values((2, 3, 8, 8), torch.float32)
    gen = torch.Generator().manual_seed(2)
    mask = torch.rand({0: (8, 8), 1: (2, 8), 2: (2, 3, 8, 8)}[kind], generator=gen) > 0.7
    mask[..., 0] = False  # a row of hidden elements has no softmax
    want = torch._masked_softmax(cpu, mask, 3, kind)
    check(torch._masked_softmax(cpu.to("xpu"), mask.to("xpu"), 3, kind), want)
    if kind == 2:
        grad = values(cpu.shape, torch.float32, 1)
        args = (grad, want, mask)
        got = torch.ops.aten._masked_softmax_backward(*(a.to("xpu") for a in args), 3)
        check(got, torch.ops.aten._masked_softmax_backward(*args, 3))


@pytest.mark.parametrize("kind", [None, 0, 1, 2])
def test_masked_with_a_whole_mask(kind: int | None) -> None:
    """A mask of the input's shape goes with every type of mask, and without one."""
    cpu, mask = values((3, 2, 5, 5), torch.float32), (torch.arange(150) % 3 == 0).view(3, 2, 5, 5)
    check(torch._masked_softmax(cpu.to("xpu"), mask.to("xpu"), 3, kind), torch._masked_softmax(cpu, mask, 3, kind))
    with pytest.raises(RuntimeError, match="Mask Type should be" if kind is None else "mask shape should"):
        torch._masked_softmax(cpu.to("xpu"), mask[:1].to("xpu"), 3, kind)
