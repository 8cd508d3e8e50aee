"""The report of `xpu-ops profile` on traces written here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xpu_ops.profile import html, report, trace


def event(cat: str, name: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    """On thread 7 of the host, or on stream 3 of device 0."""
    host = cat in ("cpu_op", "user_annotation", "python_function", "xpu_runtime")
    place = {"pid": 1, "tid": 7} if host else {"pid": 0, "tid": 3}
    return {"ph": "X", "cat": cat, "name": name, "ts": 1000 + start, "dur": length, **place, "args": args}


def operator(name: str, start: float, length: float, number: int, dims: Any = ()) -> dict[str, Any]:
    return event("cpu_op", name, start, length, **{"External id": number, "Input Dims": list(dims)})


def read(tmp_path: Path, *events: dict[str, Any]) -> trace.Trace:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"traceEvents": list(events)}))
    return trace.read(file)


@pytest.fixture
def sample(tmp_path: Path) -> trace.Trace:
    return read(
        tmp_path,
        operator("aten::linear", 0, 100, 1, [[2, 3], [3, 3]]),
        operator("aten::mm", 10, 40, 2, [[2, 3], [3, 3]]),
        operator("aten::item", 200, 700, 3),
        operator("aten::add", 110, 20, 4, [[8]]),
        event("kernel", "matmul x", 30, 300, **{"External id": 2, "inline": False}),
        event("kernel", "add f32", 330, 500, **{"External id": 4, "inline": False}),
        event("gpu_memcpy", "copy device to host", 900, 20, **{"External id": 3, "inline": False, "bytes": 4}),
        event("kernel", "add f32", 115, 5, **{"External id": 4, "inline": True}),
        event("xpu_runtime", "xpu: wait", 210, 600),
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 3, "args": {"name": "stream 3 (default)"}},
        {
            "ph": "i",
            "name": "[memory]",
            "ts": 1050,
            "args": {"Device Id": 0, "Total Allocated": 64, "Total Reserved": 128},
        },
    )


def test_calls_are_nested(sample: trace.Trace):
    by_name = {c.name: c for c in sample.calls}
    assert by_name["aten::mm"].parent is by_name["aten::linear"]
    assert by_name["aten::mm"].operator() == "aten::linear"
    assert by_name["aten::linear"].self_us == 60
    assert [c.name for c in sample.roots()] == ["aten::linear", "aten::add", "aten::item"]
    assert sample.executions[0].call is by_name["aten::mm"]
    assert sample.waits[0].call is by_name["aten::item"]
    assert sample.rows == {(0, 3): "stream 3 (default)"}
    assert sample.memory == [(50.0, 64, 128)]
    assert sample.span_us == 920


def test_figures(sample: trace.Trace):
    r = report.build(sample, {}, report.Memory())
    rows = {o.name: o for o in r.operators}
    assert "aten::mm" not in rows, "an operator inside another is part of it"
    assert rows["aten::linear"].device_ms == pytest.approx(0.3)
    assert rows["aten::add"].inline_ms == pytest.approx(0.005)
    assert rows["aten::item"].wait_ms == pytest.approx(0.6)
    assert (r.launches, r.inlined) == (3, 1)
    assert r.busy_ms == pytest.approx(0.82)
    assert r.kernels[0].name == "add f32" and r.kernels[0].operators == {"aten::add": 1}
    assert [k.inlined for k in r.kernels if k.name == "add f32"] == [False, True]
    assert json.loads(json.dumps(r.as_dict()))["waits"] == {"aten::item": pytest.approx(0.6)}


def test_waiting_for_a_primitive_is_apart(tmp_path):
    """On a CPU device a call of oneDNN returns when it has ended: no synchronisation of the program."""
    found = read(
        tmp_path,
        operator("aten::mm", 0, 900, 1),
        event("kernel", "matmul x", 30, 800, **{"External id": 1}),
        event("xpu_runtime", "xpu: oneDNN", 10, 5),
        event("xpu_runtime", "xpu: wait", 20, 820),
    )
    r = report.build(found, {}, report.Memory())
    assert (r.wait_ms, r.primitive_ms) == (0, 0.82) and not r.waits
    assert not any("waited" in f for f in r.findings)


def test_busy_counts_overlap_once():
    def run(start: float, end: float) -> trace.Execution:
        return trace.Execution("k", "kernel", 0, 3, start, end, False)

    assert report.busy([run(0, 10), run(2, 5), run(8, 12), run(20, 21)]) == 13
    assert report.busy([]) == 0


@pytest.mark.parametrize(
    ("fallback", "memory", "text"),
    [
        ({"aten::linear": 3}, report.Memory(), "1 operators ran on the CPU fallback, 0.1 ms: aten::linear (3x)"),
        ({}, report.Memory(), "longest in aten::item"),
        ({}, report.Memory(), "add f32 takes 61% of the device's time in 1 calls, called by aten::add"),
        ({}, report.Memory(retries=2), "ran out of memory 2 times"),
        ({}, report.Memory(before=1 << 20, after=9 << 20), "8 MiB more are in use at the end"),
    ],
)
def test_findings(sample: trace.Trace, fallback: dict[str, int], memory: report.Memory, text: str):
    assert any(text in f for f in report.build(sample, fallback, memory).findings)


def test_an_idle_device_is_found(tmp_path):
    found = read(tmp_path, operator("aten::add", 0, 900, 1), event("kernel", "add f32", 100, 50, **{"External id": 1}))
    findings = report.build(found, {}, report.Memory()).findings
    assert any("nothing to do for 94% of the time" in f and "900 us" in f for f in findings)


def test_loading_modules_is_no_cost_of_a_command(tmp_path):
    found = read(
        tmp_path,
        operator("aten::add", 0, 900, 1),
        event("kernel", "add f32", 850, 50, **{"External id": 1}),
        event("xpu_runtime", "xpu: load module binary_1", 10, 700),
    )
    findings = report.build(found, {}, report.Memory()).findings
    assert any("200 us for each" in f for f in findings) and any(
        "Loading 1 kernel modules takes 78%" in f for f in findings
    )


def test_an_empty_trace(tmp_path):
    r = report.build(read(tmp_path), {}, report.Memory())
    assert r.findings == ["Nothing stands out: the device was busy, and no operator fell back."]
    assert "__DATA__" not in html.page(r, read(tmp_path), "empty")


def test_flame_graph_adds_up(sample: trace.Trace):
    root = html.flame(sample)
    assert root["host"] == 820 and root["device"] == 825
    linear = root["children"]["aten::linear"]
    assert linear["device"] == 300 and linear["children"]["aten::mm"]["children"]["matmul x"]["device"] == 300


def test_page_holds_everything(sample: trace.Trace):
    d = html.document(report.build(sample, {}, report.Memory()), sample, "a </script> program")
    assert len(d["calls"]) == 4 and len(d["executions"]) == 4 and d["left_out"] == 0
    name, row, start, length, inlined, call = d["executions"][0]
    assert d["names"][name] == "matmul x" and d["streams"][row] == "xpu:0 stream 3 (default)"
    assert (start, length, inlined) == (30, 300, 0) and d["names"][d["calls"][call][0]] == "aten::mm"
    assert "</script> program" not in html.page(
        report.build(sample, {}, report.Memory()), sample, "a </script> program"
    )
