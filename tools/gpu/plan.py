"""python -m tools.gpu.plan: the launches of the benchmark's cases, planned for a GPU and executed nowhere.

Writes <out>/bench.rec and <out>/bench.json, the tensors of each case. Memory is only promised, so that the calls have the
sizes of a GPU. Cases whose results the host reads back are executed, on the same numbers that the GPU gets.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.gpu.cases import BenchCase, table
from tools.gpu.record import Mode, Recorder, build_library, environment


def filled(shape: tuple[int, ...], dtype: str, fill: str) -> Any:
    """The tensor of an executed case, as tools/gpu/device/bench.py makes it."""
    import math

    import torch

    kind, _, bound = fill.partition(":")
    if kind == "mix":
        numbers = (torch.arange(math.prod(shape)) * 2654435761 >> 7) % int(bound)
        return numbers.to(getattr(torch, dtype)).reshape(shape).to("xpu")
    return torch.ones(shape, dtype=getattr(torch, dtype), device="xpu")


def described(tensor: Any) -> list[Any]:
    return [tensor.data_ptr(), list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]


def plan_case(case: BenchCase, recorder: Recorder) -> dict[str, Any]:
    import torch

    inputs = {}
    for name, i in case.inputs.items():
        if case.executed:
            inputs[name] = filled(i.shape, i.dtype, i.fill)
        else:
            inputs[name] = torch.empty(i.shape, dtype=getattr(torch, i.dtype), device="xpu")
    torch.xpu.synchronize()
    recorder.mark(case.name)
    with torch.no_grad():
        result = eval(case.expr, {"torch": torch, "F": torch.nn.functional, "A": torch.ops.aten}, inputs)
    torch.xpu.synchronize()
    recorder.mark("")
    results = result if isinstance(result, (tuple, list)) else [result]
    return {
        "name": case.name, "group": case.group, "expr": case.expr, "moved": case.moved, "check": case.check,
        "inputs": {n: [*described(t), case.inputs[n].fill] for n, t in inputs.items()},
        "outputs": [described(t) for t in results if isinstance(t, torch.Tensor)],
    }  # fmt: skip


def plan(mode: Mode, library: Path, out: Path, only: list[str]) -> int:
    """Plans the cases of one mode in this process; the number of those that fail."""
    cases = [c for c in table() if c.executed == (mode is Mode.TRACE) and (not only or any(o in c.name for o in only))]
    recorder = Recorder(library, out / f"bench_{mode.name.lower()}.rec", mode)
    planned, failed = [], 0
    for case in cases:
        try:
            planned.append(plan_case(case, recorder))
        except Exception as error:  # a case that cannot be planned costs that case
            failed += 1
            recorder.mark("")
            print(f"gpu-plan: {case.name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
    recorder.stop()
    (out / f"bench_{mode.name.lower()}.json").write_text(json.dumps(planned))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(min(failed, 100))  # memory that was only promised is not given back


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.plan", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of the names of the cases to plan")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path, default=Path("build/gpu/bench"))
    parser.add_argument("--mode", choices=[m.name for m in Mode], help=argparse.SUPPRESS)
    args = parser.parse_args()
    build, out = args.build.resolve(), args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    library = build_library(build)
    if args.mode:
        return plan(Mode[args.mode], library, out, args.only)
    failed = 0
    for mode in (Mode.PLAN, Mode.TRACE):
        command = [
            sys.executable,
            "-m",
            "tools.gpu.plan",
            "--build",
            str(build),
            "--out",
            str(out),
            "--mode",
            mode.name,
            *args.only,
        ]
        failed += subprocess.run(command, env=environment(build, out)).returncode
    names = [c["name"] for m in ("plan", "trace") for c in json.loads((out / f"bench_{m}.json").read_text())]
    print(f"gpu-plan: {len(names)} cases in {out}; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
