"""States that a stream's queue is in, as docs/threads.md names them. Their table alone: tests/build/test_queue.py."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from xpu_ops import _C

pytestmark = [
    pytest.mark.usefixtures("own_stream"),
    pytest.mark.skipif(not _C.host_accessible(0), reason="a queue is closed where the host has no device memory"),
]


def test_work_makes_a_queue_busy_until_a_wait() -> None:
    torch.xpu.synchronize()
    assert _C.queue_state() == "idle"
    torch.rand(30_000_000, device="xpu").exp_()
    assert _C.queue_state() == "busy"
    torch.xpu.synchronize()
    assert _C.queue_state() == "idle"


def test_a_recorder_and_a_profile_are_seen() -> None:
    x = torch.ones(4, device="xpu")
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        assert _C.queue_state() == "recording"
        x.add_(1)
    torch.xpu.synchronize()
    assert _C.queue_state() == "idle"
    with profile(activities=[ProfilerActivity.XPU]):
        torch.xpu.synchronize()
        assert _C.queue_state() == "profiled, idle"
    torch.xpu.synchronize()
    assert _C.queue_state() == "idle"


def test_a_queue_that_left_the_library_stays_shared() -> None:
    assert _C.queue_state() == "idle"
    assert torch.xpu.current_stream().sycl_queue
    torch.xpu.synchronize()
    assert _C.queue_state() == "shared"
