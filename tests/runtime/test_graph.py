"""XPUGraph: record once, replay, memory of its own, refusals."""

from __future__ import annotations

import pytest
import torch

import xpu_ops


def capture(work, **kwargs) -> torch.xpu.XPUGraph:
    g = torch.xpu.XPUGraph(**kwargs)
    with torch.xpu.graph(g):
        assert torch.xpu.is_current_stream_capturing()
        work()
    assert not torch.xpu.is_current_stream_capturing()
    return g


@pytest.fixture
def buffers():
    a = torch.zeros(1000, device="xpu")
    b = torch.empty(1000, device="xpu")
    b.copy_(a)  # loads the kernels, which a recording cannot
    torch.xpu.synchronize()
    return a, b


def test_replay_sees_new_inputs(buffers):
    a, b = buffers
    g = capture(lambda: b.copy_(a))
    for value in (1.0, 2.0):
        a.fill_(value)
        b.zero_()
        g.replay()
        assert b.cpu().eq(value).all()


def test_recording_does_not_execute(buffers):
    a, b = buffers
    b.fill_(5)
    a.fill_(6)
    g = capture(lambda: b.copy_(a))
    torch.xpu.synchronize()
    assert b.cpu().eq(5).all()
    g.replay()
    assert b.cpu().eq(6).all()


def test_memory_belongs_to_the_graph(buffers):
    a, _ = buffers
    made = []
    g = capture(lambda: made.append(torch.empty_like(a).copy_(a)))
    pool = g.pool()
    assert any(s["segment_pool_id"] == pool for s in torch.xpu.memory_snapshot(pool))
    others = [torch.empty_like(a) for _ in range(10)]
    a.fill_(3)
    g.replay()
    assert made[0].cpu().eq(3).all()
    assert made[0].data_ptr() not in {t.data_ptr() for t in others}


def test_keep_graph(buffers, tmp_path):
    a, b = buffers
    g = capture(lambda: b.copy_(a), keep_graph=True)
    assert g.raw_xpu_graph() != 0
    with pytest.raises(RuntimeError, match="instantiated"):
        g.raw_xpu_graph_exec()
    g.instantiate()
    assert g.raw_xpu_graph_exec() != 0
    g.debug_dump(str(tmp_path / "graph.dot"))
    a.fill_(4)
    g.replay()
    assert b.cpu().eq(4).all()
    g.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_refusals(buffers):
    a, b = buffers
    g = torch.xpu.XPUGraph()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()
    g = capture(lambda: b.copy_(a))
    with pytest.raises(RuntimeError, match="already owns a captured graph"):
        g.capture_begin()

    def draw() -> None:
        with pytest.raises(RuntimeError, match="Random numbers cannot be captured"):
            xpu_ops._C.reserve_philox(None, 4)

    capture(draw)
