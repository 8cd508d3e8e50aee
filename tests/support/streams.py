"""Streams for tests."""

from __future__ import annotations

import torch


def another_stream() -> torch.xpu.Stream:
    """A stream of the pool that is not the current one: the pool's 32, handed out in turn, include the default stream."""
    s = torch.xpu.Stream()
    return s if s != torch.xpu.current_stream() else torch.xpu.Stream()
