"""Streams and events: the pool, ordering, timing, reuse of freed memory across streams and threads."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from support import script
from support.streams import another_stream

N = 1 << 21


def busy(seconds: float = 0.05, repeat: int = 1) -> torch.Tensor:
    """Queue work of some duration on the current stream; returns what it writes."""
    a = torch.empty(N, device="xpu")
    b = torch.ones(N, device="xpu")
    for _ in range(max(1, int(seconds * 200)) * repeat):
        a.copy_(b)
    return a


def test_default_stream():
    s = torch.xpu.current_stream()
    assert s == torch.xpu.current_stream(0)
    assert s.device == torch.device("xpu", 0)
    assert s.priority == 0
    assert s.sycl_queue != 0
    assert another_stream() != s


def test_pool_is_32_queues_a_priority_round_robin():
    """In a process of its own: nothing runs inline on a queue that was handed out."""
    script.out("""
        import torch
        handles = [torch.xpu.Stream().sycl_queue for _ in range(64)]
        assert len(set(handles)) == 32
        assert handles[:32] == handles[32:]
        low, high = torch.xpu.Stream.priority_range()
        assert (low, high) == (1, -1)
        other = {torch.xpu.Stream(priority=p).sycl_queue for p in (low, high) for _ in range(32)}
        assert len(other) == 64
        assert not other & set(handles)
    """)


@pytest.mark.parametrize(("asked", "given"), [(-9, -1), (-1, -1), (0, 0), (1, 1), (9, 1)])
def test_priority_is_clamped(asked, given):
    assert torch.xpu.Stream(priority=asked).priority == given


def test_stream_identity():
    s = another_stream()
    same = torch.xpu.Stream(stream_id=s.stream_id, device_index=s.device_index, device_type=s.device_type)
    assert s == same
    assert hash(s) == hash(same)
    assert len({s, same, torch.xpu.Stream()}) == 2
    assert s != object()
    assert hex(s.sycl_queue) in repr(s)
    assert torch.xpu.Stream(device="xpu:0").device_index == 0


def test_context_sets_and_restores():
    before = torch.xpu.current_stream()
    s, t = torch.xpu.Stream(), torch.xpu.Stream()
    with torch.xpu.stream(s):
        assert torch.xpu.current_stream() == s
        with torch.xpu.StreamContext(t):
            assert torch.xpu.current_stream() == t
        assert torch.xpu.current_stream() == s
    with torch.xpu.stream(None):
        assert torch.xpu.current_stream() == before
    assert torch.xpu.current_stream() == before
    torch.xpu.set_stream(s)
    assert torch.xpu.current_stream() == s
    torch.xpu.set_stream(before)


def test_current_stream_is_of_the_thread():
    s = another_stream()
    seen = []
    with torch.xpu.stream(s):
        thread = threading.Thread(target=lambda: seen.append(torch.xpu.current_stream()))
        thread.start()
        thread.join()
    assert seen[0] != s


def test_query_and_synchronize():
    s = another_stream()
    assert s.query()
    with torch.xpu.stream(s):
        x = busy(0.05)
    s.synchronize()
    assert s.query()
    assert x[0].item() == 1
    torch.xpu.synchronize()
    torch.xpu.synchronize(0)
    torch.xpu.synchronize("xpu")


def test_event_before_record():
    e = torch.xpu.Event()
    assert e.query()
    assert e.sycl_event == 0
    e.synchronize()
    assert repr(e) == "torch.xpu.Event(uninitialized)"


def test_event_marks_earlier_work():
    s = another_stream()
    e = torch.xpu.Event()
    with torch.xpu.stream(s):
        x = busy(0.1)
        e.record()
    e.synchronize()
    assert e.query()
    assert e.sycl_event != 0
    assert e.device == torch.device("xpu", 0)
    torch.xpu.current_stream().wait_event(e)
    assert bool((x == 1).all())


def test_waits_order_streams():
    s, t = torch.xpu.Stream(), torch.xpu.Stream()
    x = torch.zeros(N, device="xpu")
    torch.xpu.synchronize()
    for wait in ("event", "stream"):
        with torch.xpu.stream(s):
            busy(0.05)
            x.fill_(3.0)
        if wait == "event":
            t.wait_event(s.record_event())
        else:
            t.wait_stream(s)
        with torch.xpu.stream(t):
            y = x + 1
        t.synchronize()
        assert bool((y == 4).all())
        x.zero_()
        torch.xpu.synchronize()


def test_elapsed_time():
    start, end = torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
    torch.xpu.synchronize()
    shares = []
    for _ in range(3):  # the host's clock also sees what else the machine does
        t0 = time.perf_counter()
        start.record()
        busy(0.2)
        end.record()
        end.synchronize()
        host = (time.perf_counter() - t0) * 1e3
        device = start.elapsed_time(end)
        assert 0 < device <= host * 1.05 + 1
        assert end.elapsed_time(start) == pytest.approx(-device)
        shares.append(device / host)
    assert max(shares) > 0.5


def test_elapsed_time_errors():
    a, b = torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
    a.record()
    with pytest.raises(RuntimeError, match="must be recorded"):
        a.elapsed_time(b)
    c, d = torch.xpu.Event(), torch.xpu.Event()
    c.record()
    d.record()
    d.synchronize()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        c.elapsed_time(d)


def test_elapsed_time_needs_complete_events():
    a, b = torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
    a.record()
    busy(0.4)
    b.record()
    if b.query():
        pytest.skip("the device was faster than the host")
    with pytest.raises(RuntimeError, match="must be completed"):
        a.elapsed_time(b)
    b.synchronize()


def test_generic_stream_and_event():
    s = torch.Stream(device="xpu")
    e1, e2 = torch.Event("xpu", enable_timing=True), torch.Event("xpu", enable_timing=True)
    with s:
        assert torch.accelerator.current_stream() == s
        e1.record()
        busy(0.02)
        e2.record()
    e2.synchronize()
    assert e2.query()
    assert e1.elapsed_time(e2) > 0
    assert s.query()
    assert s.device == torch.device("xpu", 0)
    torch.accelerator.current_stream().wait_event(e2)
    torch.accelerator.current_stream().wait_stream(s)
    torch.accelerator.set_stream(s)
    assert torch.xpu.current_stream().stream_id == s.stream_id
    torch.accelerator.set_stream(torch.xpu.Stream(stream_id=3, device_index=0, device_type=s.device_type))


def test_external_queue():
    # Any queue that lives as long as the stream will do: one of the pool stands in for a foreign one.
    s = another_stream()
    e = torch.xpu.get_stream_from_external(s.sycl_queue)
    assert e != s
    assert e.stream_id == s.sycl_queue
    with torch.xpu.stream(e):
        assert torch.xpu.current_stream() == e
        x = torch.full((N,), 2.0, device="xpu")
    e.synchronize()
    assert bool((x == 2).all())
    with pytest.raises(RuntimeError, match="null pointer"):
        torch.xpu.get_stream_from_external(0)


def test_invalid_stream_id():
    device_type = torch.xpu.Stream().device_type
    with pytest.raises(RuntimeError, match="Unrecognized stream id"):
        torch.xpu.set_stream(torch.xpu.Stream(stream_id=99991, device_index=0, device_type=device_type))


def test_record_stream_keeps_memory_until_the_other_stream_is_done():
    s = another_stream()
    x = torch.full((N,), 5.0, device="xpu")
    torch.xpu.synchronize()
    with torch.xpu.stream(s):
        busy(0.2)
        y = x + 1
        pending = s.record_event()
    x.record_stream(s)
    address = x.data_ptr()
    del x
    z = torch.empty(N, device="xpu")
    if z.data_ptr() == address:
        # Only if the other stream had finished just then: its event says so at once, not when `busy` ends.
        deadline = time.monotonic() + 0.05
        while not pending.query() and time.monotonic() < deadline:
            pass
        assert pending.query()
    z.fill_(-1.0)
    s.synchronize()
    assert bool((y == 6).all())
    del z
    # The marker has passed: the block is back in its pool.
    found = [torch.empty(N, device="xpu") for _ in range(8)]
    assert address in [t.data_ptr() for t in found]


@pytest.mark.parametrize("view", ["conj()", "conj().imag"])
def test_record_stream_of_a_lazy_view(view: str) -> None:
    code = f"""
        import torch
        x = torch.ones(8, dtype=torch.complex64, device="xpu").{view}
        assert x.is_conj() or x.is_neg()
        s = torch.xpu.Stream()
        for _ in range(2000):
            x.record_stream(s)
        [bytearray(n) for n in range(10, 4000, 7)]
        print(x.is_conj() or x.is_neg())
    """
    # Without its caches malloc checks the list of each chunk that it takes.
    assert script.out(code, GLIBC_TUNABLES="glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0") == "True"


def test_memory_is_reused_within_a_stream_without_waiting():
    torch.xpu.synchronize()
    x = torch.empty(N, device="xpu")
    address = x.data_ptr()
    del x
    assert torch.empty(N, device="xpu").data_ptr() == address


def test_streams_do_not_share_free_blocks():
    x = torch.empty(N, device="xpu")
    address = x.data_ptr()
    del x
    with torch.xpu.stream(another_stream()):
        y = torch.empty(N, device="xpu")
        assert y.data_ptr() != address


def test_two_threads_two_streams_hand_blocks_over():
    """Producer and consumer on streams of their own; every block crosses over, is freed and reused many times."""
    rounds, n = 60, 1 << 16
    handed: list[tuple[torch.Tensor, torch.xpu.Event, int]] = []
    ready, free = threading.Semaphore(0), threading.Semaphore(4)
    errors: list[str] = []
    producer_stream, consumer_stream = torch.xpu.Stream(), torch.xpu.Stream()

    def produce() -> None:
        with torch.xpu.stream(producer_stream):
            for i in range(rounds):
                free.acquire()
                scratch = torch.full((n,), -1.0, device="xpu")  # freed at once: its block may become the next x
                del scratch
                x = torch.full((n,), float(i), device="xpu")
                event = torch.xpu.Event()
                event.record()
                handed.append((x, event, i))
                del x
                ready.release()

    def consume() -> None:
        sums = []
        with torch.xpu.stream(consumer_stream):
            for _ in range(rounds):
                ready.acquire()
                x, event, i = handed.pop(0)
                consumer_stream.wait_event(event)
                sums.append((i, x * 2))
                x.record_stream(consumer_stream)
                del x  # freed while the consumer's kernel may still be queued
                free.release()
            consumer_stream.synchronize()
        for i, y in sums:
            if not bool((y == 2 * i).all()):
                errors.append(f"round {i}: {y[:3].tolist()}")

    threads = [threading.Thread(target=f) for f in (produce, consume)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    torch.xpu.synchronize()
    assert errors == []


def test_threads_allocate_at_once():
    failures = []

    def work(seed: int) -> None:
        with torch.xpu.stream(another_stream()):
            held = []
            for i in range(200):
                held.append((torch.full((seed * 100 + i,), float(seed), device="xpu"), seed))
                if i % 3 == 0:
                    held.pop(0)
            torch.xpu.current_stream().synchronize()
            if not all(bool((t == s).all()) for t, s in held[-5:]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert failures == []
