"""torch.profiler shows the device: through its public API alone."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest
import torch
from support import script
from support.modes import INLINE
from support.profiles import BOTH, device_events, names, on_device, trace_of
from support.streams import another_stream
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

from xpu_ops import jit, onemkl

LARGE = 1 << 20  # elements that no inline work computes


@pytest.fixture(autouse=True)
def idle() -> None:
    torch.xpu.synchronize()


def ones(n: int = LARGE) -> torch.Tensor:
    return torch.ones(n, device="xpu")


def assert_in_order(events: list[Any]) -> None:
    """Nothing overlaps on one queue."""
    for before, after in itertools.pairwise(events):
        assert before.time_range.end <= after.time_range.start + 0.05, (before.name, after.name)


def test_each_launch_is_there_once_and_in_order():
    x, y = ones(), ones()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        for _ in range(7):
            torch.add(x, y, out=y)
            torch.mul(x, y, out=y)
    assert names(prof) == {"add f32": 7, "mul f32": 7}
    events = device_events(prof)
    assert [e.name for e in events] == ["add f32", "mul f32"] * 7
    assert_in_order(events)


def test_table_has_device_columns():
    x = ones()
    with profile(activities=BOTH, record_shapes=True) as prof:
        x + x
    averages = prof.key_averages(group_by_input_shape=True)
    table = averages.table(sort_by="xpu_time_total")
    assert "XPU total" in table and "add f32" in table
    add = next(a for a in averages if a.key == "aten::add")
    kernel = next(a for a in averages if a.key == "add f32")
    assert add.device_time_total == kernel.device_time_total > 0
    assert add.input_shapes[:2] == [[LARGE], [LARGE]]
    assert kernel.device_type == DeviceType.XPU


def test_an_execution_lies_within_its_program():
    x = ones()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof, record_function("mine"):
        x * x
        torch.xpu.synchronize()
    kernel = next(e for e in device_events(prof) if e.name == "mul f32")
    mine = next(e for e in prof.events() if e.name == "mine" and e.device_type == DeviceType.CPU)
    launch = next(e for e in prof.events() if e.name == "xpu: launch")
    assert mine.time_range.start < launch.time_range.start < kernel.time_range.end < mine.time_range.end
    assert launch.time_range.start <= kernel.time_range.start + 1


@pytest.mark.usefixtures("own_stream")
def test_inline_work_is_marked(tmp_path):
    """It has the name of the kernel whose place it takes, so that both are one row of a table."""
    x, y = ones(8), ones()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        x + x
        y + y
    assert names(prof) == {"add f32": 2}
    trace = on_device(trace_of(prof, tmp_path))
    assert [e["args"]["inline"] for e in sorted(trace, key=lambda e: e["args"]["correlation"])] == [
        INLINE,
        False,
    ]
    # A GPU's plan moves four elements of the larger one per load.
    assert len({e["args"]["kernel"].replace("_fours", "_rows") for e in trace}) == 1


@pytest.mark.usefixtures("own_stream")
@pytest.mark.skipif(not INLINE, reason="nothing is inline, and some kernels are others")
def test_inline_work_has_the_name_of_its_kernel():
    x, index, mask = (
        torch.rand(3, 4, device="xpu"),
        torch.tensor([2, 0], device="xpu"),
        torch.eye(3, 4, device="xpu") > 0,
    )
    loss, target = torch.rand(4, 3, device="xpu"), torch.tensor([2, 0, 1, 1], device="xpu")
    calls = {
        "mul f32": lambda: x * x.t().contiguous().t(),
        "cast f64 f32": lambda: x.double(),
        "copy u32": lambda: x.t().contiguous(),
        "fill u32": lambda: x.zero_(),
        "cumsum_line f32": lambda: x.cumsum(1),
        "indexed_read u32": lambda: x[index],
        "compact_coordinates u8": lambda: x[mask],
        "masked_select u32": lambda: x.masked_select(mask),
        "nll_partial f32": lambda: torch.nn.functional.nll_loss(loss, target),
        "reduce_sum_col f32": lambda: x.sum(1),
    }
    for name, call in calls.items():
        torch.xpu.synchronize()
        with profile(activities=BOTH) as prof:
            call()
        assert name in names(prof), (name, names(prof))


def test_copies_and_fills(tmp_path):
    host = torch.zeros(LARGE)
    x = ones()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        x.copy_(host)
        host.copy_(x)
    copies = [e for e in on_device(trace_of(prof, tmp_path)) if e["cat"] == "gpu_memcpy"]
    assert [e["name"] for e in copies] == ["copy host to device", "copy device to host"]
    assert {e["args"]["bytes"] for e in copies} == {4 * LARGE}


def test_primitives_carry_their_implementation():
    a = torch.randn(256, 256, device="xpu")
    conv = torch.nn.Conv2d(3, 8, 3, device="xpu")
    image = torch.randn(2, 3, 32, 32, device="xpu")
    with profile(activities=BOTH) as prof:
        a @ a
        conv(image)
    found = list(names(prof))
    assert any(n.startswith("matmul ") for n in found), found
    assert any(n.startswith("conv_forward ") and "3x32x32" in n for n in found), found
    averages = {a.key: a for a in prof.key_averages()}
    assert averages["aten::mm"].self_device_time_total > 0


def test_primitives_say_how_much_they_compute(tmp_path):
    a, b = torch.randn(96, 128, device="xpu"), torch.randn(128, 160, device="xpu")
    image, weights = torch.randn(2, 8, 20, 20, device="xpu"), torch.randn(16, 4, 3, 3, device="xpu")
    with profile(activities=BOTH) as prof:
        a @ b
        torch.conv2d(image, weights, groups=2)
    flops = {
        e["name"].split(" ")[0]: e["args"]["flops"] for e in on_device(trace_of(prof, tmp_path)) if "flops" in e["args"]
    }
    assert flops == {"matmul": 2 * 96 * 128 * 160, "conv_forward": 2 * (2 * 16 * 18 * 18) * (4 * 3 * 3)}


HALVE = "void halve(const float* x, float* y, long n) { const long i = xpu::global_id(); if (i < n) y[i] = x[i] / 2; }"


def test_kernels_of_jit(tmp_path):
    x, kernel = ones(), jit.kernel(HALVE, "halve")
    y = torch.empty_like(x)
    kernel(x, y, LARGE, items=LARGE)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        kernel(x, y, LARGE, items=LARGE)
        kernel(y, x, LARGE, items=LARGE)
    assert names(prof) == {"halve": 2}
    assert_in_order(device_events(prof))
    trace = on_device(trace_of(prof, tmp_path))
    assert {(e["args"]["kernel"], tuple(e["args"]["block"])) for e in trace} == {("halve_kernel", (256, 1, 1))}


def test_kernels_of_torch_compile():
    x = ones()
    compiled = torch.compile(lambda x: (x.sin() * 2 + x).relu())
    expected = compiled(x)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        found = compiled(x)
    (name,) = (e.name for e in device_events(prof))
    assert name.startswith("sycl_fused_") and "sin" in name and "relu" in name
    assert torch.equal(found, expected)


@pytest.mark.skipif(bool(onemkl.missing()), reason="oneMKL is not installed")
def test_routines_of_onemkl():
    """They compute on the calling thread where the host reaches the device's memory."""
    x = torch.randn(4, 1000, device="xpu", dtype=torch.complex64)
    a = torch.eye(48, device="xpu").expand(3, 48, 48) * 2
    expected = torch.fft.fft(x)
    torch.linalg.cholesky(a)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        found = torch.fft.fft(x)
        torch.linalg.cholesky(a)
        torch.xpu.synchronize()
    shown = {e.name: e for e in device_events(prof) if e.name.startswith(("fft", "cholesky"))}
    assert list(shown) == ["fft c2c forward f32 4 x 1000", "cholesky f32 3x48x48"]
    assert all(e.time_range.elapsed_us() > 1 for e in shown.values())
    averages = {a.key: a for a in prof.key_averages()}
    assert averages["aten::_fft_c2c"].device_time_total > 0
    assert torch.equal(found, expected)


def test_loaded_modules_are_shown():
    text = script.out(
        """
        import torch
        from torch.profiler import ProfilerActivity, profile
        x = torch.ones(1 << 20, device="xpu")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as prof:
            x.erfinv()
            x.erfinv()
        print(sorted(e.name for e in prof.events() if e.name.startswith("xpu: load module")))
        """
    )
    assert text.count("load module") == 1


def test_arrows_join_calls_and_executions(tmp_path):
    x = ones()
    with profile(activities=BOTH) as prof:
        (x + x).sum().item()
    trace = trace_of(prof, tmp_path)
    begins = {e["id"] for e in trace if e.get("ph") == "s" and e["cat"] == "ac2g"}
    ends = {e["id"] for e in trace if e.get("ph") == "f" and e["cat"] == "ac2g"}
    executions = {e["args"]["correlation"] for e in on_device(trace)}
    assert begins == ends == executions
    assert any(e.get("name") == "xpu: wait" for e in trace)
    rows = [e["args"]["name"] for e in trace if e.get("name") == "thread_name"]
    assert any(r.startswith("stream ") for r in rows)
    operators = {e["args"]["External id"] for e in trace if e.get("cat") == "cpu_op"}
    assert {e["args"]["External id"] for e in on_device(trace)} <= operators


def test_synchronisations_are_shown(tmp_path):
    """Also those with nothing to wait for. Within a range or an operator they belong to it."""
    event = torch.xpu.Event()
    event.record()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof, record_function("mine"):
        torch.xpu.synchronize()
        torch.xpu.current_stream().synchronize()
        event.synchronize()
        ones().sum().item()
    trace = trace_of(prof, tmp_path)
    calls = [e for e in trace if e.get("cat") == "xpu_runtime" and "synchronize" in e["name"]]
    calls = sorted(calls, key=lambda e: e["ts"])[:4]  # the profile ends with one of its own
    assert [e["name"] for e in calls] == [
        f"xpu: synchronize {what}" for what in ("device", "stream", "event", "stream")
    ]
    known = {e["args"]["External id"]: e["name"] for e in trace if e.get("cat") in ("cpu_op", "user_annotation")}
    assert [known[e["args"]["External id"]] for e in calls] == ["mine"] * 3 + ["aten::_local_scalar_dense"]


def test_a_row_for_each_stream(tmp_path):
    x = ones()
    torch.xpu.synchronize()
    first, second = another_stream(), another_stream()
    with profile(activities=BOTH) as prof:
        with torch.xpu.stream(first):
            x + x
        with torch.xpu.stream(second):
            x * x
        torch.xpu.synchronize()
    rows = {e["name"]: e["tid"] for e in on_device(trace_of(prof, tmp_path))}
    assert rows == {"add f32": first.stream_id, "mul f32": second.stream_id}


def test_two_threads():
    x = ones()
    torch.xpu.synchronize()

    def work(operator: Any) -> None:
        with torch.xpu.stream(another_stream()):
            for _ in range(20):
                operator(x, x)

    with profile(activities=BOTH) as prof:
        threads = [threading.Thread(target=work, args=(f,)) for f in (torch.add, torch.mul)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        torch.xpu.synchronize()
    assert names(prof) == {"add f32": 20, "mul f32": 20}
    for row in {e.device_resource_id for e in device_events(prof)}:
        assert_in_order([e for e in device_events(prof) if e.device_resource_id == row])


def test_profiles_begin_and_end_under_work():
    """Streams change their queue while threads submit to them: order and results stay."""
    stop, wrong = threading.Event(), []
    shared = another_stream()

    def work(seed: int) -> None:
        with torch.xpu.stream(shared if seed % 2 else another_stream()):
            while not stop.is_set():
                x = torch.full((LARGE if seed < 2 else 64,), float(seed), device="xpu")
                for _ in range(10):
                    x.add_(1)
                if (x != seed + 10).any().item():
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    found = 0
    try:
        for _ in range(8):
            with profile(activities=[ProfilerActivity.XPU]) as prof:
                torch.ones(LARGE, device="xpu").add_(1)
                torch.xpu.synchronize()
            events = device_events(prof)
            found += len(events)
            for row in {e.device_resource_id for e in events}:
                assert_in_order([e for e in events if e.device_resource_id == row])
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong and found >= 16


def test_a_stream_whose_queue_was_taken_out():
    """Others may submit to it, so it stays where it is: markers give the times."""
    x = ones()
    torch.xpu.synchronize()
    stream = another_stream()
    assert stream.sycl_queue
    with torch.xpu.stream(stream), profile(activities=BOTH) as prof:
        for _ in range(3):
            torch.add(x, x)
        torch.xpu.synchronize()
    events = device_events(prof)
    assert [e.name for e in events] == ["add f32"] * 3
    assert_in_order(events)
    assert all(e.time_range.elapsed_us() > 1 for e in events)


def test_backward_is_linked_to_its_operators():
    w = torch.randn(256, 256, device="xpu", requires_grad=True)
    x = torch.randn(256, 256, device="xpu")
    with profile(activities=BOTH) as prof:
        (x @ w).sum().backward()
    averages = {a.key: a for a in prof.key_averages()}
    assert averages["MmBackward0"].device_time_total > 0
    assert sum(n for name, n in names(prof).items() if name.startswith("matmul ")) == 2


def test_ranges_are_shown_on_the_device(tmp_path):
    x = ones()
    with profile(activities=BOTH) as prof, record_function("forward"):
        x + x
        x * x
    trace = trace_of(prof, tmp_path)
    ranges = [e for e in trace if e.get("cat") == "gpu_user_annotation"]
    assert [e["name"] for e in ranges] == ["forward"]
    inside = [e for e in on_device(trace) if e["name"] in ("add f32", "mul f32")]
    assert ranges[0]["ts"] <= min(e["ts"] for e in inside) + 0.001
    assert ranges[0]["ts"] + ranges[0]["dur"] >= max(e["ts"] + e["dur"] for e in inside) - 0.002


def test_the_device_alone():
    x = ones()
    with profile(activities=[ProfilerActivity.XPU]) as prof:
        x + x
    assert names(prof) == {"add f32": 1}
    assert not [e for e in prof.events() if e.name == "aten::add"]


def test_nothing_of_the_device_where_it_was_not_asked_for():
    x = ones()
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        x + x
    assert not device_events(prof)
    assert not [e for e in prof.events() if e.name.startswith("xpu: ")]


def test_schedule_writes_for_tensorboard(tmp_path):
    x = ones()
    steps = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=steps, on_trace_ready=tensorboard_trace_handler(str(tmp_path))) as prof:
        for _ in range(8):
            x + x
            prof.step()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    for file in files:
        events = json.loads(file.read_text())["traceEvents"]
        assert len([e for e in on_device(events) if e["name"] == "add f32"]) == 2


def test_memory_is_reported(tmp_path):
    with profile(activities=BOTH, profile_memory=True, record_shapes=True, with_stack=True) as prof:
        with record_function("allocation"):
            x = ones()
        kept = x * 2
    averages = {a.key: a for a in prof.key_averages() if a.device_type == DeviceType.CPU}
    assert averages["aten::mul"].device_memory_usage == 4 * LARGE
    assert "XPU Mem" in prof.key_averages().table(sort_by="self_xpu_memory_usage")
    prof.export_memory_timeline(str(tmp_path / "memory.json"), device="xpu:0")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert len(times) == len(sizes) and max(map(sum, sizes)) >= 8 * LARGE
    del kept


def test_stacks(tmp_path):
    x = ones()
    with profile(activities=BOTH, with_stack=True) as prof:
        x + x
    functions = [e["name"] for e in trace_of(prof, tmp_path) if e.get("cat") == "python_function"]
    assert any("test_profiler.py" in f for f in functions)
    assert names(prof) == {"add f32": 1}


def test_an_exception_in_the_middle():
    x = ones()
    prof = profile(activities=BOTH)
    with pytest.raises(RuntimeError, match="must match"), prof:
        x * x
        x + ones(3)
    assert names(prof)["mul f32"] == 1
    with profile(activities=BOTH) as again:
        x + x
    assert names(again) == {"add f32": 1}


def test_a_kernel_that_reports_an_error_is_shown():
    table, index = torch.ones(4, 4, device="xpu"), torch.full((LARGE,), 9, device="xpu")
    prof = profile(activities=BOTH)
    with pytest.raises(IndexError), prof:
        torch.index_select(table, 0, index)
        torch.xpu.synchronize()
    assert any("index" in n or "indexed" in n for n in names(prof))


@pytest.mark.parametrize("activities", [BOTH, BOTH[:1]], ids=["both", "cpu"])
def test_nested_profiles(activities):
    """torch 2.13 lets the inner profile end the outer one, with the device as without it."""
    x = ones()
    with profile(activities=activities) as outer:
        with profile(activities=activities) as inner:
            x + x
        x * x
    assert not outer.events()
    assert [e.name for e in inner.events() if e.name.startswith("aten")] == ["aten::add"]
    with profile(activities=BOTH) as again:
        x * x
    assert names(again) == {"mul f32": 1}


def test_legacy_entry_point():
    x = ones()
    with torch.autograd.profiler.profile(use_device="xpu", use_kineto=True) as prof:
        x + x
    add = next(a for a in prof.key_averages() if a.key == "aten::add")
    assert add.device_time_total > 0


def test_events_of_torch_agree():
    x, begin, end = ones(1 << 22), torch.xpu.Event(enable_timing=True), torch.xpu.Event(enable_timing=True)
    x.sin()
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        begin.record()
        for _ in range(5):
            x.sin()
        end.record()
        torch.xpu.synchronize()
    events = [e for e in device_events(prof) if e.name == "sin f32"]
    span = events[-1].time_range.end - events[0].time_range.start
    assert len(events) == 5
    assert span <= begin.elapsed_time(end) * 1e3 + 1
    assert sum(e.time_range.elapsed_us() for e in events) <= span + 1


def test_replayed_graphs():
    x = ones()
    y = torch.empty_like(x)
    stream, graph = another_stream(), torch.xpu.XPUGraph()
    with torch.xpu.stream(stream):
        torch.add(x, x, out=y)
        torch.xpu.synchronize()
        with torch.xpu.graph(graph, stream=stream):
            torch.add(x, x, out=y)
            torch.mul(y, x, out=y)
        with profile(activities=BOTH) as prof:
            graph.replay()
            graph.replay()
            torch.xpu.synchronize()
    assert names(prof) == {"graph": 2}


def test_before_the_device_is_used():
    text = script.out(
        """
        import torch
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as prof:
            x = torch.ones(1 << 20, device="xpu")
            x + x
        print(sorted(e.name for e in prof.events() if e.device_type == torch.autograd.DeviceType.XPU))
        """
    )
    assert "add f32" in text


def test_a_fork_in_the_middle():
    text = script.out(
        """
        import os, torch
        from torch.profiler import ProfilerActivity, profile
        x = torch.ones(1 << 20, device="xpu")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as prof:
            x + x
            child = os.fork()
            if child == 0:
                torch.ones(3) + 1
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            x * x
        print(sorted(e.name for e in prof.events() if e.device_type == torch.autograd.DeviceType.XPU))
        """
    )
    assert text == "['add f32', 'mul f32']"


def test_device_time_adds_up():
    """Of a queue that never runs dry: executions fill the time between the first and the last."""
    x = torch.ones(1 << 24, device="xpu")
    torch.sin(x)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        for _ in range(10):
            torch.sin(x, out=x)
        torch.xpu.synchronize()
    events = device_events(prof)
    span = events[-1].time_range.end - events[0].time_range.start
    assert sum(e.time_range.elapsed_us() for e in events) >= 0.9 * span
