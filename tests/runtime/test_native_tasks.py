"""Primitives of oneDNN on the CPU device: work of the host in order with kernels, which nobody waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest
import torch
from support import script
from support.streams import another_stream, slow_task

pytestmark = pytest.mark.skipif(
    torch.xpu.get_device_properties().type != "cpu", reason="primitives on a GPU are kernels"
)

T = TypeVar("T")
ROWS = 192  # more than the kernels for few rows take


def operands(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, 512, generator=g, dtype=dtype), torch.randn(512, 512, generator=g, dtype=dtype) / 16


def on_device(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.to("xpu") for t in tensors]


def seen_pending(work: Callable[[], T], done: Callable[[T], bool]) -> T:
    """The result of work put behind a slow kernel, while it was not done yet: a busy machine may take a turn to see that."""
    for _ in range(20):
        torch.xpu.synchronize()
        slow_task()
        result = work()
        if not done(result):
            return result
    raise AssertionError("the host waited each time")


def test_the_host_does_not_wait_for_a_product() -> None:
    a, b = on_device(*operands())
    c = seen_pending(lambda: a @ b, lambda _: torch.xpu.current_stream().query())
    torch.testing.assert_close(c.cpu(), operands()[0] @ operands()[1])
    assert torch.xpu.current_stream().query()


def test_products_stand_between_kernels() -> None:
    """A chain of more products than may be in flight, each between two kernels."""
    a, b = operands()
    b = b / 4  # a chain that forgets errors
    bias = a
    x, y = on_device(a, b)
    there = x
    for _ in range(150):
        a, x = (a @ b).tanh() + bias, (x @ y).tanh() + there
    torch.testing.assert_close(x.cpu(), a, rtol=1e-4, atol=1e-4)


def test_an_event_stands_behind_a_product() -> None:
    a, b = on_device(*operands())
    side = another_stream()
    for timing in (False, True):
        begin = torch.xpu.Event(enable_timing=timing)
        begin.record()

        def marked(timing: bool = timing) -> tuple[torch.Tensor, torch.xpu.Event]:
            c, event = a @ b, torch.xpu.Event(enable_timing=timing)
            event.record()
            return c, event

        c, event = seen_pending(marked, lambda pair: pair[1].query())
        with torch.xpu.stream(side):
            event.wait()
            d = c + 1
        c.record_stream(side)
        side.synchronize()
        assert event.query()
        torch.testing.assert_close(d.cpu(), operands()[0] @ operands()[1] + 1)
        if timing:
            event.synchronize()
            assert begin.elapsed_time(event) > 1


def test_memory_of_a_product_in_flight_is_reused_in_order() -> None:
    """Operands that are freed while the product waits, and memory that the next operator gets."""
    a, b = operands()
    x, y = on_device(a, b)
    slow_task()
    results = []
    for i in range(20):
        results.append((x + i) @ (y * 2))
        torch.full_like(x, float("nan"))
    for i, r in enumerate(results):
        torch.testing.assert_close(r.cpu(), (a + i) @ (b * 2), rtol=1e-4, atol=1e-3)


def test_a_shared_queue_and_a_pause_take_none() -> None:
    """Others, and host tasks of SYCL, whose ends the queue does not know: the product is waited for."""
    a, b = on_device(*operands())
    s = another_stream()
    with torch.xpu.stream(s):
        torch._C._xpu_sleep(50_000_000)
        late = (a + 1) @ b
    torch.testing.assert_close(late.cpu(), (operands()[0] + 1) @ operands()[1])
    out = script.out(
        """
        import torch
        a, b = torch.randn(192, 512, device="xpu"), torch.randn(512, 512, device="xpu")
        before = a @ b
        torch.xpu.current_stream().sycl_queue
        c = a @ b
        print(torch.xpu.current_stream().query(), torch.equal(before, c))
        """
    )
    assert out == "True True"


def test_the_same_bits_as_host_tasks() -> None:
    code = """
        import torch
        torch.manual_seed(0)
        x, w = torch.randn(4, 16, 24, 24, device="xpu"), torch.randn(32, 16, 3, 3, device="xpu")
        y = torch.conv2d(x, w).relu()
        z = y.flatten(1) @ torch.randn(y[0].numel(), 48, device="xpu")
        print(z.double().sum().item().hex(), z.view(torch.int32).long().sum().item())
        """
    assert script.out(code, XPU_OPS_NATIVE_TASKS="0") == script.out(code)


def test_threads_with_one_queue() -> None:
    a, b = operands()
    x, y = on_device(a, b)
    expected = [((a + i) @ b).relu() for i in range(4)]
    wrong = []
    end = time.monotonic() + 1.5

    def work(i: int) -> None:
        while time.monotonic() < end:
            if not torch.allclose(((x + i) @ y).relu().cpu(), expected[i], rtol=1e-4, atol=1e-3):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
