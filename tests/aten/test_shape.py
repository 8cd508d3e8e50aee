"""Operators that rearrange elements whose arguments hang on each other: gradients of pads, col2im, against the CPU."""

from __future__ import annotations

import pytest
import torch
from aten_data import data, same

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
ATEN = torch.ops.aten
PADS = {
    "reflection_pad1d_backward": ((2, 3, 7), [3, 2]),
    "reflection_pad2d_backward": ((2, 3, 5, 6), [2, 1, 0, 3]),
    "reflection_pad3d_backward": ((2, 3, 4, 5, 6), [2, 1, 0, 3, 1, 1]),
    "replication_pad1d_backward": ((2, 3, 7), [3, 9]),
    "replication_pad2d_backward": ((2, 3, 5, 6), [2, 1, 0, 3]),
    "replication_pad3d_backward": ((2, 3, 4, 5, 6), [2, 1, 0, 3, 1, 1]),
}
# Lines longer than a vector, paddings that cut, and that are as long as they may be.
LONG_PADS = {
    "reflection_pad1d": ((2, 3, 67), [(5, 20), (66, 66), (0, 0), (-3, 4)]),
    "reflection_pad2d": ((2, 3, 9, 50), [(3, 1, 2, 8), (49, 49, 0, 1)]),
    "replication_pad1d": ((2, 3, 67), [(5, 20), (100, 70), (-3, 4), (4, -60), (10, -70), (-70, 80)]),
    "replication_pad2d": ((2, 3, 9, 50), [(3, 1, 2, 8), (-20, 30, -3, 1)]),
    "replication_pad3d": ((2, 3, 4, 5, 37), [(3, 1, 2, 1, 1, 2)]),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PADS)
def test_pad_gradients(name: str, dtype: torch.dtype) -> None:
    shape, padding = PADS[name]
    op = getattr(ATEN, name)
    spatial = len(padding) // 2
    padded = [n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(reversed(shape[-spatial:]))][::-1]
    for batch in ((2, 3), (3,)):
        x, grad = data(*batch, *shape[2:], dtype=dtype), data(*batch, *padded, dtype=dtype, seed=1)
        same(op, grad, x, padding)
        out = torch.empty(0, dtype=dtype)
        same(lambda g, x, o, op=op, padding=padding: op.grad_input(g, x, padding, grad_input=o), grad, x, out)
        same(op, grad.transpose(-1, -2).contiguous().transpose(-1, -2), x, padding)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LONG_PADS)
def test_pads_of_long_lines(name: str, dtype: torch.dtype) -> None:
    shape, paddings = LONG_PADS[name]
    for padding in paddings:
        x = data(*shape, dtype=dtype)
        same(getattr(ATEN, name), x, padding)
        grad = data(*getattr(ATEN, name)(x, padding).shape, dtype=dtype, seed=1)
        same(getattr(ATEN, f"{name}_backward"), grad, x, padding)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unfold_of_long_lines(dtype: torch.dtype) -> None:
    for kernel, dilation, padding, stride in (
        ([3, 3], [1, 1], [1, 1], [1, 1]),
        ([2, 3], [2, 7], [0, 9], [2, 1]),
        ([3, 4], [1, 2], [2, 3], [1, 2]),
        ([1, 2], [1, 30], [0, 30], [1, 1]),  # lines of which nothing is inside
    ):
        x = data(2, 3, 7, 41, dtype=dtype)
        columns = ATEN.im2col(x, kernel, dilation, padding, stride)
        same(ATEN.im2col, x, kernel, dilation, padding, stride)
        same(ATEN.col2im, data(*columns.shape, dtype=dtype, seed=2), [7, 41], kernel, dilation, padding, stride)


def test_unfold_backward() -> None:
    for size, step in ((4, 2), (3, 5), (7, 1), (1, 1)):
        for dim in (0, 1):
            x = data(60, 37)
            same(ATEN.unfold_backward, data(*x.unfold(dim, size, step).shape), [60, 37], dim, size, step)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex128], ids=str)
def test_lines_of_a_copy(dtype: torch.dtype) -> None:
    """Results that are contiguous where the source is not: backwards, by steps, of two dimensions."""
    x = data(3, 5, 70, 90, dtype=dtype)
    for f in (
        lambda t: t.flip(-1),
        lambda t: t.flip(0, 2),
        lambda t: t.flip(0, 1, 2, 3),
        lambda t: t.rot90(1, (2, 3)),
        lambda t: t.rot90(3, (2, 3)),
        lambda t: t[..., ::3].contiguous(),
        lambda t: t.unfold(3, 4, 2).contiguous(),
        lambda t: t.view(3, 5, 35, 2, 30, 3).permute(0, 1, 3, 5, 2, 4).contiguous(),
        lambda t: t.view(3, 5, 35, 2, 30, 3).permute(2, 0, 4, 1, 3, 5).contiguous(),
        lambda t: t.permute(0, 2, 3, 1).contiguous(),
        lambda t: t.flip(1).permute(0, 2, 3, 1).contiguous(),
    ):
        same(f, x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_col2im(dtype: torch.dtype) -> None:
    for kernel, dilation, padding, stride in (
        ([2, 3], [1, 1], [0, 0], [1, 1]),
        ([3, 2], [1, 2], [2, 1], [2, 1]),
        ([1, 1], [1, 1], [0, 0], [3, 2]),
    ):
        size = [8, 9]
        blocks = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
        ]
        columns = data(2, 4 * kernel[0] * kernel[1], blocks[0] * blocks[1], dtype=dtype)
        for x in (columns, columns[0]):
            same(ATEN.col2im, x, size, kernel, dilation, padding, stride)
            out = torch.empty(0, dtype=dtype)
            same(lambda x, o, rest=(size, kernel, dilation, padding, stride): ATEN.col2im.out(x, *rest, out=o), x, out)
