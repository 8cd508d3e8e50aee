"""Work of the host in order with the kernels of the CPU device: primitives of oneDNN, and what is small."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from support import script
from support.streams import another_stream, slow_task

pytestmark = pytest.mark.skipif(
    torch.xpu.get_device_properties().type != "cpu", reason="primitives on a GPU are kernels"
)

ROWS = 192  # more than the kernels for few rows take


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    return torch.randn(ROWS, 512, generator=g), torch.randn(512, 512, generator=g) / 16


def on_device(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.to("xpu") for t in tensors]


def test_the_host_does_not_wait_and_events_stand_behind() -> None:
    """In a process of its own: a queue that another test has shared takes no native tasks."""
    out = script.out(
        """
        import torch
        g = torch.Generator().manual_seed(3)
        a, b = torch.randn(192, 512, generator=g), torch.randn(512, 512, generator=g) / 16
        x, y, big, side = a.to("xpu"), b.to("xpu"), torch.ones(1 << 22, device="xpu"), torch.xpu.Stream()

        def pending(timing):
            # A busy machine may take a turn to see a product that is not done.
            for _ in range(20):
                torch.xpu.synchronize()
                begin, end = torch.xpu.Event(enable_timing=timing), torch.xpu.Event(enable_timing=timing)
                begin.record()
                big.sin().sin().sin().sin()
                c = x @ y
                waited = torch.xpu.current_stream().query()
                end.record()
                if not waited and not end.query():
                    return begin, end, c
            raise AssertionError("the host waited each time")

        for timing in (False, True):
            begin, end, c = pending(timing)
            with torch.xpu.stream(side):
                end.wait()
                d = c + 1
            c.record_stream(side)
            side.synchronize()
            assert end.query()
            torch.testing.assert_close(d.cpu(), a @ b + 1)
            if timing:
                end.synchronize()
                assert begin.elapsed_time(end) > 1
        print("right")
        """
    )
    assert out == "right"


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


@pytest.mark.usefixtures("own_stream")
def test_small_work_behind_kernels_has_their_order() -> None:
    """Between kernels, products and copies; more pieces than a batch has room for."""
    a, b = operands()
    x, y = on_device(a, b)
    row, there = torch.arange(512.0), torch.arange(512.0, device="xpu")
    slow_task()
    for i in range(30):
        x, a = (x @ y + there).tanh(), (a @ b + row).tanh()  # a primitive, and kernels
        for _ in range(20):
            there, row = there.roll(1) * 0.5 + x[0], row.roll(1) * 0.5 + a[0]
        if i == 15:
            torch.testing.assert_close(there.cpu(), row, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(there.cpu(), row, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(x.cpu(), a, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("own_stream")
def test_small_work_in_memory_that_was_freed() -> None:
    """Each result takes the block of one that the host has dropped before it was computed."""
    slow_task()
    results = []
    for i in range(2000):
        x = torch.full((300,), float(i), device="xpu")
        x = (x + 1) * 2
        if i % 50 == 0:
            results.append(x - i)
    assert [r.mean().item() for r in results] == [i + 2.0 for i in range(0, 2000, 50)]


@pytest.mark.usefixtures("own_stream")
def test_small_work_reports_bad_indices() -> None:
    x, index = torch.arange(10.0, device="xpu"), torch.tensor([3, 12], device="xpu")
    slow_task()
    y = x[index]
    with pytest.raises(IndexError, match="index 12 is out of bounds"):
        torch.xpu.synchronize()
    assert y[0].item() == 3


@pytest.mark.usefixtures("own_stream")
def test_events_stand_behind_small_work() -> None:
    other = another_stream()
    x = torch.zeros(100, device="xpu")
    slow_task()
    for _ in range(100):
        x += 1
    done = torch.xpu.Event()
    done.record()
    x += 1
    with torch.xpu.stream(other):
        done.wait()
        seen = x.clone()
    x.record_stream(other)
    other.synchronize()
    assert seen.cpu().min() >= 100
    assert x.cpu().eq(101).all()


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
