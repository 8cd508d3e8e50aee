"""python -m tools.matrix: builds and tests with each release of torch, and prints a table for docs/notes/releases.md.

Each release has an environment and a build folder of its own (`make TORCH=<version>`). The log of a cell is build-torch<version>/matrix.log.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from tools import torch_release

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = re.compile(r"^=+ (.*) in [0-9.]+s.*=+$", re.M)


def run_cell(torch: str, target: str) -> tuple[str, str]:
    """Builds and tests with one release; pytest's summary and "passes" or "fails"."""
    build = ROOT / f"build-torch{torch}"
    build.mkdir(exist_ok=True)
    done = subprocess.run(["make", target, f"TORCH={torch}"], cwd=ROOT, capture_output=True, text=True)
    (build / "matrix.log").write_text(done.stdout + done.stderr)
    summaries = SUMMARY.findall(done.stdout)
    return summaries[-1] if summaries else "no test ran", "fails" if done.returncode else "passes"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.matrix", description=__doc__)
    patches: list[str] = torch_release.settings()["patches"]
    parser.add_argument("--torch", nargs="*", default=patches, help=f"default {patches}")
    parser.add_argument("--whole", nargs="*", default=[], help="releases that run the whole fast suite")
    args = parser.parse_args()
    rows = []
    for torch in args.torch:
        target = "test" if torch in args.whole else "smoke"
        start = time.monotonic()
        summary, verdict = run_cell(torch, target)
        minutes = (time.monotonic() - start) / 60
        rows.append(
            f"| {torch} | {torch_release.python_tag()} | `make {target}` | {summary} | {minutes:.0f} | {verdict} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    print("| torch | Python | command | tests | minutes | result |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return int(any(row.endswith("| fails |") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
