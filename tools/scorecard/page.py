"""docs/scorecard.md from the record of the runs."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from tools.scorecard.suites import SUITES

HEAD = """# Scorecard

Suites that others wrote, run on `xpu`; written by `make scorecard`. A test that fails is run again on torch's CPU without the
device: "on the CPU, too" counts those that fail there as well, such as tests that want the network, and
of TorchCTS those whose comparison its tests leave out on the CPU and that fail there once it is made; "used xpu" those that allocated on the device, where that was counted. A fallback to the CPU fails a
test, as in any run of `pytest --xpu` ([testing](testing.md)). Strict is `--xpu-strict`: memory of its own, a GPU's plans, red zones,
poisoned memory, two devices. The device is the CPU; nothing here ran on a GPU.

| suite | version | mode | part | used xpu | passed | failed | on the CPU, too | skipped | expected | date |
|---|---|---|---|---|---|---|---|---|---|---|
"""
MODES = {"--xpu": "default", "--xpu-strict": "strict", "": "default"}


def row(r: dict[str, Any]) -> str:
    counts = r["counts"]
    part = "whole" if r["each"] == 1 else f"1 in {r['each']}"
    if r["early"]:
        part += f"; {r['early']}"
    if found := r.get("again"):
        part += f"; the {found['nodes']} that failed once more later"
    cells = [
        r["suite"], r["version"], MODES[r["mode"]], part, "" if (used := r.get("used")) is None else used, counts.get("passed", 0), len(r["failed"]), len(r["fails_on_cpu"]),
        counts.get("skipped", 0), counts.get("xfailed", 0) + counts.get("xpassed", 0), r["date"],
    ]  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def section(name: str, rows: list[dict[str, Any]]) -> str:
    about = next(s.about for s in SUITES if s.name == name)
    lines = [f"## {name}", "", about, ""]
    lines += ["```", *dict.fromkeys(r["command"] for r in rows), "```"]
    for r in rows:
        if r["ratios"]:
            ratios = sorted(r["ratios"].values())
            lines += ["", f"Time of torch's CPU to that of xpu, {len(ratios)} problems on a busy machine: geometric mean "
                          f"{statistics.geometric_mean(ratios):.2f}, {sum(v < 0.8 for v in ratios)} below 0.8."]  # fmt: skip
        pairs = [(e, e / c) for e, c in r.get("eager", {}).values()]
        if long := [v for e, v in pairs if e >= 0.5]:
            lines += ["", "Time of eager xpu to that of compiled: geometric mean "
                          f"{statistics.geometric_mean(v for _, v in pairs):.2f}; of the {len(long)} problems that take half a "
                          f"millisecond or more {statistics.geometric_mean(long):.2f}, {sum(v < 0.95 for v in long)} below 0.95, "
                          f"{sum(v < 0.8 for v in long)} below 0.8."]  # fmt: skip
    failed: dict[tuple[str, str, str], list[str]] = {}
    for r in rows:
        for f in r["failed"]:
            failed.setdefault((f["id"], f["error"], f["reason"]), []).append(MODES[r["mode"]])
    if failed:
        lines += ["", "| fails | mode | error | reason |", "|---|---|---|---|"]
        lines += [
            f"| `{cell(name)}` | {', '.join(modes)} | {cell(error)[:160]} | {reason or 'not looked at'} |"
            for (name, error, reason), modes in failed.items()
        ]
    if compared := sum(len(r.get("held", [])) for r in rows):
        lines += ["", f"Of those on the CPU, too, {compared} are never compared there by the suite itself."]
    told = [f"{MODES[r['mode']]}: {', '.join(r['fallbacks'])}" for r in rows if r["fallbacks"]]
    if told:
        lines += ["", "Fallbacks to the CPU: " + "; ".join(told) + "."]
    return "\n".join(lines) + "\n"


def write(rows: list[dict[str, Any]], path: Path) -> None:
    order = [s.name for s in SUITES]
    rows = sorted((r for r in rows if r["suite"] in order), key=lambda r: (order.index(r["suite"]), r["mode"]))
    parts = [section(name, of) for name in order if (of := [r for r in rows if r["suite"] == name])]
    path.write_text(HEAD + "\n".join(map(row, rows)) + "\n\n" + "\n".join(parts))
