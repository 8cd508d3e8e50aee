"""Several threads on one device: what docs/threads.md promises them."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import script
from support.streams import another_stream

PROGRAM = Path(__file__).parents[1] / "support" / "thread_stress.py"
SETTINGS = {
    "inline": {"XPU_OPS_INLINE": "1"},
    "launched": {"XPU_OPS_INLINE": "0"},
    "discrete": {"XPU_OPS_DISCRETE": "1"},
    "poison": {"XPU_OPS_POISON": "1"},
}
SECONDS = 3.0  # of each setting
LONG_SECONDS = 1800.0 / len(SETTINGS)
START_S = 300.0  # for a process to start and to compute what is expected, on a busy machine


def stress(seconds: float, *arguments: str, **env: str) -> None:
    clean = {k: v for k, v in os.environ.items() if not any(k in s for s in SETTINGS.values())}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--seconds", str(seconds), *arguments],
        env={**clean, **env}, capture_output=True, text=True, timeout=seconds + START_S,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def run_threads(count: int, work: Callable[[int], None]) -> list[Exception]:
    """Run work(number) in so many threads on the current stream, all at once. Returns what they raised."""
    stream = torch.xpu.current_stream()
    start = threading.Barrier(count)
    raised: list[Exception] = []

    def run(number: int) -> None:
        with torch.xpu.stream(stream):
            start.wait()
            try:
                work(number)
            except Exception as e:
                raised.append(e)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    return raised


def test_small_work_of_eight_threads_on_the_default_stream() -> None:
    """A decision on an idle queue must still hold when the result has its memory and is written."""
    stress(5.0, "--threads", "8", "--streams", "default", "--cases", "issue", "large", XPU_OPS_INLINE="1")


def test_primitives_stand_behind_kernels_while_others_wait() -> None:
    """sycl::queue::wait() of one thread makes the queue forget the kernel that another has just launched."""
    stress(6.0, "--threads", "4", "--streams", "random", "--cases", "attention", XPU_OPS_INLINE="0")


@pytest.mark.parametrize(
    "setting", [pytest.param(s, marks=() if s in ("inline", "launched") else pytest.mark.slow) for s in SETTINGS]
)
def test_all_families_beside_each_other(setting: str) -> None:
    stress(SECONDS, **SETTINGS[setting])


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_all_families_beside_each_other_for_long(setting: str) -> None:
    stress(LONG_SECONDS, **SETTINGS[setting])


@pytest.mark.usefixtures("own_stream")
def test_updates_of_one_tensor_are_not_lost() -> None:
    """Each operator is one command of the queue, whether it is launched or runs on the calling thread."""
    steps, count = 1000, 4
    x = torch.zeros(4096, device="xpu")
    y = torch.zeros(200_000, device="xpu")
    torch.xpu.synchronize()

    def work(number: int) -> None:
        for step in range(steps):
            x.add_(1)
            if number == 0 and step % 50 == 0:
                y.add_(x[0])

    assert not run_threads(count, work)
    assert x.tolist() == [float(steps * count)] * 4096


@pytest.mark.usefixtures("own_stream")
def test_a_read_sees_no_half_of_a_write() -> None:
    x = torch.zeros(4096, device="xpu")
    torch.xpu.synchronize()
    done = threading.Event()
    torn: list[tuple[float, float]] = []

    def work(number: int) -> None:
        if number == 0:
            for step in range(3000):
                x.fill_(step)
            done.set()
        else:
            while not done.is_set():
                found = x.cpu()
                if (found != found[0]).any():
                    torn.append((found.min().item(), found.max().item()))

    assert not run_threads(2, work)
    assert not torn


@pytest.mark.parametrize("streams", ["one", "two"])
def test_memory_goes_from_thread_to_thread(streams: str) -> None:
    """A thread frees what another has made, with and without a stream of its own."""
    count, items = 4, 150
    handed: queue.Queue[tuple[int, torch.Tensor, torch.xpu.Event] | None] = queue.Queue(maxsize=8)
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.xpu.stream(another_stream() if streams == "two" else torch.xpu.current_stream()):
            if number % 2:
                for item in range(items):
                    value = number * items + item
                    t = torch.full((50, 50 + 400 * (item % 3)), float(value), device="xpu") + 1
                    handed.put((value, t, torch.xpu.current_stream().record_event()))
                handed.put(None)
                return
            while (got := handed.get()) is not None:
                value, t, event = got
                torch.xpu.current_stream().wait_event(event)
                t.record_stream(torch.xpu.current_stream())
                doubled = t * 2
                del t, got
                if not bool((doubled == 2.0 * (value + 1)).all()):
                    wrong.append(value)

    assert not run_threads(count, work)
    assert not wrong


def test_backward_of_several_threads_into_one_leaf() -> None:
    count, steps = 4, 20
    leaf = torch.ones(40, 30, device="xpu", requires_grad=True)
    factors = [torch.full((40, 30), float(number + 1), device="xpu") for number in range(count)]
    torch.xpu.synchronize()

    def work(number: int) -> None:
        for _ in range(steps):
            ((leaf * factors[number]).relu() + leaf).sum().backward()

    assert not run_threads(count, work)
    assert leaf.grad is not None
    assert leaf.grad.unique().tolist() == [float(steps * sum(number + 2 for number in range(count)))]


def test_an_error_of_a_kernel_is_raised_once() -> None:
    """The record of a device is one for all threads: whoever waits first raises it, and nobody raises it again."""
    values = torch.arange(10.0, device="xpu")
    for bad in range(200, 260):
        values.index_select(0, torch.tensor([bad], device="xpu"))
        raised = run_threads(6, lambda number: torch.xpu.synchronize())
        assert [type(e) for e in raised] == [IndexError], raised


def test_tied_generators_give_different_numbers() -> None:
    first = torch.Generator("xpu").manual_seed(5)
    second = torch.Generator("xpu")
    second.graphsafe_set_state(first)
    torch.rand(4, device="xpu", generator=first)
    each, draws = first.get_offset(), 2000

    def work(number: int) -> None:
        out = torch.empty(4, device="xpu")
        for _ in range(draws):
            out.uniform_(generator=(first, second)[number])

    assert not run_threads(2, work)
    assert first.get_offset() == second.get_offset() == each * (2 * draws + 1)


def test_modules_are_loaded_by_several_threads() -> None:
    code = """
        import threading
        import torch
        functions = (torch.erfinv, torch.digamma, torch.msort)
        x = torch.linspace(0.1, 0.9, 100)
        wanted = [f(x) for f in functions]
        start = threading.Barrier(8)
        right = []
        def work():
            start.wait()
            y = x.to("xpu")
            right.extend(torch.allclose(f(y).cpu(), want, rtol=1e-4) for f, want in zip(functions, wanted))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(right.count(True))
    """
    assert script.out(code) == "24"
