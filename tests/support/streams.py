"""Streams for tests."""

from __future__ import annotations

import torch


def another_stream() -> torch.xpu.Stream:
    """A stream of the pool that is not the current one: the pool's 32, handed out in turn, include the default stream."""
    s = torch.xpu.Stream()
    return s if s != torch.xpu.current_stream() else torch.xpu.Stream()


def slow_task() -> None:
    """Puts work of some ten milliseconds on the current stream; what follows must wait for it by its order alone."""
    x = torch.ones(1 << 22, device="xpu")
    for _ in range(4):
        x = torch.sin(x)
