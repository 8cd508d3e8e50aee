"""What tests of the runtime share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import xpu_ops
from xpu_ops import _C


@pytest.fixture
def own_stream() -> Iterator[None]:
    """A stream whose queue no other test of this process has taken out of the library."""
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(True)
    for _ in range(32):
        with torch.xpu.stream(torch.xpu.Stream()):
            if _C.inline_ready() or not _C.host_accessible(0):
                yield
                break
    else:
        raise AssertionError("no idle stream of the pool allows inline work")
    xpu_ops.set_inline(before)
    torch.xpu.synchronize()
