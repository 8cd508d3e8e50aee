"""A profile as one page that needs no network and no other file: page.html with the JSON in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .report import Report
from .trace import Call, Trace

EVENTS_SHOWN = 120_000  # of calls and of executions in the timeline; the shortest are left out
SAMPLES_SHOWN = 4000  # of the memory curve
SMALLEST = 2e-4  # part of the whole that a box of the flame graph has at least


class _Names:
    """Each text once, and its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._index: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        at = self._index.setdefault(text, len(self.texts))
        if at == len(self.texts):
            self.texts.append(text)
        return at


def flame(trace: Trace) -> dict[str, Any]:
    """Calls with the same path of callers together: name, host and device microseconds, calls, children."""
    root: dict[str, Any] = {"name": "program", "host": 0.0, "device": 0.0, "calls": 1, "children": {}}

    def node(above: dict[str, Any], name: str) -> dict[str, Any]:
        found: dict[str, Any] = above["children"].setdefault(
            name, {"name": name, "host": 0.0, "device": 0.0, "calls": 0, "children": {}}
        )
        return found

    nodes: dict[Call, dict[str, Any]] = {}
    for c in trace.calls:  # callers come before what they call
        at = nodes[c] = node(nodes[c.parent] if c.parent else root, c.name)
        at["host"] += c.duration
        at["calls"] += 1
        if c.parent is None:
            root["host"] += c.duration
    for x in trace.executions:
        above = [nodes[c] for c in x.call.ancestors()] if x.call else []
        leaf = node(above[0] if above else root, x.name)
        leaf["calls"] += 1
        leaf["device"] += x.duration
        root["device"] += x.duration
        for at in above:
            at["device"] += x.duration
    return root


def _compact(node: dict[str, Any], names: _Names, whole: tuple[float, float]) -> list[Any]:
    """[name, host, device, calls, children], without boxes too small to see."""
    children = [
        _compact(c, names, whole)
        for c in sorted(node["children"].values(), key=lambda c: -c["host"] - c["device"])
        if c["host"] > SMALLEST * whole[0] or c["device"] > SMALLEST * whole[1]
    ]
    return [names[node["name"]], round(node["host"], 1), round(node["device"], 1), node["calls"], children]


def _depths(calls: list[Call]) -> dict[Call, int]:
    depths: dict[Call, int] = {}
    for c in calls:
        depths[c] = depths[c.parent] + 1 if c.parent else 0
    return depths


def document(report: Report, trace: Trace, title: str) -> dict[str, Any]:
    """Everything that the page shows."""
    names = _Names()
    depths = _depths(trace.calls)
    calls = sorted(trace.calls, key=lambda c: -c.duration)[:EVENTS_SHOWN]
    executions = sorted(trace.executions, key=lambda x: -x.duration)[:EVENTS_SHOWN]
    calls.sort(key=lambda c: c.start)
    executions.sort(key=lambda x: x.start)
    place = {c: i for i, c in enumerate(calls)}
    threads = {t: i for i, t in enumerate(dict.fromkeys(c.thread for c in trace.calls))}
    rows = {r: i for i, r in enumerate(dict.fromkeys((x.device, x.stream) for x in trace.executions))}
    root = flame(trace)
    step = max(1, len(trace.memory) // SAMPLES_SHOWN)
    return {
        "title": title,
        "span": trace.span_us,
        "report": report.as_dict(),
        "threads": [f"thread {t}" for t in threads],
        "streams": [f"xpu:{d} {trace.rows.get((d, s), f'stream {s}')}" for d, s in rows],
        "calls": [
            [names[c.name], threads[c.thread], depths[c], round(c.start, 2), round(c.duration, 2), names[c.shapes]]
            for c in calls
        ],
        "executions": [
            [
                names[x.name], rows[x.device, x.stream], round(x.start, 2), round(x.duration, 2), int(x.inlined),
                place.get(x.call, -1) if x.call else -1,
            ]
            for x in executions
        ],
        "waits": [[threads[w.thread], round(w.start, 2), round(w.duration, 2)] for w in trace.waits if w.thread in threads],
        "memory": [[round(t, 1), a, r] for t, a, r in trace.memory[::step]],
        "left_out": len(trace.calls) + len(trace.executions) - len(calls) - len(executions),
        "flame": _compact(root, names, (max(root["host"], 1e-9), max(root["device"], 1e-9))),
        "names": names.texts,
    }  # fmt: skip


def page(report: Report, trace: Trace, title: str) -> str:
    """The page."""
    # "</" would end the script element.
    text = json.dumps(document(report, trace, title), separators=(",", ":")).replace("</", "<\\/")
    return (Path(__file__).parent / "page.html").read_text().replace("__DATA__", text)
