"""Two builds of the product against each other, row by row in turn: `python -m tools.bench_pair OLD_TREE NEW_TREE`.

A virtual machine drifts by more than a build may lose, so that two runs of the benchmark one after the other say little. Here
one process per build holds the same row, and both are timed in turns of a few milliseconds. Figures are old time / new time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = r"""
import sys, time, json, warnings
warnings.filterwarnings("ignore")
import torch
torch.set_num_threads(2)
from xpu_ops.bench import cases
from xpu_ops.bench.core import _timed, to_xpu
given = sys.stdin
todo = cases.cases(sys.argv[1])
case = next(todo, None)
def say(x):
    try:
        print(json.dumps(x), flush=True)
    except BrokenPipeError:
        sys.exit()
while case is not None:
    say([case.section, case.name])
    line = given.readline().split()
    if not line:
        break
    if line[0] == "skip":
        case = next(todo, None)
        continue
    args = None
    try:
        torch.manual_seed(0)
        args = to_xpu(case.args)
        for _ in range(3):
            case.function(*args)
        torch.xpu.synchronize()
        once = min(_timed(case.function, args, 1, True) for _ in range(3))
        say(max(case.inner, min(2000, int(0.02 / max(once, 1e-7)))) or 1)
        while (line := given.readline().split()) and line[0] == "time":
            say(_timed(case.function, args, int(line[1]), True))
    except Exception as error:
        say(None)
        given.readline()
    args = case = None
    case = next(todo, None)
say(None)
"""


def environment(tree: Path) -> dict[str, str]:
    """The variables under which Python finds the build of a tree."""
    build = tree.resolve() / "build"
    return os.environ | {"PYTHONPATH": str(build / "python"), "XPU_OPS_BUILD_DIR": str(build)}


class Build:
    """The process of one build; it waits at a row until told."""

    def __init__(self, tree: Path, level: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, level],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(tree),
            cwd="/",
        )
        self.row: list[str] | None = self.hear()

    def hear(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline() or "null")

    def tell(self, text: str) -> Any:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.hear()

    def skip(self) -> None:
        self.row = self.tell("skip")


def common(old: Build, new: Build, rows: set[tuple[str, ...]]) -> bool:
    """Moves both to the next row that both have."""
    while old.row and new.row:
        if tuple(new.row) not in rows:
            new.skip()
        elif old.row != new.row:
            old.skip()
        else:
            return True
    return False


def names(tree: Path, level: str) -> set[tuple[str, ...]]:
    """Sections and names of the rows of a build."""
    code = "import sys, json; from xpu_ops.bench import cases; print(json.dumps([[c.section, c.name] for c in cases.cases(sys.argv[1])]))"
    text = subprocess.run(
        [sys.executable, "-c", code, level], env=environment(tree), cwd="/", capture_output=True, text=True, check=True
    )
    return {tuple(r) for r in json.loads(text.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="tree with a build")
    parser.add_argument("new", type=Path, help="tree with a build")
    parser.add_argument("--level", default="core")
    parser.add_argument("--filter", default="", help="only rows whose section or name contains this")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--least", type=float, default=0.97, help="the geometric mean that no section may fall below")
    args = parser.parse_args()
    rows = {r for r in names(args.old, args.level) & names(args.new, args.level) if args.filter in " ".join(r)}
    old, new = Build(args.old, args.level), Build(args.new, args.level)
    sections: dict[str, list[tuple[float, str, float, float]]] = {}
    while common(old, new, rows):
        assert new.row
        section, name = new.row
        calls = [b.tell("start") for b in (old, new)]
        if None not in calls:
            least = min(calls)
            times: tuple[list[float], list[float]] = ([], [])
            for i in range(args.rounds):
                for k in (i % 2, 1 - i % 2):
                    times[k].append((old, new)[k].tell(f"time {least}"))
            # The quartile below the median: what another process takes only adds.
            before, after = (statistics.quantiles(t, n=4)[0] for t in times)
            sections.setdefault(section, []).append((before / after, name, before * 1e6, after * 1e6))
        for b in (old, new):
            b.row = b.tell("next")
    for b in (old, new):
        b.process.kill()
    failed = False
    for section, found in sections.items():
        mean = statistics.geometric_mean(r[0] for r in found)
        failed |= mean < args.least
        lowest = ", ".join(f"{r[0]:.2f} {r[1]} ({r[2]:.0f} to {r[3]:.0f} us)" for r in sorted(found)[:3])
        print(f"{section}: {len(found)} rows, {mean:.3f}; lowest {lowest}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
