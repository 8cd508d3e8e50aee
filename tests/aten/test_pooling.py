"""Pooling against torch's CPU kernels: layouts, windows, element types, backward, determinism."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from aten_data import same

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FORMATS = {2: [torch.contiguous_format, torch.channels_last], 3: [torch.contiguous_format, torch.channels_last_3d]}


def both(f, x: torch.Tensor, tol: float | None = None, grad: bool = True) -> None:
    """f(x) and its gradient agree on both devices, strides included."""

    first = f(x)
    first = first[0] if isinstance(first, tuple) else first
    weight = torch.randn_like(first) if x.is_floating_point() else None

    def run(x: torch.Tensor, weight: torch.Tensor | None) -> object:
        leaf = x.clone().requires_grad_(grad and x.is_floating_point())
        result = f(leaf)
        if not leaf.requires_grad:
            return result
        return result, torch.autograd.grad(result[0] if isinstance(result, tuple) else result, leaf, weight)

    same(run, x, weight, strides=True, tol=tol and (tol, tol))


def tolerance(dtype: torch.dtype) -> float | None:
    return {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype)


WINDOWS = [
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True},
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("form", FORMATS[2])
@pytest.mark.parametrize("shape", [(2, 3, 11, 13), (2, 20, 7, 33), (0, 3, 8, 8)])
def test_max_pool2d(shape, form, window) -> None:
    for dtype in FLOATS:
        x = torch.randn(shape).to(dtype).to(memory_format=form)
        both(lambda t: F.max_pool2d(t, **window, return_indices=True), x, tolerance(dtype))


def test_max_pool_keeps_the_last_nan_and_the_first_maximum() -> None:
    x = torch.tensor([[[[1.0, float("nan"), 2.0], [float("nan"), 5.0, 5.0], [5.0, 0.0, 1.0]]]])
    both(lambda t: F.max_pool2d(t, 2, 1, return_indices=True), x, grad=False)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_max_pool2d_integers(dtype) -> None:
    both(lambda t: F.max_pool2d(t, 2, return_indices=True), torch.randint(0, 100, (2, 3, 8, 8)).to(dtype))


@pytest.mark.parametrize("pad", [True, False])
@pytest.mark.parametrize("divisor", [None, 5])
@pytest.mark.parametrize("form", FORMATS[2])
def test_avg_pool2d(form, divisor, pad) -> None:
    for dtype, shape, ceil in itertools.product(FLOATS, [(2, 3, 11, 13), (2, 20, 7, 33)], [True, False]):
        x = torch.randn(shape).to(dtype).to(memory_format=form)
        both(lambda t: F.avg_pool2d(t, 3, 2, 1, ceil, pad, divisor), x, tolerance(dtype))


@pytest.mark.parametrize("kernel", [2, 3])
def test_avg_of_windows_side_by_side(kernel) -> None:
    """Planes whose lines of outputs end with a vector, and not, with inputs left over, and not."""
    for dtype, width, ceil in itertools.product(FLOATS, (1, 15, 16, 17, 32, 45), (True, False)):
        for more in (0, 1):
            x = torch.randn(2, 17, 3 * kernel + more, width * kernel + more).to(dtype)
            both(lambda t: F.avg_pool2d(t, kernel, ceil_mode=ceil), x, tolerance(dtype), grad=False)
    x[0, 0, 1, 1:3] = float("nan")
    both(lambda t: F.avg_pool2d(t, kernel), x, tolerance(dtype), grad=False)


@pytest.mark.parametrize("form", FORMATS[2])
@pytest.mark.parametrize("size", [(7, 7), (5, 3), (1, 4), (13, 20), (0, 2)])
def test_adaptive_pool2d(form, size) -> None:
    for dtype, shape in itertools.product(FLOATS, [(2, 3, 11, 13), (2, 20, 7, 33)]):
        x = torch.randn(shape).to(dtype).to(memory_format=form)
        grad = 0 not in size
        both(lambda t: F.adaptive_avg_pool2d(t, size), x, tolerance(dtype), grad)
        both(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x, tolerance(dtype), grad)


@pytest.mark.parametrize("channels", [3, 20])
def test_pool_of_few_outputs(channels) -> None:
    """Contiguous planes whose windows are wide: a sub-group a window, a line of the gradient computed once."""
    for dtype, shape, size in itertools.product(FLOATS, [(45, 90), (33, 40), (64, 17)], [(7, 7), (2, 4), (1, 1)]):
        x = torch.randn(2, channels, *shape).to(dtype)
        both(lambda t: F.adaptive_avg_pool2d(t, size), x, tolerance(dtype))
        both(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x, tolerance(dtype))
    x = torch.randn(2, channels, 40, 61)
    both(lambda t: F.avg_pool2d(t, (3, 9), (2, 10), (1, 4)), x)
    both(lambda t: F.max_pool2d(t, (3, 9), (2, 10), (1, 4), return_indices=True), x)
    both(lambda t: F.max_pool2d(t, (9, 9), ceil_mode=True, return_indices=True), x)
    both(lambda t: F.max_pool2d(t, (9, 9), return_indices=True), torch.randint(-9, 9, x.shape, dtype=torch.int8))
    both(lambda t: F.adaptive_avg_pool3d(t, (2, 3, 4)), torch.randn(1, channels, 9, 20, 33))
    both(lambda t: F.adaptive_max_pool3d(t, (2, 3, 4), return_indices=True), torch.randn(1, channels, 9, 20, 33))


def test_max_of_wide_windows_keeps_the_last_nan_and_the_first_maximum() -> None:
    x = torch.randn(6, 20, 40)
    x[0] = 1.0
    x[1, 3, 5] = x[1, 3, 30] = x[1, 17, 2] = float("nan")
    x[2] = float("-inf")
    x[3, :, 20:] = x[3, :, :20]
    x[4, 11, 39] = float("nan")
    x[5, 0, 0] = x[5, 19, 39] = float("inf")
    for size in ((1, 1), (2, 3)):
        both(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x, grad=False)


def test_max_pool_backward_skips_indices_outside_the_plane() -> None:
    x, g = torch.zeros(1, 1, 32, 32, device="xpu"), torch.ones(1, 1, 2, 2, device="xpu")
    indices = torch.tensor([0, 1 << 40, -1, 1023], device="xpu").view(1, 1, 2, 2)
    grad = torch.ops.aten.adaptive_max_pool2d_backward(g, x, indices).cpu()
    assert grad.nonzero().tolist() == [[0, 0, 0, 0], [0, 0, 31, 31]]


@pytest.mark.parametrize("form", FORMATS[3])
def test_pool3d(form) -> None:
    x = torch.randn(2, 4, 6, 7, 9).to(memory_format=form)
    both(lambda t: F.max_pool3d(t, 3, 2, 1, return_indices=True), x)
    both(lambda t: F.max_pool3d(t, 2, 1, 1, 2, return_indices=True), x)
    both(lambda t: F.avg_pool3d(t, 3, 2, 1), x)
    both(lambda t: F.adaptive_avg_pool3d(t, (2, 3, 4)), x)
    both(lambda t: F.adaptive_max_pool3d(t, (2, 3, 4), return_indices=True), x)


def test_pool_without_batch_and_1d() -> None:
    both(lambda t: F.max_pool2d(t, 2), torch.randn(3, 8, 9))
    both(lambda t: F.max_pool1d(t, 3, 2, 1), torch.randn(2, 3, 17))
    both(lambda t: F.avg_pool1d(t, 3, 2, 1), torch.randn(2, 3, 17))
    both(lambda t: F.adaptive_avg_pool1d(t, 4), torch.randn(2, 3, 17))
    both(lambda t: F.lp_pool2d(t, 2, 2), torch.rand(2, 3, 8, 8) + 0.1, 1e-5)


def test_errors_are_those_of_the_cpu() -> None:
    for f in (
        lambda x: F.max_pool2d(x, 3, padding=2),
        lambda x: F.max_pool2d(x, 9),
        lambda x: F.avg_pool2d(x, 2, divisor_override=0),
        lambda x: F.adaptive_avg_pool2d(x.long(), 2),
        lambda x: F.max_pool2d(x.bool(), 2),
    ):
        x = torch.randn(1, 1, 4, 4)
        with pytest.raises(Exception) as expected:
            f(x)
        with pytest.raises(type(expected.value)) as got:
            f(x.to("xpu"))
        assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_out_of_other_strides() -> None:
    x = torch.randn(2, 3, 8, 8)
    out = torch.empty(2, 3, 4, 4, device="xpu").transpose(2, 3)
    torch._C._nn.avg_pool2d(x.to("xpu"), [2, 2], out=out)
    torch.testing.assert_close(out.cpu(), F.avg_pool2d(x, 2))


def test_backward_is_deterministic() -> None:
    x = torch.randn(4, 8, 33, 33, device="xpu", requires_grad=True)
    y = F.max_pool2d(x, 3, 1, 1)
    g = torch.randn(y.shape).to("xpu")
    first = torch.autograd.grad(y, x, g, retain_graph=True)[0].cpu()
    for _ in range(5):
        assert torch.equal(first, torch.autograd.grad(y, x, g, retain_graph=True)[0].cpu())


LINES = [
    (8, 1, 4, 3),
    (3, 2, 1, 1),
    (2, 2, 0, 1),
    (4, 4, 0, 1),
    (7, 3, 3, 1),
    (11, 11, 0, 1),
    (5, 2, 2, 4),
    (2, 5, 1, 2),
]


@pytest.mark.parametrize("window", LINES, ids=str)
def test_lines_of_contiguous_planes(window) -> None:
    """Windows by whole lines of a plane: inputs left over, lines in several stretches, planes narrower than a vector."""
    kernel, stride, padding, dilation = window
    for dtype, width in itertools.product([torch.float32, torch.bfloat16, torch.float16], (33, 130, 2500)):
        x = torch.randn(2, 3, width).to(dtype)
        both(lambda t: F.max_pool1d(t, kernel, stride, padding, dilation, True, True), x, tolerance(dtype))
        if dilation == 1:
            both(lambda t: F.avg_pool1d(t, kernel, stride, padding, True, False), x, tolerance(dtype))
    for dtype, shape in itertools.product([torch.float32, torch.bfloat16], [(29, 30), (40, 141)]):
        x = torch.randn(2, 3, *shape).to(dtype)
        both(lambda t: F.max_pool2d(t, kernel, stride, padding, dilation, True, True), x, tolerance(dtype))
        if dilation == 1:
            for pad, divisor in itertools.product((True, False), (None, 3)):
                both(lambda t: F.avg_pool2d(t, kernel, stride, padding, True, pad, divisor), x, tolerance(dtype))
    x = torch.randn(1, 2, 24, 27, 31)
    if kernel < 8:
        both(lambda t: F.max_pool3d(t, kernel, stride, padding, dilation, return_indices=True), x)
    if dilation == 1:
        both(lambda t: F.avg_pool3d(t, kernel, stride, padding), x, 1e-5)


def test_lines_keep_the_last_nan_and_the_first_maximum() -> None:
    x = torch.randint(-2, 2, (3, 2, 19, 45)).float()
    x[0, 0, 3, 4] = x[0, 0, 4, 3] = x[0, 1, 18, 44] = x[1, 0, 0, 0] = float("nan")
    x[2] = float("-inf")
    for window in LINES[1:3] + LINES[4:5]:
        kernel, stride, padding, dilation = window
        both(lambda t: F.max_pool2d(t, kernel, stride, padding, dilation, return_indices=True), x, grad=False)


@pytest.mark.parametrize("form", FORMATS[2])
def test_max_pool_without_indices(form) -> None:
    """Calls that want no gradient, and those that torch.func makes."""
    x = torch.randn(2, 20, 13, 37)
    x[0, 0, 2, 3] = float("nan")
    x = x.to(memory_format=form)
    for dtype in [*FLOATS, torch.int32]:
        y = x.nan_to_num().to(dtype) if dtype == torch.int32 else x.to(dtype)
        both(lambda t: F.max_pool2d(t, 3, 2, 1, ceil_mode=True), y, grad=False)
    both(lambda t: F.max_pool1d(t[0], 5, 1, 2, 1), x, grad=False)
    both(lambda t: F.max_pool1d(t[0, 0], 5, 2, 2, 3), x, grad=False)
    both(lambda t: F.max_pool3d(t, 3, 2, 1), x.contiguous(), grad=False)
    both(lambda t: F.max_pool3d(t, (3, 2, 2), 2, (1, 0, 1)), x[None].contiguous(), grad=False)
    both(lambda t: F.max_pool2d(t, 3, 2, 1), x.nan_to_num(), None)
    for pool in (F.max_pool2d, F.max_pool3d):  # a negated view
        both(lambda t, pool=pool: pool(torch.complex(t, t).conj().imag, 2), x.contiguous(), grad=False)
    y = x[:, :2].nan_to_num()
    both(lambda t: torch.func.vmap(lambda u: F.max_pool2d(u, 2))(t), y, grad=False)
    both(lambda t: torch.func.grad(lambda u: F.max_pool2d(u, 2).square().sum())(t), y, grad=False)
    both(lambda t: torch.func.jvp(lambda u: F.max_pool2d(u, 3, 1), (t,), (t.cos(),))[1], y, 1e-5, grad=False)


def test_errors_of_max_pool_without_indices() -> None:
    for f in (
        lambda x: F.max_pool1d(x[0], 3, padding=2),
        lambda x: F.max_pool2d(x, 9),
        lambda x: F.max_pool2d(x, (2, 2, 2)),
        lambda x: F.max_pool3d(x, 2, 0),
    ):
        x = torch.randn(1, 1, 4, 4)
        with pytest.raises(Exception) as expected:
            f(x)
        with pytest.raises(type(expected.value)):
            f(x.to("xpu"))


def test_gradient_of_max_pooling_in_bands() -> None:
    """Planes of which several items compute a part each."""
    for dtype, shape in itertools.product(FLOATS, [(1, 1, 300, 260), (1, 2, 9000)]):
        x = torch.randn(shape).to(dtype)
        pool = F.max_pool2d if len(shape) == 4 else F.max_pool1d
        both(lambda t: pool(t, 5, 1, 2, return_indices=True), x, tolerance(dtype))
        both(lambda t: pool(t, 3, 2, 1, 2, return_indices=True), x, tolerance(dtype))
    both(lambda t: F.max_pool3d(t, 3, 1, 1, return_indices=True), torch.randn(1, 1, 60, 40, 41))
    both(lambda t: F.max_pool3d(t, 3, 1, 1, return_indices=True), torch.randn(1, 1, 20, 40, 41).bfloat16(), 3e-2)
