"""TorchCTS on xpu: `python -m tools.scorecard.cts <folder>`. Also the pytest plugin of its runs.

Nodes that fail run again on torch's CPU. Many tests return there before they compare: those that passed so run once more with
a copy of the suite that holds the CPU to the same values. A process that a node ends, or that stays in one, is followed by one
from the next node on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

SECONDS = 300  # of a node
COLLECTING = 600  # seconds: TorchCTS asks the CPU about every sample before the first node
# How tests ask whether they run on the CPU, where they then return before they compare.
ON_CPU = re.compile(r'torch\.device\(device\)\.type == "cpu"|(?<=if )device == "cpu"(?=:)|(?<=and )device [!]= "cpu"')
# JSON for the plugin: file of results, n of every n-th, [k, n] to take the k-th of n parts, ids, id after which to begin, folder of the suite
SETTINGS = "SCORECARD_CTS"


def settings() -> dict[str, Any]:
    return dict(json.loads(os.environ.get(SETTINGS, "{}")))


def pytest_configure() -> None:
    """Leaves out what takes most of its time: its table of releases is made once, and samples have no test to be named after.

    For the latter torch goes through the stack with the sources of each frame, 80 ms per operator and type.
    """
    from torch.testing._internal import common_utils
    from torch.testing._internal.opinfo import core
    from torchcts import op_metadata

    common_utils.extract_test_fn = core.extract_test_fn = lambda: None

    slow = op_metadata._validation_metadata
    known: dict[int, Any] = {}
    kept: list[Any] = []  # so that no other table gets the id of one

    def once(metadata: dict[str, Any] | None) -> Any:
        if id(metadata) not in known:
            kept.append(metadata)
            known[id(metadata)] = slow(metadata)
        return known[id(metadata)]

    op_metadata._validation_metadata = once


def name_of(nodeid: str) -> str:
    """A node's id below the package: the part before depends on what runs beside it."""
    return nodeid.rpartition("torchcts/")[2]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = settings()
    if ids := wanted.get("ids"):
        items[:] = [item for item in items if name_of(item.nodeid) in set(ids)]
    items[:] = items[:: wanted.get("each", 1)]
    first, step = wanted.get("part", (0, 1))
    items[:] = items[first::step]
    names = [name_of(item.nodeid) for item in items]
    if wanted.get("after") in names:
        del items[: names.index(wanted["after"]) + 1]


def pytest_runtest_logstart(nodeid: str) -> None:
    write({"id": name_of(nodeid), "started": True})


def pytest_runtest_logreport(report: Any) -> None:
    from tools.scorecard.part import _first_line

    if report.when != "call" and report.outcome == "passed":
        return
    line = {"id": name_of(report.nodeid), "when": report.when, "outcome": report.outcome}
    write(line | ({"error": _first_line(report.longrepr)} if report.failed else {}))


def write(line: dict[str, Any]) -> None:
    if path := settings().get("results"):
        with Path(path).open("a") as out:
            out.write(json.dumps(line) + "\n")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def nodes(folder: Path, device: str, level: int, part: list[str], wanted: dict[str, Any], jobs: int = 1) -> None:
    """Runs nodes in processes, `jobs` at a time, each on a processor of its own where there are several."""
    results = Path(wanted["results"])
    processors = sorted(os.sched_getaffinity(0))
    if jobs == 1:
        return in_turn(folder, device, level, part, wanted, set(processors))
    files = [results.with_suffix(f".{k}") for k in range(jobs)]

    def one(k: int) -> None:
        own = folder / f"part{k}"
        own.mkdir(exist_ok=True)
        (own / "manifest.py").write_text((folder / "manifest.py").read_text())
        mine = wanted | {"results": str(files[k]), "part": [k, jobs]}
        in_turn(own, device, level, part, mine, {processors[k % len(processors)]})

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, range(jobs)))
    with results.open("a") as out:
        for file in files:
            if file.exists():
                out.write(file.read_text())
                file.unlink()


def in_turn(
    folder: Path, device: str, level: int, part: list[str], wanted: dict[str, Any], processors: set[int]
) -> None:
    """Runs nodes in one process after the other until none is left."""
    results = Path(wanted["results"])
    env = os.environ | {"PYTHONPATH": f"{wanted['suite']}:{os.environ.get('PYTHONPATH', '')}"}
    options = ["--device", device, "--level", str(level), "--non-interactive"]
    options += ["--results-dir", str(folder / "results"), "--memory-mode", "performance"]
    command = [sys.executable, "-m", "torchcts", "run", *options, "-p", "tools.scorecard.cts", "-q", *part]
    while True:
        size = results.stat().st_size if results.exists() else 0
        since, limit = time.monotonic(), COLLECTING
        child = subprocess.Popen(command, cwd=folder, env=env | {SETTINGS: json.dumps(wanted)})
        os.sched_setaffinity(child.pid, processors)
        while child.poll() is None:
            time.sleep(1)
            if results.exists() and (now := results.stat().st_size) != size:
                size, since, limit = now, time.monotonic(), SECONDS
            elif time.monotonic() - since > limit:
                child.kill()
        found = lines(results)
        if not found or not found[-1].get("started") or found[-1]["id"] == wanted.get("after"):
            return
        wanted["after"] = found[-1]["id"]


def held(tests: Path, folder: Path) -> Path:
    """A copy of the suite whose tests compare on the CPU, too."""
    copy = folder / "held" / tests.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tests, copy)
    for part in ("generated", "operators", "opinfo"):
        for file in (copy / part).rglob("*.py"):
            file.write_text(ON_CPU.sub(lambda m: str("!=" in m[0]), file.read_text()))
    return copy


def on_cpu(folder: Path, results: Path, level: int, jobs: int, tests: Path, ids: list[str]) -> dict[str, str]:
    """How these nodes end on torch's CPU."""
    if not ids:
        return {}
    files = sorted({str(tests / name.partition("::")[0]) for name in ids})
    wanted = {"results": str(results), "ids": ids, "suite": str(tests.parent)}
    nodes(folder, "cpu", level, files, wanted, min(jobs, len(ids)))
    from tools.scorecard.__main__ import outcomes

    found = outcomes(lines(results))
    return {name: found.get(name, {}).get("outcome", "missing") for name in ids}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.scorecard.cts", description=__doc__)
    parser.add_argument("folder", type=Path, help="where its manifest and results go")
    parser.add_argument("--results", type=Path, required=True, help="file that gets two lines per node")
    parser.add_argument("--each", type=int, default=1, help="take each n-th node")
    parser.add_argument("--repeats", type=int, default=0, help="unused: nothing is timed")
    parser.add_argument("--level", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--ids", type=Path, help="file of the nodes to run, as JSON")
    parser.add_argument("--part", action="append", default=[], help="a file or folder of its tests; may be repeated")
    args = parser.parse_args()
    import torchcts

    folder = args.folder.resolve()
    if not (folder / "manifest.py").exists():
        init = ["init", "--template", "complete", "--non-interactive"]
        subprocess.run([sys.executable, "-m", "torchcts", *init], cwd=folder, check=True)
    tests = Path(torchcts.__file__).parent
    ids = json.loads(args.ids.read_text()) if args.ids else []
    part = [str(tests / p) for p in args.part or sorted({name.partition("::")[0] for name in ids})]
    results = args.results.resolve()
    wanted = {"results": str(results), "each": args.each, "ids": ids, "suite": str(tests.parent)}
    nodes(folder, "xpu", args.level, part, wanted, args.jobs)
    from tools.scorecard.__main__ import outcomes

    failed = [name for name, line in outcomes(lines(results)).items() if line["outcome"] == "failed"]
    found = on_cpu(folder, results.with_suffix(".cpu"), args.level, args.jobs, tests, failed)
    passed = [name for name in failed if found[name] == "passed"]
    again = on_cpu(folder, results.with_suffix(".held"), args.level, args.jobs, held(tests, folder), passed)
    found |= {name: "held" for name, outcome in again.items() if outcome == "failed"}
    with results.open("a") as out:
        for name, line in outcomes(lines(results)).items():
            if line["outcome"] == "failed" and found[name] != "passed":
                out.write(json.dumps({"id": name} | line | {"on_cpu": found[name]}) + "\n")


if __name__ == "__main__":
    main()
