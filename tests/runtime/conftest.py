"""Fixtures of the runtime's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

import xpu_ops
from xpu_ops import _C

# It needs an environment of several GB, which CI has not.
collect_ignore = [] if os.environ.get("XPU_OPS_CUDA_TORCH_PYTHON") else ["test_cuda_build.py"]


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
