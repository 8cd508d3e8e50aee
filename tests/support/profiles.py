"""The parts of a profile of torch.profiler that tests read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.XPU]


def device_events(prof: profile) -> list[Any]:
    """Executions on the device, in the order in which they began."""
    events = [e for e in prof.events() if e.device_type == DeviceType.XPU and not e.is_user_annotation]
    return sorted(events, key=lambda e: e.time_range.start)


def names(prof: profile) -> Counter[str]:
    """Executions on the device by name."""
    return Counter(e.name for e in device_events(prof))


def trace_of(prof: profile, folder: Path) -> list[dict[str, Any]]:
    """The events of the exported trace."""
    path = folder / "trace.json"
    prof.export_chrome_trace(str(path))
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def on_device(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The executions among the events of a trace."""
    return [e for e in trace if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
