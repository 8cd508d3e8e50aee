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
