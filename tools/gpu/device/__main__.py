"""python3 -m tools.gpu.device: assembles, replays and measures what the payload holds. Results go to $OUT, or ./out."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tools.gpu import recording
from tools.gpu.device import runs
from tools.gpu.device.cubins import Cubins

SANITIZERS = ("memcheck", "racecheck", "synccheck")


def report_assembly(cubins: Cubins, modules: list[str] | None, out: Path) -> None:
    start = time.monotonic()
    done = cubins.assemble(modules)
    failed = [d for d in done if d.failed]
    print(f"ptxas: {len(done)} modules in {time.monotonic() - start:.0f} s, {len(failed)} failed", flush=True)
    for d in failed:
        print(f"  {d.module}: {d.failed[:300]}")
    lines = [
        f"{k}\t{stack}\t{spills}\t{registers}" for d in done for k, (stack, spills, registers) in d.kernels.items()
    ]
    (out / "registers.tsv").write_text("kernel\tstack\tspilled\tregisters\n" + "\n".join(sorted(lines)) + "\n")


def bench_modules(cubins: Cubins, plans: Path) -> list[str]:
    found = set()
    for rec in sorted(plans.glob("bench_*.rec")):
        found |= {cubins.module_of(s.kernel, s.digest) for s in recording.launches(rec)}
    return sorted(m for m in found if m is not None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.gpu.device", description=__doc__)
    parser.add_argument("what", nargs="+", choices=["assemble", "replay", "bench", *SANITIZERS])
    parser.add_argument(
        "--payload", type=Path, default=Path("."), help="folder with ptx, recordings, bench, kernels.json"
    )
    parser.add_argument("--cubins", type=Path, default=Path("/tmp/gpu_cubins"))
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of recordings or cases")
    parser.add_argument("--seconds", type=float, default=150, help="limit of each step")
    parser.add_argument("--jobs", type=int, default=8)
    args = parser.parse_args()
    out = Path(os.environ.get("OUT", "out")).resolve()
    out.mkdir(parents=True, exist_ok=True)
    payload: Path = args.payload
    cubins = Cubins(payload / "ptx", args.cubins)
    recordings = [
        p
        for p in sorted((payload / "recordings").glob("*.rec*"))
        if not args.only or any(o in p.name for o in args.only)
    ]
    options = ["--ptx", str(payload / "ptx"), "--cubins", str(args.cubins), "--types", str(payload / "kernels.json")]
    for what in args.what:
        if what == "assemble":
            report_assembly(cubins, None, out)
        elif what == "replay":
            runs.replay(recordings, out, args.jobs, options, args.seconds)
        elif what == "bench":
            from tools.gpu.device import bench  # needs torch

            report_assembly(cubins, bench_modules(cubins, payload / "bench"), out)
            command = [
                sys.executable,
                "-m",
                "tools.gpu.device.bench",
                "--payload",
                str(payload),
                "--cubins",
                str(args.cubins),
            ]
            bench.run(command, payload / "bench", out, args.seconds, args.only)
        else:
            runs.sanitize(what, recordings, out, args.jobs, options, args.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
