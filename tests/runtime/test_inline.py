"""Small work on the calling thread: only when it cannot be told from work on the queue."""

from __future__ import annotations

import pytest
import torch
from support import script
from support.streams import another_stream

import xpu_ops
from xpu_ops import _C

here = pytest.mark.skipif(not _C.host_accessible(0), reason="nothing runs inline where the host has no device memory")
pytestmark = pytest.mark.usefixtures("own_stream")


@here
def test_ready_only_on_an_idle_queue() -> None:
    xpu_ops.set_inline(True)
    assert _C.inline_ready()
    x = torch.rand(30_000_000, device="xpu")
    for _ in range(5):
        x.exp_().log_()
    assert not _C.inline_ready()
    torch.xpu.synchronize()
    assert _C.inline_ready()
    xpu_ops.set_inline(False)
    assert not _C.inline_ready()


@here
@pytest.mark.parametrize("small", [True, False], ids=["inline", "device"])
def test_order_with_pending_work(small: bool) -> None:
    """A small op after a long kernel sees its result, whichever way it runs, and the next long kernel sees the op's."""
    xpu_ops.set_inline(small)
    x = torch.zeros(3_000_000, device="xpu")
    for step in range(30):
        x.add_(1)
        head = x[-4:] * 2
        assert head.tolist() == [2.0 * (step + 1)] * 4
        x[-4:].copy_(head / 2)
    y = torch.zeros(3_000_000, device="xpu")
    for _ in range(20):
        y.add_(1)
        y[:3].mul_(2)
    expected = 0.0
    for _ in range(20):
        expected = (expected + 1) * 2
    assert y[:3].tolist() == [expected] * 3
    assert y[3].item() == 20.0


@here
def test_another_stream_waits_for_its_event() -> None:
    xpu_ops.set_inline(True)
    other = another_stream()
    for step in range(20):
        x = torch.zeros(3_000_000, device="xpu")
        x.add_(step)
        other.wait_stream(torch.xpu.current_stream())
        with torch.xpu.stream(other):
            y = x[-2:] + 1
        torch.xpu.current_stream().wait_stream(other)
        z = y * 2
        assert z.tolist() == [2.0 * (step + 1)] * 2


@here
def test_a_recording_graph_records_small_work() -> None:
    xpu_ops.set_inline(True)
    x = torch.ones(8, device="xpu")
    y = torch.zeros(8, device="xpu")
    y.add_(x)
    torch.xpu.synchronize()
    graph = torch.xpu.XPUGraph()
    with torch.xpu.graph(graph):
        y.add_(x)
    y.zero_()
    graph.replay()
    graph.replay()
    torch.xpu.synchronize()
    assert y.tolist() == [2.0] * 8


@here
def test_a_queue_that_left_the_library_runs_nothing_inline() -> None:
    code = """
        import torch
        from xpu_ops import _C
        torch.zeros(1, device="xpu")
        torch.xpu.synchronize()
        before = _C.inline_ready()
        torch.xpu.current_stream().sycl_queue
        print(before, _C.inline_ready())
    """
    assert script.out(code) == "True False"


def test_nothing_runs_inline_in_discrete_mode_or_when_turned_off() -> None:
    code = """
        import torch
        from xpu_ops import _C
        x = torch.ones(4, device="xpu")
        torch.xpu.synchronize()
        print(_C.inline_ready(), (x + 1).tolist())
    """
    assert script.out(code, XPU_OPS_DISCRETE="1") == "False [2.0, 2.0, 2.0, 2.0]"
    assert script.out(code, XPU_OPS_INLINE="0") == "False [2.0, 2.0, 2.0, 2.0]"


@here
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.bool]
)
def test_same_values_as_the_device(dtype: torch.dtype) -> None:
    """One expression, two compilers: the same bits, whatever the layout and the kinds of operands."""
    x = (torch.arange(-60, 60) / 7).to(dtype).reshape(2, 3, 20).to("xpu")
    y = (torch.arange(0, 120) % 5 + 1).to(dtype).reshape(20, 3, 2).permute(2, 1, 0).to("xpu")

    def results() -> list[torch.Tensor]:
        out = [
            x * y,
            x[..., ::2] * y[..., 1::2],
            x.expand(4, 2, 3, 20)[:, 0] == y[1],
            torch.where(x > 1, x, y),
            x > 0.5,
        ]
        out += [
            x.to(torch.float32) + 1.5,
            x[0, :, :1] * y[1],
            torch.maximum(x, y),
            x.t() if x.dim() == 2 else x.clone(),
        ]
        if dtype != torch.bool:
            out += [x + 2 * y, x - 3, -x, x.abs(), x.clamp(-2, 3), torch.relu(x), x.square(), torch.add(x, y, alpha=3)]
        return [r.cpu() for r in out]

    xpu_ops.set_inline(False)
    device = results()
    xpu_ops.set_inline(True)
    torch.xpu.synchronize()
    assert _C.inline_ready()
    for a, b in zip(results(), device, strict=True):
        assert a.dtype == b.dtype and a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@here
def test_half_rounds_alike() -> None:
    """Both directions of every f16 value, and of every f32 value around those that the f16 grid has to round."""
    f16 = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.float16)
    near = [-0x1001, -0x1000, -0xFFF, -1, 0, 1, 0xFFF, 0x1000, 0x1001]
    around = (f16.float().view(torch.int32)[:, None] + torch.tensor(near, dtype=torch.int32)).view(torch.float32)
    for values, to in ((f16, torch.float32), (around.flatten(), torch.float16)):
        want = values.to(to)
        for small in (False, True):
            xpu_ops.set_inline(small)
            chunks = [c.to("xpu").to(to).cpu() for c in values.split(2048)]
            torch.testing.assert_close(torch.cat(chunks), want, rtol=0, atol=0, equal_nan=True)
            products = [(c.to("xpu") * 1).cpu() for c in f16.split(2048)]
            torch.testing.assert_close(torch.cat(products), f16, rtol=0, atol=0, equal_nan=True)


def test_backward_in_the_calling_thread() -> None:
    """On a CPU device, unless switched off; a nested backward works in both."""
    code = """
        import threading
        import torch
        from torch.utils.checkpoint import checkpoint
        threads = []
        x = torch.ones(4, device="xpu", requires_grad=True)
        x.register_hook(lambda grad: threads.append(threading.get_ident()))
        checkpoint(lambda t: (t * t).exp(), x, use_reentrant=True).sum().backward()
        print(threads == [threading.get_ident()], x.grad.tolist() == [2 * torch.ones(()).exp().item()] * 4)
    """
    assert script.out(code) == "True True"
    assert script.out(code, XPU_OPS_INLINE="0") == "False True"
