"""Replays and sanitizer runs over many recordings, each in processes of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 120  # of one process
NOT_RUN = ("no kernel", "not launchable")  # states of launches that were not executed
MOST_RESTARTS = 25
# compute-sanitizer names a kernel in each report.
REPORT = re.compile(r"^========= (?!    )(\S.*)$", re.MULTILINE)
HEADINGS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY")
AT_KERNEL = re.compile(r"(?:at|in) (?:void )?__sycl_kernel_(\w+)")


def stem(path: Path) -> str:
    return path.name.partition(".")[0]


def results_of(path: Path) -> list[dict[str, Any]]:
    """A line per launch; a launch that killed its process has one without a state."""
    found: dict[int, dict[str, Any]] = {}
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            record = json.loads(text)
        except ValueError:  # the process died within the line
            continue
        found[record["number"]] = {**found.get(record["number"], {}), **record}
    return [found[n] for n in sorted(found)]


@dataclass
class Run:
    """One way to execute the recordings."""

    recordings: list[Path]
    work: Path
    jobs: int
    prefix: list[str] = field(default_factory=list)  # a sanitizer
    options: list[str] = field(default_factory=list)
    end: float = 0.0  # on the monotonic clock

    def _process(self, path: Path, results: Path, log: Path, first: int) -> int:
        command = [*self.prefix, sys.executable, "-m", "tools.gpu.device.replay", str(path), *self.options]
        command += ["--results", str(results), "--first", str(first)]
        left = min(SECONDS, self.end - time.monotonic())
        if left <= 0:
            return -1
        with open(log, "a") as out:
            try:
                return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, timeout=left).returncode
            except subprocess.TimeoutExpired:
                return -1

    def _file(self, path: Path) -> list[dict[str, Any]]:
        results, log = self.work / f"{stem(path)}.jsonl", self.work / f"{stem(path)}.log"
        results.unlink(missing_ok=True)
        log.unlink(missing_ok=True)
        first = 0
        for _ in range(MOST_RESTARTS):
            if self._process(path, results, log, first) == 0 or time.monotonic() > self.end:
                break
            done = results_of(results)
            if not done or done[-1]["number"] < first:  # it died before its first launch
                break
            first = done[-1]["number"] + 1
            if "state" not in done[-1]:
                text = log.read_text().rstrip().rpartition("\n")[2]
                with open(results, "a") as out:
                    out.write(json.dumps({**done[-1], "state": "fatal", "text": text[:300]}) + "\n")
        return results_of(results)

    def execute(self) -> list[dict[str, Any]]:
        self.work.mkdir(parents=True, exist_ok=True)
        largest_first = sorted(self.recordings, key=lambda p: -p.stat().st_size)
        with ThreadPoolExecutor(self.jobs) as pool:
            return [record for found in pool.map(self._file, largest_first) for record in found]


def replay(recordings: list[Path], out: Path, jobs: int, options: list[str], seconds: float) -> list[dict[str, Any]]:
    """Every recorded launch; writes <out>/replay.json."""
    start = time.monotonic()
    run = Run(recordings, Path("/tmp/gpu_replay"), jobs, options=options, end=start + seconds)
    results = run.execute()
    counts = Counter(r.get("state", "cut off") for r in results)
    print(f"replay: {len(results)} launches in {time.monotonic() - start:.0f} s: {dict(counts)}", flush=True)
    for r in results:
        if r.get("state") not in ("same", "within", "no kernel", None):
            print(f"  {r['kernel']} {r.get('state')} {r.get('text', '')[:160]} [{r['test']}]")
    (out / "replay.json").write_text(json.dumps(results))
    return results


def reports(text: str) -> dict[str, Counter[str]]:
    """The reports of a sanitizer, by kernel: the first line of each report."""
    found: dict[str, Counter[str]] = {}
    for block in re.split(r"^=========\s*$", text, flags=re.MULTILINE):
        kernel = AT_KERNEL.search(block)
        lines = [t for t in REPORT.findall(block) if not t.startswith(HEADINGS)]
        if kernel and lines:
            found.setdefault(kernel[1], Counter())[re.sub(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)", "_", lines[0])] += 1
    return found


def sanitize(
    tool: str, recordings: list[Path], out: Path, jobs: int, options: list[str], seconds: float
) -> dict[str, Any]:
    """One sanitizer over one launch of each kernel and work-group; writes <out>/<tool>.json."""
    start = time.monotonic()
    work = Path(f"/tmp/gpu_{tool}")
    prefix = ["compute-sanitizer", "--tool", tool, "--kernel-name", "kns=__sycl_kernel", "--print-limit", "200"]
    exact = ["--exact"] if tool == "memcheck" else []
    run = Run(recordings, work, jobs, prefix, [*options, "--once", *exact], start + seconds)
    results = run.execute()
    found: dict[str, Counter[str]] = {}
    for path in recordings:
        log = work / f"{stem(path)}.log"
        for kernel, texts in reports(log.read_text() if log.exists() else "").items():
            found.setdefault(kernel, Counter()).update(texts)
    kernels = sorted({r["digest"] + r["kernel"] for r in results if r.get("state", NOT_RUN[0]) not in NOT_RUN})
    print(f"{tool}: {len(kernels)} kernels in {time.monotonic() - start:.0f} s, {len(found)} with reports", flush=True)
    for kernel, texts in sorted(found.items()):
        print(f"  {kernel}: {dict(texts.most_common(3))}")
    record = {"tool": tool, "kernels": kernels, "reports": {k: dict(v) for k, v in found.items()}}
    (out / f"{tool}.json").write_text(json.dumps(record))
    return record
