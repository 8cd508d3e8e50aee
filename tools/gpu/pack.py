"""python -m tools.gpu.pack: what the machine with the GPU needs, in one folder: programs, PTX, recordings, plans.

The PTX of modules that no packed launch uses stays here. `<out>/run.sh` is the command to run there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

from tools.gpu import recording

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("tools/__init__.py", "tools/gpu/__init__.py", "tools/gpu/recording.py", "tools/gpu/device")
RUN = """#!/bin/bash
# Assembles, replays, measures and checks what lies beside it: results in $OUT.
cd "$(dirname "$0")" && export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OUT="${OUT:-$PWD/out}"
[ -d ptx ] || tar xJf ptx.tar.xz
exec python3 -m tools.gpu.device "$@"
"""


def used_modules(modules: dict[str, Any], recordings: list[Path]) -> set[str]:
    """The modules whose kernels occur in these recordings."""
    home = {(m if len(m) == 40 else "", k): m for m, entry in modules.items() for k in entry["kernels"]}
    found = {home.get((s.digest, s.kernel)) for path in recordings for s in recording.launches(path)}
    return {m for m in found if m is not None}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.pack", description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path("build/gpu"), help="folder of gpu-ptx, gpu-record and gpu-plan"
    )
    parser.add_argument("--out", type=Path, default=Path("build/gpu/payload"))
    parser.add_argument("--no-recordings", action="store_true", help="only the benchmark")
    parser.add_argument("--no-bench", action="store_true", help="only the recordings")
    args = parser.parse_args()
    work, out = args.work, args.out
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name in PROGRAMS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, out / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, out / name)
    recordings = [] if args.no_recordings else sorted((work / "recordings").glob("*.rec.xz"))
    plans = [] if args.no_bench else sorted((work / "bench").glob("bench_*.rec"))
    for folder, files in (
        ("recordings", recordings),
        ("bench", [f for p in plans for f in (p, p.with_suffix(".json"))]),
    ):
        (out / folder).mkdir()
        for f in files:
            shutil.copy(f, out / folder)
    modules = json.loads((work / "ptx" / "modules.json").read_text())
    wanted = used_modules(modules, [*recordings, *plans])
    with tarfile.open(out / "ptx.tar.xz", "w:xz", preset=3) as archive:
        index = out / "modules.json"
        index.write_text(json.dumps({m: modules[m] for m in sorted(wanted)}))
        archive.add(index, "ptx/modules.json")
        index.unlink()
        for m in sorted(wanted):  # neighbours are alike, and share the dictionary
            archive.add(work / "ptx" / modules[m]["file"], f"ptx/{modules[m]['file']}")
    if (work / "kernels.json").exists():
        shutil.copy(work / "kernels.json", out)
    (out / "run.sh").write_text(RUN)
    total = sum(p.stat().st_size for p in out.rglob("*") if p.is_file())
    print(
        f"gpu-pack: {len(wanted)} modules, {len(recordings)} recordings, {len(plans)} plans; {total / 1e6:.1f} MB in {out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
