"""python -m tools.gpu.report: what the GPU run showed, per kernel, against the ledger; the tables of docs/gpu.md.

Reads the results of `make gpu-replay` and `make gpu-bench`. Exit code 1 where a kernel differs, fails or is reported by a
sanitizer, and tools/gpu/known_differences.yaml does not say why.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from tools.gpu.cases import GOALS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SANITIZERS = ("memcheck", "racecheck", "synccheck")
# From best to worst: a kernel is as good as its worst launch.
STATES = ("same", "within", "not launchable", "no kernel", "differs", "fatal")
GOOD = ("same", "within")


@dataclass
class Entry:
    """Known differences of some kernels."""

    kernels: list[str]
    state: str
    reason: str
    used: bool = False

    def covers(self, kernel: str, state: str) -> bool:
        return state == self.state and any(fnmatchcase(kernel, pattern) for pattern in self.kernels)


class Ledger:
    def __init__(self, path: Path = HERE / "known_differences.yaml") -> None:
        self.entries = [Entry(**e) for e in yaml.safe_load(path.read_text())]
        for e in self.entries:
            if not e.reason or e.state not in (*STATES, "not recorded", *SANITIZERS):
                raise ValueError(f"known_differences.yaml: {e}")

    def explains(self, kernel: str, state: str) -> bool:
        found = [e for e in self.entries if e.covers(kernel, state)]
        for e in found:
            e.used = True
        return bool(found)

    def unused(self) -> list[Entry]:
        return [e for e in self.entries if not e.used]


def by_kernel(results: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The worst launch of each kernel; kernels compiled at run time by digest and name.

    A launch without code counts where no run had code for the kernel.
    """
    worst: dict[str, dict[str, Any]] = {}
    with_code = {r["digest"] + r["kernel"] for r in results if r.get("state", "no kernel") != "no kernel"}
    for r in results:
        if "state" not in r or (r["state"] == "no kernel" and r["digest"] + r["kernel"] in with_code):
            continue
        name = f"{r['digest']}:{r['kernel']}" if r["digest"] else r["kernel"]
        old = worst.get(name)
        rank = (STATES.index(r["state"]), r.get("excess", 0.0))
        if old is None or rank > (STATES.index(old["state"]), old.get("excess", 0.0)):
            worst[name] = r
    return worst


@dataclass
class Summary:
    """Counts for the page, and what the ledger does not explain."""

    lines: list[str]
    unexplained: list[str]


def replayed(folders: list[Path], kernels: dict[str, Any], ledger: Ledger) -> Summary:
    def records(name: str) -> list[Any]:
        return [json.loads(path.read_text()) for folder in folders if (path := folder / name).exists()]

    results = [r for launches in records("replay.json") for r in launches]
    worst = by_kernel(results)
    wanted = {k for k, e in kernels.items() if not e.get("cpu_only")}
    unexplained = []
    states = Counter(r["state"] for name, r in worst.items() if ":" not in name and name in wanted)
    for name, r in sorted(worst.items()):
        if r["state"] not in GOOD and not ledger.explains(name, r["state"]):
            unexplained.append(f"{name}: {r['state']} {r.get('text', '')} [{r['test']}]")
    unexplained += [
        f"{k}: launched, though cpu_plans says otherwise" for k in sorted(set(worst) & (kernels.keys() - wanted))
    ]
    missing = sorted(k for k in wanted - set(worst) if not ledger.explains(k, "not recorded"))
    compared = sum(r.get("state") in (*GOOD, "differs") for r in results)
    done = sum(states[s] for s in (*GOOD, "differs"))
    explained = sum(r["state"] == "differs" and ledger.explains(n, "differs") for n, r in worst.items() if n in wanted)
    compiled = Counter(r["state"] for name, r in worst.items() if ":" in name)
    lines = [
        "| replayed | |",
        "|---|---|",
        f"| kernels that a GPU can launch, as the manifest counts them | {len(wanted)} |",
        f"| of these recorded, executed and compared | {done} ({done / len(wanted):.1%}) |",
        f"| launches compared | {compared} |",
        f"| kernels whose worst launch has the CPU device's bits | {states['same']} |",
        f"| is within the tests' tolerance | {states['within']} |",
        f"| differs, with a reason in the ledger | {explained} |",
        f"| cannot be launched by CUDA | {states['not launchable']} |",
        f"| kernels compiled at run time (Inductor, Triton, jit): the same or within, others | {compiled['same'] + compiled['within']}, {compiled.total() - compiled['same'] - compiled['within']} |",
    ]
    for tool in SANITIZERS:
        runs = records(f"{tool}.json")
        if not runs:
            lines.append(f"| {tool} | not run |")
            continue
        checked = {k for run in runs for k in run["kernels"]}
        reports = {k: r for run in runs for k, r in run["reports"].items()}
        open_reports = {k: r for k, r in reports.items() if not ledger.explains(k, tool)}
        unexplained += [f"{k}: {tool} {r}" for k, r in sorted(open_reports.items())]
        lines.append(f"| {tool}: kernels, with reports | {len(checked)}, {len(reports)} |")
    print(f"gpu-report: {len(missing)} kernels without a recorded launch: {', '.join(missing[:40])}")
    return Summary(lines, unexplained)


def measured(folder: Path) -> list[str]:
    """The table of the benchmark."""
    record = json.loads((folder / "bench.json").read_text())
    lines = [
        f"{record['device']}, torch {record['torch']}; a copy of 1 GiB at {record['peak'] / 1e9:,.0f} GB/s is 1.00.",
        "",
        "| group | case | us | share | torch us | share | ratio | |",
        "|---|---|--:|--:|--:|--:|--:|---|",
    ]
    ratios: dict[str, list[float]] = defaultdict(list)
    for f in record["figures"]:
        if f["failed"]:
            lines.append(f"| {f['group']} | {f['name']} | | | | | | {f['failed']} |")
            continue
        ratio = f["us"] / f["torch_us"]
        ratios[f["group"]].append(ratio)
        note = "" if f["right"] else f"wrong: {f['error']}"
        if f["commands"]:
            note = ", ".join(filter(None, [note, f"without {f['commands']} copies or fills"]))
        lines.append(
            f"| {f['group']} | {f['name']} | {f['us']:,.0f} | {f['share']:.2f} | {f['torch_us']:,.0f} | {f['torch_share']:.2f} | {ratio:.2f} | {note} |"
        )
    lines += ["", "| group | cases | geometric mean of the ratio | largest | goal of each |", "|---|--:|--:|--:|--:|"]
    everything = [r for group in ratios.values() for r in group]
    for group, found in [*ratios.items(), ("all", everything)]:
        mean = math.exp(sum(math.log(r) for r in found) / len(found))
        lines.append(f"| {group} | {len(found)} | {mean:.2f} | {max(found):.2f} | {GOALS.get(group, '')} |")
    return lines


def insert(page: Path, name: str, lines: list[str]) -> None:
    """Replaces what stands between the page's markers of this name."""
    begin, end = f"<!-- {name}: written by make gpu-report -->", f"<!-- end of {name} -->"
    text = page.read_text()
    if begin not in text or end not in text:
        raise ValueError(f"{page} has no markers of {name}")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    block = "\n".join([begin, *lines, end])
    page.write_text(re.sub(pattern, lambda _: block, text, flags=re.DOTALL))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.report", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="folders that runs on the GPU have filled")
    parser.add_argument("--types", type=Path, default=Path("build/gpu/kernels.json"))
    parser.add_argument("--page", type=Path, help="page whose tables are written: docs/gpu.md")
    args = parser.parse_args()
    ledger = Ledger()
    unexplained = []
    if any((folder / "replay.json").exists() for folder in args.results):
        summary = replayed(args.results, json.loads(args.types.read_text())["kernels"], ledger)
        print("\n".join(summary.lines))
        unexplained = summary.unexplained
        for text in unexplained:
            print(f"  not in the ledger: {text[:300]}")
        for e in ledger.unused():
            print(f"  not needed in this run: {e.kernels} {e.state}")
        if args.page:
            insert(args.page, "replay", summary.lines)
    if timed := [folder for folder in args.results if (folder / "bench.json").exists()]:
        lines = measured(timed[-1])
        print("\n".join(lines))
        if args.page:
            insert(args.page, "bench", lines)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
