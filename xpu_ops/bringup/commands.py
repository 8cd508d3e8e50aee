"""The parent of a bring-up: starts a process per stage, keeps what it says, and packs the archive."""

from __future__ import annotations

import json
import os
import platform
import queue
import signal
import statistics
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from importlib.metadata import distributions
from pathlib import Path
from typing import IO, Any

import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import xpu_ops
from xpu_ops.bringup.stages import STAGES

Record = dict[str, Any]
START_SECONDS = 120.0  # until the first item begins
LISTED = 40  # faults that the summary names


class Results:
    """One line per item in `results.jsonl`; a second run goes on behind it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self.records: list[Record] = []
        if self.path.exists():
            self.records = [json.loads(line) for line in self.path.read_text().splitlines()]

    def add(self, record: Record) -> None:
        self.records.append(record)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def names(self, stage: str) -> list[str]:
        return [r["name"] for r in self.records if r["stage"] == stage]


def _pump(stream: IO[str], lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _ended(code: int) -> str:
    if code < 0:
        return f"the process died of {signal.Signals(-code).name}"
    return f"the process ended with exit code {code}"


def run_stage(
    stage: str, source: str, seconds: float, results: Results, log: IO[str], until: float, tell: Callable[[str], None]
) -> None:
    """Runs the items of `source` (module:function) that have no result yet. After a crash or a hang a new process goes
    on with the next item; `until` is the time (monotonic) at which the stage stops."""
    while True:
        command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.bringup.worker", source]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(results.names(stage)))
        process.stdin.close()
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
        current, state, begun = "", "", time.monotonic()
        while True:
            left = min(until - time.monotonic(), begun + (seconds if current else START_SECONDS) - time.monotonic())
            try:
                line = lines.get(timeout=max(left, 0.01))
            except queue.Empty:
                state = "late" if time.monotonic() >= until else "hang"
                process.kill()
                break
            if line is None:
                break
            said = json.loads(line)
            if "begin" in said:
                current, begun = said["begin"], time.monotonic()
                tell(current)
            else:
                results.add({"stage": stage, **said})
                current, begun = "", time.monotonic()
        code = process.wait()
        if state == "late":
            tell("out of time")
            return
        limit = seconds if current else START_SECONDS
        text = f"no answer within {limit:.0f} s" if state == "hang" else _ended(code)
        if current or state or code:
            record = {"name": current or "(the stage)", "state": state or "crash", "text": text, "seconds": limit}
            results.add({"stage": stage, **record, "figures": {}})
        if not current:
            return


def summary(records: list[Record], facts: dict[str, Any]) -> str:
    """Markdown that a person reads first: counts, faults, times."""
    lines = ["# Bring-up of xpu_ops", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += [
        "",
        "| stage | ok | wrong | error | crash | hang | skipped | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for stage in STAGES:
        of = [r for r in records if r["stage"] == stage]
        if of:
            count = Counter(r["state"] for r in of)
            cells = [str(count[s]) for s in ("ok", "wrong", "error", "crash", "hang", "skipped")]
            lines.append(f"| {stage} | {' | '.join(cells)} | {sum(r['seconds'] for r in of):.0f} |")
    faults = [r for r in records if r["state"] not in ("ok", "skipped")]
    if faults:
        lines += ["", f"## Faults ({len(faults)})", ""]
        lines += [f"- {r['stage']}, {r['name']}: {r['state']}, {r['text']}" for r in faults[:LISTED]]
        if len(faults) > LISTED:
            lines.append(f"- {len(faults) - LISTED} more in results.jsonl")
    ratios: dict[str, list[float]] = {}
    for r in records:
        if r["stage"] == "benchmark" and r["state"] == "ok" and r["figures"].get("ratio"):
            ratios.setdefault(r["figures"]["section"], []).append(r["figures"]["ratio"])
    if ratios:
        lines += [
            "",
            "## Time of torch's CPU / time of xpu",
            "",
            "| section | rows | geometric mean | lowest |",
            "|---|---|---|---|",
        ]
        lines += [f"| {s} | {len(v)} | {statistics.geometric_mean(v):.2f} | {min(v):.2f} |" for s, v in ratios.items()]
    return "\n".join(lines) + "\n"


def pack(folder: Path) -> Path:
    """One archive of everything in the folder."""
    archive = folder.with_name(folder.name + ".tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    return archive


def about() -> dict[str, Any]:
    """The device, the switches that decide what runs on it, and the versions of all packages involved."""
    switches = {k: v for k, v in sorted(os.environ.items()) if k.startswith("XPU_OPS_") and k != "XPU_OPS_BUILD_DIR"}
    wanted = ("torch", "intel", "onednn", "onemkl", "mkl", "dpcpp", "tbb", "xpu", "triton", "numpy")
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"].lower().startswith(wanted)}
    return {
        "device": torch.xpu.get_device_name() if torch.xpu.is_available() else "none",
        "torch": torch.__version__,
        "xpu_ops": xpu_ops.__version__,
        "switches": switches,
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": packages,
    }


def main(folder: Path | None, stages: str, minutes: float) -> int:
    """Runs the stages; 1 where something is wrong, 2 for a stage that does not exist."""
    console = Console(stderr=True)
    chosen = [s for s in stages.split(",") if s] or list(STAGES)
    if unknown := [s for s in chosen if s not in STAGES]:
        console.print(f"xpu-ops bringup: no stage {', '.join(unknown)}; there are {', '.join(STAGES)}")
        return 2
    folder = folder or Path(f"xpu-ops-bringup-{date.today()}")
    results, facts = Results(folder), about()
    (folder / "about.json").write_text(json.dumps(facts, indent=1))
    until = time.monotonic() + minutes * 60
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (folder / "log.txt").open("a") as log, Progress(*columns, console=console) as progress:
        for number, stage in enumerate(chosen):
            task = progress.add_task(stage, total=None)
            # Each stage may take half of what is left, the last one all of it.
            now = time.monotonic()
            end = until if number + 1 == len(chosen) else now + (until - now) / 2
            show = lambda text, task=task, stage=stage: progress.update(task, description=f"{stage}: {text[:60]}")  # noqa: E731
            source = f"xpu_ops.bringup.stages:{STAGES[stage][0].__name__}"
            run_stage(stage, source, STAGES[stage][1], results, log, end, show)
            count = Counter(r["state"] for r in results.records if r["stage"] == stage)
            progress.update(
                task, description=f"{stage}: " + ", ".join(f"{n} {s}" for s, n in count.items()), total=1, completed=1
            )
    text = summary(results.records, facts)
    (folder / "summary.md").write_text(text)
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"Send this file: {pack(folder)}", soft_wrap=True)
    return int(any(r["state"] not in ("ok", "skipped") for r in results.records))
