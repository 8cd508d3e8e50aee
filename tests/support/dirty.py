"""Memory of the device that is not zero: most of what a fresh process gets is, and hides what an operator does not write."""

from __future__ import annotations

import torch


def dirty_memory() -> None:
    """Fill free memory, which the next allocations get, with bytes 0xff: NaN, -1, 255."""
    blocks = [torch.full((1 << size,), 0xFF, dtype=torch.uint8, device="xpu") for size in (20, 19, 18, 16, 14, 12)]
    del blocks
