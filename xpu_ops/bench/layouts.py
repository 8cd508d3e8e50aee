"""Copies between layouts, and arithmetic on operands of two layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from .core import Case

SECTION = "layouts"
_ORDERS = ((0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0), (2, 3, 0, 1), (1, 0, 3, 2), (0, 1, 3, 2))
_LAST = torch.channels_last


def cases() -> Iterator[Case]:
    """Elements of 1, 2, 4 and 8 bytes in every layout; the bytes of a row are those of its result, read and written."""
    for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.float64):
        kind = str(dtype).removeprefix("torch.")

        def row(name: str, function: Callable[..., Any], x: torch.Tensor, kind: str = kind) -> Case:
            moved = 2 * function(x).numel() * x.element_size()
            return Case(SECTION, f"{name} {kind}", function, (x,), bytes_moved=moved)

        def full(*sizes: int, dtype: torch.dtype = dtype) -> torch.Tensor:
            return (torch.rand(sizes) * 200).to(dtype)

        yield row("transposed 1000x777", lambda t: t.t().contiguous(), full(1000, 777))
        for order in _ORDERS:
            name = "permuted " + "".join(map(str, order))
            yield row(name, lambda t, order=order: t.permute(order).contiguous(), full(8, 32, 48, 64))
        for sizes in ((8, 64, 56, 56), (4, 3, 224, 224), (4, 512, 7, 7)):
            shape, x = "x".join(map(str, sizes)), full(*sizes)
            yield row(f"nchw to nhwc {shape}", lambda t: t.contiguous(memory_format=_LAST), x)
            yield row(f"nhwc to nchw {shape}", lambda t: t.contiguous(), x.contiguous(memory_format=_LAST))
        yield row("every second column", lambda t: t[:, ::2].contiguous(), full(1024, 1024))
        yield row("expanded column", lambda t: t.expand(1024, 1024).contiguous(), full(1024, 1))
    for dtype in (torch.bfloat16, torch.float32):
        kind = str(dtype).removeprefix("torch.")
        a = torch.rand(8, 64, 56, 56).to(dtype)
        b, square = a.contiguous(memory_format=_LAST), torch.rand(2048, 2048).to(dtype)
        heads = torch.rand(8, 12, 128, 64).to(dtype)
        for name, x, y in (
            ("nchw + nhwc", a, b),
            ("nhwc + nchw", b, a),
            ("transposed + dense 2048", square.t(), square),
            ("dense + transposed 2048", square, square.t()),
            ("tokens + heads", heads.transpose(1, 2).contiguous().transpose(1, 2), heads),
        ):
            yield Case(SECTION, f"{name} {kind}", torch.add, (x, y), bytes_moved=3 * x.numel() * x.element_size())
