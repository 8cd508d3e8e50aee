"""python -m tools.scorecard: runs suites that others wrote on xpu and writes docs/scorecard.md.

A test that fails is run again on torch's CPU, with the device hidden, so that what fails there, too, is not counted against xpu.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.scorecard import page
from tools.scorecard.suites import SUITES, Suite

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "scorecard.json"


def fetch(suite: Suite, folder: Path) -> None:
    """The suite's files, and what it imports, below `folder`. What is there stays."""
    if not (folder / suite.folder).is_dir():
        if not suite.source:  # all of it is a package
            (folder / suite.folder).mkdir()
        elif suite.source == "pypi":
            pip("download --no-binary :all: --no-build-isolation -d", str(folder), f"{suite.name}=={suite.version}")
            subprocess.run(["tar", "xzf", folder / f"{suite.folder}.tar.gz", "-C", folder], check=True)
        else:
            clone = str(folder / suite.folder)
            subprocess.run(["git", "clone", "--quiet", suite.source, clone], check=True)
            subprocess.run(["git", "-C", clone, "checkout", "--quiet", suite.commit], check=True)
            subprocess.run(["git", "-C", clone, "submodule", "update", "--quiet", "--init"], check=True)
    for name in suite.adds:
        (folder / suite.folder / name).touch()
    done = folder / f".{suite.folder}.packages"
    if suite.packages and not done.exists():
        pip("install --upgrade --target", str(folder / "packages"), *suite.packages)
        done.touch()


def pip(options: str, *arguments: str) -> None:
    verb, *rest = options.split()
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--no-deps", *rest, *arguments]
    subprocess.run(command, check=True)


def environment(suite: Suite, folder: Path, on_cpu: bool) -> dict[str, str]:
    paths = [
        folder / suite.folder,
        folder / "packages",
        ROOT,
        *filter(None, os.environ.get("PYTHONPATH", "").split(":")),
    ]
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # such as accelerate
    found = os.environ | suite.environment | {"PYTHONPATH": ":".join(map(str, paths)), "PATH": programs}
    if on_cpu:
        found["XPU_OPS_DEVICE_MAPPING"] = "gpu"  # none: torch sees no xpu device
    return found


def command(suite: Suite, mode: str, each: int, repeats: int) -> list[str]:
    if suite.module:
        name, *options = suite.module.split()
        return ["-m", f"tools.scorecard.{name}", ".", *options, "--each", str(each), "--repeats", str(repeats)]
    options = ["-p", "tools.scorecard.part", "-p", "no:cacheprovider", "-q", "--each", str(each)]
    return ["-m", "pytest", *filter(None, [mode]), *suite.tests, *options]


def execute(
    arguments: list[str], cwd: Path, env: dict[str, str], minutes: float
) -> tuple[list[dict[str, Any]], str, str]:
    """The lines that the run left, the end of its output, and why it ended early where it did."""
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.jsonl"
        log = Path(scratch) / "log"
        early = ""
        with log.open("w") as out:
            full = [sys.executable, *arguments, "--results", str(results)]
            try:
                code = subprocess.run(
                    full, cwd=cwd, env=env, stdout=out, stderr=subprocess.STDOUT, timeout=60 * minutes
                ).returncode
                if code < 0:
                    early = f"ended by signal {-code}"
            except subprocess.TimeoutExpired:
                early = f"stopped after {minutes:g} minutes"
        lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        return lines, log.read_text()[-20000:], early


def outcomes(lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One line per test: a failure of any phase counts, and a test that began and never ended has failed."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        name = line["id"]
        if line.get("started"):
            found.setdefault(name, {"outcome": "failed", "error": "the process ended in this test", "when": "call"})
        elif (
            "on_cpu" in line
            or found.get(name, {}).get("outcome") != "failed"
            or found[name].get("error") == "the process ended in this test"
        ):
            found[name] = line
    return found


def fallbacks(log: str) -> list[str]:
    _, separator, text = log.rpartition("fallbacks to the CPU: ")
    rows = text.splitlines()[1:] if separator else []
    return [row.strip() for row in rows if row.startswith("  ")]


def used_the_device(log: str) -> int | None:
    found = re.findall(r"^tests: (\d+) used the device", log, re.M)
    return int(found[-1]) if found else None


def reason_of(suite: Suite, name: str, error: str) -> str:
    return next((reason for part, reason in suite.reasons if part in name or part in error), "")


def run(suite: Suite, mode: str, folder: Path, each: int, repeats: int) -> dict[str, Any]:
    cwd = folder / suite.folder
    arguments = command(suite, mode, each, repeats)
    lines, log, early = execute(arguments, cwd, environment(suite, folder, False), suite.minutes)
    row = counted(suite, mode, each, arguments, (lines, log, early))
    failed = {f["id"]: f for f in row["failed"]}
    if failed and not suite.module:
        on_cpu = fails_on_cpu(suite, folder, list(failed))
        row["fails_on_cpu"] = sorted(on_cpu)
        row["failed"] = [f for n, f in failed.items() if n not in on_cpu]
    return row


def fails_on_cpu(suite: Suite, folder: Path, failed: list[str]) -> set[str]:
    """Those tests that fail on torch's CPU, with the device hidden, too."""
    cwd = folder / suite.folder
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as ids:
        tests = [t if t != "xpu" else "cpu" for t in suite.tests]
        plain = ["-m", "pytest", *tests, "-p", "tools.scorecard.part", "-q"]
        again = ["-p", "no:cacheprovider", "--only-ids", ids.name]
        cpu_names = {n.replace("xpu", "cpu"): n for n in failed}
        Path(ids.name).write_text("\n".join({*failed, *cpu_names}) + "\n")
        other, _, _ = execute([*plain, *again], cwd, environment(suite, folder, True), suite.minutes)
    return {cpu_names.get(n, n) for n, t in outcomes(other).items() if t["outcome"] == "failed"} & set(failed)


def counted(
    suite: Suite, mode: str, each: int, arguments: list[str], ran: tuple[list[dict[str, Any]], str, str]
) -> dict[str, Any]:
    """The row of a run. Lines of a module may say how a test that failed ends on the CPU."""
    lines, log, early = ran
    tests = outcomes(lines)
    if early.startswith("stopped"):
        tests = {n: t for n, t in tests.items() if t.get("error") != "the process ended in this test"}
    counts = collections.Counter(t["outcome"] for t in tests.values())
    failed = {n: t["error"] for n, t in tests.items() if t["outcome"] == "failed"}
    on_cpu = {n for n in failed if "on_cpu" in tests[n]}
    ratios = {n: t["ratio"] for n, t in tests.items() if "ratio" in t}
    eager = {n: t["ms"][1:] for n, t in tests.items() if len(t.get("ms", ())) == 3}
    return {
        "suite": suite.name, "mode": mode, "version": suite.version, "each": each,
        "date": datetime.date.today().isoformat(),
        "command": "python " + shlex.join(a for a in arguments if a),
        "counts": dict(counts), "early": early,
        "fails_on_cpu": sorted(on_cpu), "held": sorted(n for n in on_cpu if tests[n]["on_cpu"] == "held"),
        "failed": [
            {"id": n, "error": e, "reason": reason_of(suite, n, e)} for n, e in sorted(failed.items()) if n not in on_cpu
        ],
        "fallbacks": fallbacks(log), "used": used_the_device(log), "ratios": ratios, "eager": eager,
        "log": log[-1500:] if not tests else "",
    }  # fmt: skip


def again(old: dict[str, Any], suite: Suite, folder: Path, jobs: int) -> dict[str, Any]:
    """The row with the present outcomes of the nodes that failed in it. A node of which nothing came stays what it was."""
    before = {f["id"]: f for f in old["failed"]}
    arguments = command(suite, old["mode"], 1, 0)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as ids:
        json.dump(list(before), ids)
        ids.flush()
        extra = ["--ids", ids.name, "--jobs", str(jobs)]
        lines, _, early = execute(
            arguments + extra, folder / suite.folder, environment(suite, folder, False), suite.minutes
        )
    tests = {n: t for n, t in outcomes(lines).items() if n in before}
    if early:
        raise SystemExit(early)
    counts = collections.Counter(old["counts"])
    passed = sum(t["outcome"] == "passed" for t in tests.values())
    counts["passed"] += passed
    counts["failed"] -= passed
    on_cpu = {n for n, t in tests.items() if "on_cpu" in t}
    failed = {n: tests.get(n, f) for n, f in before.items() if tests.get(n, f).get("outcome") != "passed"}
    today = datetime.date.today().isoformat()
    return old | {
        "counts": dict(counts), "again": {"nodes": len(before), "passed": passed, "date": today},
        "fails_on_cpu": sorted({*old["fails_on_cpu"], *on_cpu}),
        "held": sorted({*old.get("held", []), *(n for n in on_cpu if tests[n]["on_cpu"] == "held")}),
        "failed": [
            {"id": n, "error": f["error"], "reason": reason_of(suite, n, f["error"])}
            for n, f in sorted(failed.items()) if n not in on_cpu
        ],
    }  # fmt: skip


def record(row: dict[str, Any]) -> None:
    """Put a row in the place of an earlier one of its suite and mode."""
    rows = json.loads(RECORD.read_text()) if RECORD.exists() else []
    rows = [r for r in rows if (r["suite"], r["mode"]) != (row["suite"], row["mode"])] + [row]
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    page.write(rows, ROOT / "docs" / "scorecard.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.scorecard", description=__doc__)
    parser.add_argument("--suites", type=Path, default=ROOT / "build" / "suites", help="folder of the suites")
    parser.add_argument("--only", default="", help="names of suites, with commas between: those whose names begin so")
    parser.add_argument("--each", type=int, default=1, help="each n-th test")
    parser.add_argument("--repeats", type=int, default=0, help="time what has a time")
    parser.add_argument("--mode", default=None, help="only this mode, such as --mode=--xpu-strict")
    parser.add_argument(
        "--again", type=int, default=0, metavar="JOBS", help="run only the nodes that the record says failed"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a failure has no reason")
    args = parser.parse_args()
    folder = args.suites.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    named = [s for s in SUITES if s.name == args.only]  # names have commas, too
    wanted = named or [s for s in SUITES if any(s.name.startswith(n) for n in args.only.split(","))]
    unexplained = []
    for suite in wanted:
        fetch(suite, folder)
        for mode in suite.modes:
            if args.mode is not None and args.mode != mode:
                continue
            if args.again:
                old = next(r for r in json.loads(RECORD.read_text()) if (r["suite"], r["mode"]) == (suite.name, mode))
                row = again(old, suite, folder, args.again)
            else:
                row = run(suite, mode, folder, args.each, args.repeats)
            print(suite.name, mode, row["counts"], row["early"], row["log"], flush=True)
            unexplained += [f"{suite.name} {mode}: {f['id']}: {f['error']}" for f in row["failed"] if not f["reason"]]
            if not row["counts"]:
                unexplained.append(f"{suite.name} {mode}: nothing ran")
            if row["counts"] and not args.check:
                record(row)
    print("\n".join(unexplained))
    if args.check and unexplained:
        sys.exit(1)


if __name__ == "__main__":
    main()
