"""Reads a trace of torch.profiler: host calls with their nesting, executions on the device, and how both belong together."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CALLS = ("cpu_op", "user_annotation", "python_function")
EXECUTIONS = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass(eq=False)
class Call:
    """An operator, a range or a Python function on a thread of the host. Times are microseconds from the first event."""

    name: str
    kind: str
    thread: int
    start: float
    end: float
    external: int = 0
    shapes: str = ""
    parent: Call | None = None
    children: list[Call] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)  # launched by this call itself
    wait_us: float = 0.0  # in this call itself

    @property
    def duration(self) -> float:
        return self.end - self.start

    @property
    def self_us(self) -> float:
        return max(0.0, self.duration - sum(c.duration for c in self.children))

    def ancestors(self) -> Iterator[Call]:
        """This call, the one that made it, and so on."""
        call: Call | None = self
        while call is not None:
            yield call
            call = call.parent

    def operator(self) -> str:
        """The outermost operator around this call; its own name where there is none."""
        return next((c.name for c in reversed(list(self.ancestors())) if c.kind == "cpu_op"), self.name)


@dataclass(eq=False)
class Execution:
    """A kernel, a primitive, a copy or a fill on a stream, or inline work that took its place."""

    name: str
    kind: str
    device: int
    stream: int
    start: float
    end: float
    inlined: bool
    size: int = 0  # bytes of a copy or a fill
    flops: float = 0.0  # of a primitive
    call: Call | None = None

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass
class Wait:
    """The host waited for the device."""

    thread: int
    start: float
    end: float
    call: Call | None
    primitive: bool  # of oneDNN: on a CPU device its call returns when it has ended

    @property
    def duration(self) -> float:
        return self.end - self.start


@dataclass
class Trace:
    """Everything in order of start."""

    calls: list[Call]
    executions: list[Execution]
    waits: list[Wait]
    loads: list[float]  # microseconds, of each kernel module
    memory: list[tuple[float, int, int]]  # time, bytes allocated, bytes reserved on the device
    rows: dict[tuple[int, int], str]  # names of the streams
    span_us: float

    def roots(self) -> Iterator[Call]:
        return (c for c in self.calls if c.parent is None)


def _nest(calls: list[Call]) -> None:
    """Gives each call its parent: the one of the same thread around it."""
    calls.sort(key=lambda c: (c.thread, c.start, -c.end))
    stack: list[Call] = []
    for c in calls:
        while stack and (stack[-1].thread != c.thread or stack[-1].end <= c.start):
            stack.pop()
        if stack:
            c.parent = stack[-1]
            c.parent.children.append(c)
        stack.append(c)


def _innermost(calls: list[Call], thread: int, time: float) -> Call | None:
    """The call in which a thread was; `calls` as _nest leaves them."""
    at = bisect_right(calls, (thread, time), key=lambda c: (c.thread, c.start)) - 1
    if at < 0 or calls[at].thread != thread:
        return None
    return next((c for c in calls[at].ancestors() if c.end >= time), None)


def read(path: Path) -> Trace:
    """Read a file of `export_chrome_trace`."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    timed = [e for e in events if e.get("ph") == "X" and e.get("cat") in (*CALLS, *EXECUTIONS, "xpu_runtime")]
    zero = min((e["ts"] for e in timed), default=0.0)
    calls: list[Call] = []
    executions: list[Execution] = []
    linked: list[tuple[Execution, int]] = []
    runtime: list[dict[str, Any]] = []
    external: dict[int, Call] = {}
    memory: list[tuple[float, int, int]] = []
    rows: dict[tuple[int, int], str] = {}
    for e in timed:
        args, start = e.get("args", {}), e["ts"] - zero
        end = start + e["dur"]
        if e["cat"] in CALLS:
            c = Call(e["name"], e["cat"], e["tid"], start, end, args.get("External id", 0))
            if args.get("Input Dims"):
                c.shapes = ", ".join(str(d) for d in args["Input Dims"] if d)
            calls.append(c)
            if c.external:
                external[c.external] = c
        elif e["cat"] == "xpu_runtime":
            runtime.append(e)
        else:
            x = Execution(e["name"], e["cat"], e["pid"], e["tid"], start, end, bool(args.get("inline")))
            x.size, x.flops = args.get("bytes", 0), args.get("flops", 0.0)
            executions.append(x)
            linked.append((x, args.get("External id", 0)))
    for x, operator in linked:
        x.call = external.get(operator)
        if x.call is not None:
            x.call.executions.append(x)
    _nest(calls)
    waits, loads = [], []
    before: dict[int, str] = {}  # what each thread asked of the device last
    for e in sorted(runtime, key=lambda e: e["ts"]):
        if e["name"] == "xpu: wait":
            start = e["ts"] - zero
            primitive = before.get(e["tid"]) == "xpu: oneDNN"
            w = Wait(e["tid"], start, start + e["dur"], _innermost(calls, e["tid"], start), primitive)
            if w.call is not None and not primitive:
                w.call.wait_us += w.duration
            waits.append(w)
        elif e["name"].startswith("xpu: load "):
            loads.append(e["dur"])
            continue
        before[e["tid"]] = e["name"]
    for e in events:
        if e.get("name") == "[memory]" and e.get("args", {}).get("Device Id", -1) >= 0:
            memory.append((e["ts"] - zero, e["args"]["Total Allocated"], e["args"]["Total Reserved"]))
        elif e.get("name") == "thread_name" and str(e["args"]["name"]).startswith("stream "):
            rows[(e["pid"], e["tid"])] = e["args"]["name"]
    span = max((e["ts"] + e["dur"] - zero for e in timed), default=0.0)
    executions.sort(key=lambda x: x.start)
    return Trace(calls, executions, waits, loads, sorted(memory), rows, span)
