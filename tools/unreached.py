"""Prints the branches of kernels/ops and kernels/products that a run of tests did not take.

Usage: python -m tools.unreached <build folder>, of a build with XPU_OPS_COVERAGE. A line is printed with the number of
its outcomes that never occurred, or with a dash where the line itself never ran.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def counts_of(build: Path) -> dict[str, dict[int, tuple[int, int]]]:
    """Of each source: per line how often it ran, and how many outcomes of its branches never occurred."""
    files: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    kernels = build / "CMakeFiles" / "xpu_ops_kernels.dir" / "kernels"
    for data in sorted([*kernels.glob("ops/*.gcda"), *kernels.glob("products/*.gcda")]):
        run = subprocess.run(
            ["gcov", "--json-format", "--branch-probabilities", "--stdout", data.name],
            cwd=data.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        for file in json.loads(run.stdout)["files"]:
            source = file["file"].lstrip("./")
            if not source.startswith(("kernels/ops/", "kernels/products/")) or not source.endswith(".cpp"):
                continue
            for line in file["lines"]:
                never = sum(b["count"] == 0 and not b["throw"] for b in line["branches"])
                ran, before = files[source].get(line["line_number"], (0, never))
                files[source][line["line_number"]] = (ran + line["count"], min(before, never))
    return files


def main() -> None:
    files = counts_of(Path(sys.argv[1]))
    if not files:
        sys.exit("no counts: configure with -DXPU_OPS_COVERAGE=ON, build, and run tests")
    for source, lines in sorted(files.items()):
        text = (ROOT / source).read_text().splitlines()
        missed = [(n, ran, never) for n, (ran, never) in sorted(lines.items()) if not ran or never]
        if missed:
            print(source)
        for number, ran, never in missed:
            print(f"  {number:4} {never if ran else '-'}  {text[number - 1].strip()}")


if __name__ == "__main__":
    main()
