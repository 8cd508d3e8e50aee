"""Every option of torch.profiler on xpu, and the files that it writes: through its public API alone."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import threading
from typing import Any

import pytest
import torch
from support import script
from support.profiles import BOTH, device_events, names, on_device, trace_of
from torch.autograd import DeviceType
from torch.profiler import (
    ExecutionTraceObserver,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    tensorboard_trace_handler,
)  # fmt: skip
from torch.profiler import _ExperimentalConfig as ExperimentalConfig  # how torch's documentation names it

LARGE = 1 << 20  # elements that no inline work computes


@pytest.fixture(autouse=True)
def idle() -> None:
    torch.xpu.synchronize()


@pytest.fixture
def x() -> torch.Tensor:
    """A tensor that no kernel is busy with."""
    ones = torch.ones(LARGE, device="xpu")
    torch.xpu.synchronize()
    return ones


def named(trace: list[dict[str, Any]], name: str, cat: str = "cpu_op") -> list[dict[str, Any]]:
    return [e for e in trace if e.get("name") == name and e.get("cat") == cat]


def test_record_shapes(x, tmp_path):
    """Of operators in the trace, and as rows of their own, each with the time of its kernels."""
    with profile(activities=BOTH, record_shapes=True) as prof:
        x + x
        torch.add(x.view(-1, 2), x.view(-1, 2), alpha=2)
        x + x
    rows = {str(a.input_shapes): a for a in prof.key_averages(group_by_input_shape=True) if a.key == "aten::add"}
    flat, pairs = (f"[{s}, {s}, []]" for s in ([LARGE], [LARGE // 2, 2]))
    assert {shapes: a.count for shapes, a in rows.items()} == {flat: 2, pairs: 1}
    times = [e.time_range.elapsed_us() for e in device_events(prof) if e.name == "add f32"]
    assert rows[flat].device_time_total == pytest.approx(times[0] + times[2])
    assert rows[pairs].device_time_total == pytest.approx(times[1])
    first, second, _ = (e["args"] for e in named(trace_of(prof, tmp_path), "aten::add"))
    assert first["Input Dims"] == [[LARGE], [LARGE], []] and first["Input type"] == ["float", "float", "Scalar"]
    assert (first["Concrete Inputs"][2], second["Concrete Inputs"][2]) == ("1", "2")


def once(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


def again(x: torch.Tensor) -> torch.Tensor:
    return x.sin()


class Layer(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return once(x) + again(again(x))


def test_with_stack(x, tmp_path):
    """Rows by calling function have the time of their kernels, and so does the file for flame graphs."""
    layer = Layer()
    with profile(activities=BOTH, with_stack=True, experimental_config=ExperimentalConfig(verbose=True)) as prof:
        layer(x)
    averages = prof.key_averages(group_by_stack_n=8)
    rows = [a for a in averages if a.key == "aten::sin" and a.device_type == DeviceType.CPU]
    counts = {name: sum(a.count for a in rows if any(f": {name}" in s for s in a.stack)) for name in ("once", "again")}
    assert counts == {"once": 1, "again": 2}
    assert all(a.device_time_total > 0 for a in rows)
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_xpu_time_total")
    lines = [line for line in (tmp_path / "stacks.txt").read_text().splitlines() if "once" in line]
    assert lines and all(int(line.rpartition(" ")[2]) > 0 for line in lines)
    trace = trace_of(prof, tmp_path)
    functions = {e["name"] for e in trace if e.get("cat") == "python_function"}
    assert "nn.Module: Layer_0" in functions
    assert any("test_profiler_options.py" in f and "again" in f for f in functions)


def test_with_flops():
    a, b = torch.randn(96, 128, device="xpu"), torch.randn(128, 160, device="xpu")
    image, weights = torch.randn(2, 8, 20, 20, device="xpu"), torch.randn(16, 8, 3, 3, device="xpu")
    with profile(activities=BOTH, with_flops=True) as prof:
        a @ b
        torch.conv2d(image, weights)
    rows = {a.key: a.flops for a in prof.key_averages()}
    assert rows["aten::mm"] == 2 * 96 * 128 * 160
    assert rows["aten::conv2d"] == 2 * (2 * 16 * 18 * 18) * (8 * 3 * 3)


def test_profile_memory(tmp_path):
    """Allocations and frees, with the allocator's totals at the time."""
    before = torch.xpu.memory_allocated()
    with profile(activities=BOTH, profile_memory=True) as prof:
        with record_function("keeps"):
            kept = torch.empty(LARGE, device="xpu")
        with record_function("frees"):
            torch.empty(2 * LARGE, device="xpu")
    events = [e["args"] for e in trace_of(prof, tmp_path) if e.get("name") == "[memory]"]
    on_xpu = [e for e in events if e["Device Type"] == 12]
    assert [e["Bytes"] for e in on_xpu] == [4 * LARGE, 8 * LARGE, -8 * LARGE]
    assert [e["Total Allocated"] - before for e in on_xpu] == [4 * LARGE, 12 * LARGE, 4 * LARGE]
    assert all(e["Total Reserved"] >= e["Total Allocated"] for e in on_xpu)
    rows = {a.key: a.device_memory_usage for a in prof.key_averages() if a.device_type == DeviceType.CPU}
    assert rows["keeps"] == 4 * LARGE and rows["frees"] == 0
    del kept


def test_schedule(x, tmp_path):
    """Steps are ranges on the host and on the device; only the active ones are there."""
    cycles: list[list[str]] = []

    def ready(prof: profile) -> None:
        trace = trace_of(prof, tmp_path)
        assert names(prof) == {"add f32": 2}
        assert len(named(trace, f"ProfilerStep#{prof.step_num - 1}", "gpu_user_annotation")) == 1
        cycles.append([e["name"] for e in trace if e.get("cat") == "user_annotation"])

    steps = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    with profile(activities=BOTH, schedule=steps, on_trace_ready=ready) as prof:
        for _ in range(12):
            x + x
            torch.xpu.synchronize()
            prof.step()
    assert cycles == [["ProfilerStep#3", "ProfilerStep#4"], ["ProfilerStep#7", "ProfilerStep#8"]]


def test_events_of_all_cycles(x):
    steps = schedule(wait=1, warmup=1, active=1)
    counts = {}
    for keep in (False, True):
        with profile(activities=BOTH, schedule=steps, acc_events=keep) as prof:
            for _ in range(9):
                x + x
                prof.step()
        counts[keep] = names(prof)
    assert counts == {False: {"add f32": 1}, True: {"add f32": 3}}


def test_compressed_files(x, tmp_path):
    with profile(activities=BOTH, on_trace_ready=tensorboard_trace_handler(str(tmp_path), "me", use_gzip=True)) as prof:
        x + x
    with profile(activities=BOTH) as prof:
        x + x
    prof.export_chrome_trace(str(tmp_path / "other.json.gz"))
    files = sorted(tmp_path.glob("*.gz"))
    assert len(files) == 2 and files[0].name.startswith("me.") and files[0].name.endswith(".pt.trace.json.gz")
    for file in files:
        trace = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        assert [e["name"] for e in on_device(trace)] == ["add f32"]


def test_metadata(x, tmp_path):
    prof = profile(activities=BOTH)
    prof.preset_metadata_json("before", "[1, 2]")
    with prof:
        x + x
        prof.add_metadata_json("within", '{"answer": 42}')
        prof.add_metadata("text", "some words")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    found = json.loads((tmp_path / "trace.json").read_text())
    assert (found["before"], found["within"], found["text"]) == ([1, 2], {"answer": 42}, "some words")
    assert found["xpu_clock_error_ns"] >= 0
    assert [d["name"] for d in found["deviceProperties"]] == [
        torch.xpu.get_device_properties(i).name for i in range(torch.xpu.device_count())
    ]


def test_nested_ranges(x, tmp_path):
    """On the device a range goes from the first of its own commands to the last."""
    with profile(activities=BOTH) as prof, record_function("outer"):
        x.sin()
        with record_function("inner", "with an argument"):
            x.cos()
        x.exp()
    trace = trace_of(prof, tmp_path)
    outer, inner = (named(trace, n, "gpu_user_annotation")[0] for n in ("outer", "inner"))
    cos = next(e for e in on_device(trace) if e["name"] == "cos f32")
    assert (inner["ts"], inner["dur"]) == pytest.approx((cos["ts"], cos["dur"]), rel=0, abs=0.01)
    assert outer["ts"] < inner["ts"] and outer["ts"] + outer["dur"] > inner["ts"] + inner["dur"]
    averages = {(a.key, a.device_type): a for a in prof.key_averages()}
    of_kernels = sum(e.time_range.elapsed_us() for e in device_events(prof) if e.name.endswith("f32"))
    assert averages["outer", DeviceType.CPU].device_time_total == pytest.approx(of_kernels)


def test_chosen_activities(x):
    """A list by names of Kineto takes part of what a profile of xpu has."""

    def found(*chosen: str) -> set[str]:
        with profile(activities=[{ProfilerActivity.XPU: list(chosen)}]) as prof:
            x.sin().cpu()
        return {e.name for e in prof.events()}

    assert found("GPU_MEMCPY") == {"copy device to host"}
    assert found("CONCURRENT_KERNEL", "GPU_MEMCPY") == {"sin f32", "copy device to host"}
    assert "sin f32" not in found("XPU_RUNTIME") >= {"xpu: launch", "xpu: copy"}
    assert found() == set()


def test_experimental_options(x, tmp_path):
    config = ExperimentalConfig(
        capture_overload_names=True, expose_kineto_event_metadata=True, profile_all_threads=True
    )
    with profile(activities=BOTH, experimental_config=config) as prof:
        x + x
        thread = threading.Thread(target=lambda: x.sin().cpu())
        thread.start()
        thread.join()
    rows = {(a.key, a.overload_name): a.count for a in prof.key_averages(group_by_overload_name=True)}
    assert rows["aten::add", "Tensor"] == 1
    assert rows["aten::sin", ""] == 1, "of the other thread"
    details = {e.name: e.event_metadata for e in device_events(prof)}
    assert details["add f32"].grid[0] * details["add f32"].block[0] > 0
    assert details["copy device to host"].bytes == 4 * LARGE


def test_a_trace_without_events(x, tmp_path):
    with profile(activities=BOTH, experimental_config=ExperimentalConfig(trace_only=True)) as prof:
        x + x
    assert [e["name"] for e in on_device(trace_of(prof, tmp_path))] == ["add f32"]
    with pytest.raises(RuntimeError, match="trace_only"):
        prof.events()


def test_execution_traces(x, tmp_path):
    """Nodes of the execution trace and operators of the trace have the same numbers."""
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "execution.json"))
    with profile(activities=BOTH, execution_trace_observer=observer, record_shapes=True) as prof:
        x + x
    observer.unregister_callback()
    nodes = json.loads((tmp_path / "execution.json").read_text())["nodes"]
    add = next(n for n in nodes if n["name"] == "aten::add")
    assert add["inputs"]["values"][0][-1] == "xpu:0" and add["inputs"]["shapes"][:2] == [[LARGE], [LARGE]]
    (shown,) = named(trace_of(prof, tmp_path), "aten::add")
    attributes = {a["name"]: a["value"] for a in add["attrs"]}
    assert attributes["rf_id"] == shown["args"]["Record function id"]


def test_a_profile_of_another_thread(x):
    """A profile sees the thread that began it, and all commands of the device."""
    found: dict[str, Any] = {}
    began, done = threading.Event(), threading.Event()

    def work() -> None:
        with profile(activities=BOTH) as prof:
            x.sin()
            began.set()
            done.wait()
            torch.xpu.synchronize()
        found["device"] = names(prof)
        found["operators"] = {e.name for e in prof.events() if e.name in ("aten::sin", "aten::cos")}

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    x.cos()
    done.set()
    thread.join()
    assert found == {"device": {"sin f32": 1, "cos f32": 1}, "operators": {"aten::sin"}}


def test_compiled_training():
    """Kernels of torch.compile belong to the regions that launched them, forward and backward."""
    weight = torch.randn(512, 512, device="xpu", requires_grad=True)
    x = torch.randn(512, 512, device="xpu")
    compiled = torch.compile(lambda x, w: (x * w).sin().relu().sum())
    torch.autograd.grad(compiled(x, weight), weight)
    torch.xpu.synchronize()
    with profile(activities=BOTH) as prof:
        torch.autograd.grad(compiled(x, weight), weight)
    fused = [e for e in device_events(prof) if e.name.startswith("sycl_fused_")]
    backward = [e for e in fused if "backward" in e.name]
    times = {a.key: a.device_time_total for a in prof.key_averages() if a.device_type == DeviceType.CPU}
    assert 0 < len(backward) < len(fused)
    assert times["CompiledFunctionBackward"] == pytest.approx(sum(e.time_range.elapsed_us() for e in backward))
    assert times["CompiledFunction"] == pytest.approx(
        sum(e.time_range.elapsed_us() for e in fused) - times["CompiledFunctionBackward"]
    )


def test_one_object_twice(x):
    prof = profile(activities=BOTH)
    for operator, name in ((torch.sin, "sin f32"), (torch.cos, "cos f32")):
        prof.start()
        operator(x)
        prof.stop()
        assert names(prof) == {name: 1}


def test_a_profile_of_nothing(tmp_path):
    with profile(activities=BOTH) as prof:
        pass
    assert not device_events(prof)
    assert not on_device(trace_of(prof, tmp_path))
    assert "XPU" not in prof.key_averages().table()


COLLECTOR = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct id { unsigned long long n[3]; };
struct domain { volatile int on; const char* name; void* rest[4]; };
struct text { const char* text; void* rest[4]; };
const char* __itt_api_version(void) { return "collector of a test"; }
struct domain* __itt_domain_create(const char* name) {
  struct domain* d = calloc(1, sizeof(struct domain));
  d->on = strcmp(name, "PyTorch") == 0;  /* others: drivers, TBB */
  d->name = name;
  return d;
}
struct text* __itt_string_handle_create(const char* name) {
  struct text* t = calloc(1, sizeof(struct text));
  t->text = strdup(name);
  return t;
}
void __itt_task_begin(const struct domain* d, struct id t, struct id p, const struct text* name) {
  if (d && d->on) { printf("( %s ", name->text); fflush(stdout); }
}
void __itt_task_end(const struct domain* d) {
  if (d && d->on) { printf(") "); fflush(stdout); }
}
"""


def test_ranges_for_itt(tmp_path):
    """A collector, as VTune is one, gets a range for each operator on xpu and for what the program names."""
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "collector.c").write_text(COLLECTOR)
    library = str(tmp_path / "collector.so")
    subprocess.run([cc, "-w", "-shared", "-fPIC", "-o", library, str(tmp_path / "collector.c")], check=True)
    text = script.out(
        """
        import torch
        x = torch.ones(1 << 20, device="xpu")
        with torch.autograd.profiler.emit_itt():
            y = x.sin()
            with torch.profiler.itt.range("mine"):
                y.relu_()
        """,
        INTEL_LIBITTNOTIFY64=library,
        INTEL_ITTNOTIFY_GROUPS="all",
    )
    assert text == "( aten::sin ) ( mine ( aten::relu_ ) )"


def test_a_failing_handler(x):
    """An exception of on_trace_ready reaches the program; the next profile works."""

    def fails(prof: profile) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), profile(activities=BOTH, on_trace_ready=fails):
        x + x
    with profile(activities=BOTH) as prof:
        x + x
    assert names(prof) == {"add f32": 1}


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_an_activity_of_another_device(x, tmp_path):
    """ProfilerActivity.CUDA asks for no events of xpu, and each step is shown once."""
    plan = schedule(wait=0, warmup=0, active=3, repeat=1)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=plan) as prof:
        for _ in range(3):
            x + x
            prof.step()
    assert not device_events(prof)
    assert len([e for e in trace_of(prof, tmp_path) if "ProfilerStep" in e.get("name", "")]) == 3
