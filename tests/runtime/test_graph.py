"""XPUGraph: record once, replay, memory of its own, refusals."""

from __future__ import annotations

import copy

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
        with pytest.raises(RuntimeError, match="random numbers cannot be captured"):
            xpu_ops._C.reserve_philox(None, 4)

    capture(draw)


def works(*streams: torch.xpu.Stream) -> None:
    """The device and the streams do what they should after a capture, and no stream records any more."""
    torch.xpu.synchronize()
    for stream in (torch.xpu.current_stream(), *streams):
        with torch.xpu.stream(stream):
            assert not torch.xpu.is_current_stream_capturing()
            for n in (3, 300000):  # on the calling thread, on the device
                assert (torch.ones(n, device="xpu") + 1).cpu().eq(2).all()
            a = torch.randn(64, 64, device="xpu")
            torch.testing.assert_close((a @ a).cpu(), a.cpu() @ a.cpu())
    torch.xpu.synchronize()


def linear() -> tuple[torch.nn.Linear, torch.Tensor]:
    return torch.nn.Linear(8, 8).to("xpu"), torch.randn(4, 8, device="xpu", requires_grad=True)


def test_graphed_callable():
    """Forward and backward by replay. Backward waits for recorded events on the streams of the warm-up, which then record."""
    module, x = linear()
    plain = copy.deepcopy(module)
    graphed = torch.xpu.make_graphed_callables(module, (x,))
    works()
    for _ in range(3):
        sample = torch.randn_like(x).requires_grad_()
        expected = sample.detach().clone().requires_grad_()
        plain.zero_grad()
        module.zero_grad()
        plain(expected).square().sum().backward()
        y = graphed(sample)
        y.square().sum().backward()
        torch.testing.assert_close(y, plain(expected))
        torch.testing.assert_close(sample.grad, expected.grad)
        for ours, theirs in zip(module.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    works()


def test_a_stream_that_joins_a_capture_leaves_it_too(buffers):
    """It records from its first wait for a recorded event on, and its small work too: nothing runs inline."""
    a, b = buffers
    side = torch.xpu.Stream()
    a.fill_(1)
    b.zero_()
    torch.xpu.synchronize()
    g = torch.xpu.XPUGraph()
    with torch.xpu.graph(g):
        a.add_(1)
        main = torch.xpu.current_stream()
        side.wait_stream(main)
        with torch.xpu.stream(side):
            assert torch.xpu.is_current_stream_capturing()
            b.copy_(a)
        main.wait_stream(side)
    works(side)
    assert a.cpu().eq(1).all()
    assert b.cpu().eq(0).all()
    g.replay()
    assert b.cpu().eq(2).all()


def moved() -> torch.Tensor:
    return torch.ones(2, 16, 32).to("xpu")


@pytest.mark.parametrize("work", [moved, lambda: torch.ones(3, device="xpu").sum().item()])
def test_a_capture_that_fails_leaves_the_device_usable(work):
    if torch.xpu.get_device_properties().type != "cpu":
        pytest.skip("a GPU captures these")
    work()  # loads kernels, creates primitives, packs weights
    g = torch.xpu.XPUGraph()
    stream = torch.xpu.current_stream()
    with pytest.raises(RuntimeError, match="cannot be captured in an XPU graph by xpu_ops"), torch.xpu.graph(g):
        work()
    assert torch.xpu.current_stream() == stream
    works(torch.xpu.graph.default_capture_stream)
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.pool()
    work()
    a = torch.ones(5, device="xpu")
    again = capture(lambda: a.add_(1))
    again.replay()
    assert a.cpu().eq(2).all()
