"""A program's operators on xpu, each with its calls, how they ran and how long they took."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from . import observe

__all__ = ["Operator", "Trace", "trace_ops"]

SCHEMA = 1
SHAPES_SHOWN = 8


@dataclass
class Operator:
    """Calls of one overload that ran the same way. Times are milliseconds.

    how: native, composite (its time is also that of the calls it is made of), fallback. host: until the call returned;
    device: from then until the queue was empty. below: CPU operators that the kernel itself called.

    Source: at::RecordFunction (bindings/runtime/observer.cpp).
    """

    name: str
    how: str
    calls: int = 0
    host_ms: float = 0.0
    device_ms: float = 0.0
    load_ms: float = 0.0
    dtypes: list[str] = field(default_factory=list)
    shapes: dict[str, int] = field(default_factory=dict)  # calls by signature, most frequent first
    below: list[str] = field(default_factory=list)

    @property
    def total_ms(self) -> float:
        return self.host_ms + self.device_ms

    def as_dict(self) -> dict[str, Any]:
        shown = dict(list(self.shapes.items())[:SHAPES_SHOWN])
        return {
            **{k: getattr(self, k) for k in ("name", "how", "calls", "dtypes", "below")},
            "host_ms": round(self.host_ms, 4),
            "device_ms": round(self.device_ms, 4),
            "load_ms": round(self.load_ms, 4),
            "shapes": shown,
            "other_shapes": len(self.shapes) - len(shown),
        }


class Trace:
    """Filled when the block of :func:`trace_ops` ends.

    Source: at::RecordFunction (bindings/runtime/observer.cpp).
    """

    def __init__(self, timed: bool) -> None:
        self.timed = timed
        self.seconds = 0.0  # of the whole block
        self.operators: list[Operator] = []  # most time first

    def _fill(self, calls: list[observe.Call], seconds: float) -> None:
        self.seconds = seconds
        grouped: dict[tuple[str, str], Operator] = {}
        dtypes: dict[tuple[str, str], set[str]] = defaultdict(set)
        shapes: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for c in calls:
            if c.inner or c.how == "raised":
                continue
            # A kernel that computes on the CPU, or calls what falls back, is a fallback by another name.
            how = "fallback" if c.how == "native+fallback" or (c.how == "native" and c.cpu_below) else c.how
            key = (c.overload, how)
            op = grouped.setdefault(key, Operator(*key))
            op.calls += c.calls
            op.host_ms += c.host_ns / 1e6
            op.device_ms += c.device_ns / 1e6
            op.load_ms += c.load_ns / 1e6
            op.below = sorted({*op.below, *c.cpu_below})
            if c.dtype:
                dtypes[key].add(c.dtype)
            shapes[key][c.signature] += c.calls
        for key, op in grouped.items():
            op.dtypes = sorted(dtypes[key])
            op.shapes = dict(sorted(shapes[key].items(), key=lambda item: -item[1]))
        self.operators = sorted(grouped.values(), key=lambda o: -o.total_ms)

    @property
    def leaves(self) -> list[Operator]:
        """Native calls and fallbacks: what the time is made of."""
        return [o for o in self.operators if not o.how.startswith("composite")]

    @property
    def fallbacks(self) -> list[Operator]:
        """Fallbacks, those that cost most first: candidates for a kernel."""
        return [o for o in self.operators if o.how == "fallback"]

    @property
    def operator_ms(self) -> float:
        """Time in operators on xpu, nothing counted twice."""
        return sum(o.total_ms for o in self.leaves)

    @property
    def load_ms(self) -> float:
        """Time to load kernel modules, which the first calls of kernels take."""
        return sum(o.load_ms for o in self.leaves)

    @property
    def fallback_share(self) -> float:
        """Part of that time spent in fallbacks, 0 to 1."""
        total = self.operator_ms
        return sum(o.total_ms for o in self.fallbacks) / total if total else 0.0

    @property
    def native_share(self) -> float:
        """Part of the calls that were native, 0 to 1; 1 where there were none."""
        calls = sum(o.calls for o in self.leaves)
        return 1.0 - sum(o.calls for o in self.fallbacks) / calls if calls else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The trace as JSON, see docs/coverage.md."""
        return {
            "trace_schema": SCHEMA,
            "torch": torch.__version__,
            "timed": self.timed,
            "seconds": round(self.seconds, 4),
            "operator_ms": round(self.operator_ms, 4),
            "load_ms": round(self.load_ms, 4),
            "fallback_share": round(self.fallback_share, 6),
            "native_share": round(self.native_share, 6),
            "operators": [o.as_dict() for o in self.operators],
            "next": [
                {
                    "name": o.name,
                    "dtypes": o.dtypes,
                    "calls": o.calls,
                    "ms": round(o.total_ms, 4),
                    "share": round(o.total_ms / self.operator_ms, 6) if self.operator_ms else 0.0,
                }
                for o in self.fallbacks
            ],
        }


@contextmanager
def trace_ops(*, timed: bool = True) -> Iterator[Trace]:
    """Record every operator that runs on xpu in this block, on every thread.

    Args:
        timed: wait for the device after each kernel, so that each has a time of its own. The program runs slower for it;
            with False device times are 0 and the program keeps its pace, but the time of a kernel that another waits
            for is counted with the other.

    Yields:
        A :class:`Trace`, filled when the block ends.

    Raises:
        RuntimeError: where a trace is running already.

    Source: at::RecordFunction (bindings/runtime/observer.cpp).
    """
    trace = Trace(timed)
    torch.xpu.synchronize()
    begin = time.perf_counter()

    with observe.observing(timed=timed, signatures=True):
        try:
            yield trace
        finally:
            torch.xpu.synchronize()
            seconds = time.perf_counter() - begin
            calls, _ = observe.drain()
            trace._fill(calls, seconds)
