"""The report on a profile: time per operator and per kernel, inline work, fallback, waits, memory, and what to look at first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .trace import Execution, Trace

# Shares of the wall time from which a finding is worth a line.
WAITING, IDLE, COPYING, LOADING, DOMINANT = 0.10, 0.40, 0.10, 0.10, 0.30


@dataclass
class OperatorRow:
    """Calls of one operator from outside other operators, with all below them. Times are milliseconds."""

    name: str
    calls: int = 0
    host_ms: float = 0.0
    device_ms: float = 0.0
    inline_ms: float = 0.0  # on the calling thread: part of host_ms
    wait_ms: float = 0.0  # part of host_ms
    fallback: bool = False
    shapes: Counter[str] = field(default_factory=Counter)


@dataclass
class KernelRow:
    """Executions of one name, inline ones apart. Times are milliseconds."""

    name: str
    calls: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0
    inlined: bool = False
    flops: float = 0.0  # of all calls, where known
    size: int = 0  # bytes that copies and fills wrote
    operators: Counter[str] = field(default_factory=Counter)

    def rate(self) -> str:
        """How fast it was, where that is known."""
        amount, unit = (self.flops, "GFLOP/s") if self.flops else (self.size, "GB/s")
        return f"{amount / self.total_ms / 1e6:.1f} {unit}" if amount and self.total_ms else ""


@dataclass
class Memory:
    """Bytes of the device's caching allocator."""

    before: int = 0
    after: int = 0
    peak: int = 0
    reserved: int = 0
    segments: int = 0  # asked from the driver meanwhile
    retries: int = 0


@dataclass
class Report:
    """All figures of one profile. Times are milliseconds."""

    wall_ms: float
    busy_ms: float  # some stream of the device executed, inline work left out
    inline_ms: float
    copy_ms: float  # of launched copies between host and device
    wait_ms: float  # without waits for primitives
    primitive_ms: float  # the host waited for a primitive of oneDNN to end
    load_ms: float  # the host loaded kernel modules
    loads: int
    waits: Counter[str]  # milliseconds by operator
    launches: int
    inlined: int
    operators: list[OperatorRow]
    kernels: list[KernelRow]
    fallback: dict[str, int]
    memory: Memory
    findings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            **{k: v for k, v in vars(self).items() if k not in ("operators", "kernels", "memory", "waits")},
            "waits": dict(self.waits.most_common()),
            "operators": [{**vars(o), "shapes": dict(o.shapes.most_common(8))} for o in self.operators],
            "kernels": [{**vars(k), "operators": dict(k.operators.most_common(8))} for k in self.kernels],
            "memory": vars(self.memory),
        }


def busy(executions: Iterable[Execution]) -> float:
    """Time in which at least one of them ran, in their unit; they are in order of start."""
    total, end = 0.0, float("-inf")
    for x in executions:
        if x.end > end:
            total += x.end - max(x.start, end)
            end = x.end
    return total


def _operators(trace: Trace, fallback: dict[str, int]) -> list[OperatorRow]:
    rows: dict[str, OperatorRow] = {}
    fell_back = {name.split(".")[0] for name in fallback}
    for c in trace.calls:
        if c.kind != "cpu_op" or any(a.kind == "cpu_op" for a in c.ancestors() if a is not c):
            continue
        row = rows.setdefault(c.name, OperatorRow(c.name))
        row.calls += 1
        row.host_ms += c.duration / 1e3
        if c.shapes:
            row.shapes[c.shapes] += 1
        below = [c]
        while below:
            call = below.pop()
            below += call.children
            row.wait_ms += call.wait_us / 1e3
            row.fallback |= call.name in fell_back
            for x in call.executions:
                if x.inlined:
                    row.inline_ms += x.duration / 1e3
                else:
                    row.device_ms += x.duration / 1e3
    return sorted(rows.values(), key=lambda r: -(r.device_ms + r.host_ms))


def _kernels(trace: Trace) -> list[KernelRow]:
    rows: dict[tuple[str, bool], KernelRow] = {}
    for x in trace.executions:
        row = rows.setdefault((x.name, x.inlined), KernelRow(x.name, inlined=x.inlined))
        row.calls += 1
        row.total_ms += x.duration / 1e3
        row.longest_ms = max(row.longest_ms, x.duration / 1e3)
        row.flops += x.flops
        row.size += x.size
        if x.call is not None:
            row.operators[x.call.operator()] += 1
    return sorted(rows.values(), key=lambda r: -r.total_ms)


def _findings(r: Report) -> list[str]:
    out: list[tuple[float, str]] = []  # weight, text
    wall = max(r.wall_ms, 1e-9)
    if r.fallback:
        worst = sorted(r.fallback.items(), key=lambda kv: -kv[1])
        named = ", ".join(f"{name} ({calls}x)" for name, calls in worst[:4])
        time = sum(o.host_ms for o in r.operators if o.fallback)
        out.append((1 + time / wall, f"{len(worst)} operators ran on the CPU fallback, {time:.1f} ms: {named}."))
    share = r.wait_ms / wall
    if share >= WAITING and r.waits:
        name, ms = r.waits.most_common(1)[0]
        out.append(
            (share, f"The host waited for the device for {share:.0%} of the time, longest in {name} ({ms:.1f} ms). "
                    "item(), tolist(), nonzero() and printing wait; move them out of the loop.")
        )  # fmt: skip
    idle = 1 - (r.busy_ms + r.inline_ms) / wall
    if idle >= IDLE and r.launches + r.inlined:
        per_call = (wall - r.wait_ms - r.primitive_ms - r.load_ms) / (r.launches + r.inlined) * 1e3
        out.append(
            (idle, f"The device had nothing to do for {idle:.0%} of the time: the host takes {per_call:.0f} us for each "
                   "of its commands. Larger batches, fused operators or torch.compile help.")
        )  # fmt: skip
    copying = r.copy_ms / wall
    if copying >= COPYING:
        out.append((copying, f"Copies between host and device take {copying:.0%} of the time ({r.copy_ms:.1f} ms)."))
    loading = r.load_ms / wall
    if loading >= LOADING:
        out.append(
            (loading, f"Loading {r.loads} kernel modules takes {loading:.0%} of the time, once per process. "
                      "Run a step before the one to measure.")
        )  # fmt: skip
    if r.kernels:
        first = r.kernels[0]
        part = first.total_ms / max(1e-9, sum(k.total_ms for k in r.kernels))
        if part >= DOMINANT:
            by = f", called by {first.operators.most_common(1)[0][0]}" if first.operators else ""
            out.append((part / 2, f"{first.name} takes {part:.0%} of the device's time in {first.calls} calls{by}."))
    if r.memory.retries:
        out.append((1, f"The allocator ran out of memory {r.memory.retries} times and emptied its cache to go on."))
    if r.memory.after > 2 * max(r.memory.before, 1 << 20):
        out.append(
            (
                0.05,
                f"{(r.memory.after - r.memory.before) / 2**20:.0f} MiB more are in use at the end than at the start.",
            )
        )
    if not out:
        return ["Nothing stands out: the device was busy, and no operator fell back."]
    return [text for _, text in sorted(out, key=lambda f: -f[0])]


def build(trace: Trace, fallback: dict[str, int], memory: Memory) -> Report:
    """Sum up a trace.

    Args:
        trace: of :func:`xpu_ops.profile.trace.read`.
        fallback: calls of the CPU fallback by operator, as :func:`xpu_ops.fallback.counts` has them.
        memory: of the caching allocator.
    """
    launched = [x for x in trace.executions if not x.inlined]
    waits: dict[str, float] = defaultdict(float)
    for w in trace.waits:
        if not w.primitive:
            waits[w.call.operator() if w.call else "outside operators"] += w.duration / 1e3
    report = Report(
        wall_ms=trace.span_us / 1e3,
        busy_ms=busy(launched) / 1e3,
        inline_ms=sum(x.duration for x in trace.executions if x.inlined) / 1e3,
        copy_ms=sum(x.duration for x in launched if "host" in x.name and x.kind == "gpu_memcpy") / 1e3,
        wait_ms=sum(waits.values()),
        primitive_ms=sum(w.duration for w in trace.waits if w.primitive) / 1e3,
        load_ms=sum(trace.loads) / 1e3,
        loads=len(trace.loads),
        waits=Counter(waits),
        launches=len(launched),
        inlined=len(trace.executions) - len(launched),
        operators=_operators(trace, fallback),
        kernels=_kernels(trace),
        fallback=fallback,
        memory=memory,
    )
    report.findings = _findings(report)
    return report
