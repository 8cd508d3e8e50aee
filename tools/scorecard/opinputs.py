"""Traced operator inputs on xpu against torch's CPU: `python -m tools.scorecard.opinputs <folder of traces>`.

Each distinct row runs once for its values; with --repeats one of each kind alternates with the CPU for its time. Large rows run with a
smaller leading dimension. Rows run in a process of their own, that the next one follows where a row ends it.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

SECONDS = 60  # of a row
LONG = 0.5  # seconds of a call that is timed once
LEAST = 20e-6  # seconds: a row below it on both sides has no ratio
UNSET = ("new_empty", "new_empty_strided", "empty", "bernoulli_")  # only shapes and layouts are the same
SLOW = ("convolution", "convolution_backward", "mm", "addmm", "bmm", "baddbmm")  # the CPU's 16-bit forms take long
ACCUMULATES = True
FIRST = ("native_batch_norm", "_embedding_bag")  # the other results are the backward's own: devices differ in them


def named(of: dict[str, Any], device: str) -> dict[str, Any]:
    """Keywords with the device that they name."""
    return {k: ("cpu" if "cpu" in str(v) else device) if k == "device" else v for k, v in of.items()}


def seen(result: Any, args: Any) -> list[Any]:
    """The result of a call and its arguments, which it may have written to, dense where they were sparse."""
    import torch
    from torch.utils._pytree import tree_flatten

    return [
        t.coalesce().to_dense() if isinstance(t, torch.Tensor) and t.is_sparse else t
        for t in tree_flatten((result, args))[0]
    ]


def found(row: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """The results of a call; of positions of the largest values, among which equal ones have no order, the values there."""
    result = call(*args, **kwargs)
    if row.operator in ("topk.default", "max.dim", "min.dim"):
        dim = (
            -1
            if row.operator.startswith("topk") and len(row.args) < 3
            else row.args[2 if row.operator[0] == "t" else 1]
        )
        keep = row.operator.startswith("topk") or result[1].dim() == args[0].dim()
        at = result[1] if keep else result[1].unsqueeze(dim)
        result = result[0], args[0].gather(dim, at)
    return seen(result, args)


def widened(name: str, args: list[Any]) -> list[Any]:
    """Arguments in float32, of which softmax has nothing to convert."""
    import torch
    from support.compare import widen

    args = widen(args, torch.float32)
    return [*args[:2], False] if name in ("_softmax", "_log_softmax") else args


def taken(row: Any, call: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    return found(row, call, args, kwargs)


def close(actual: Any, expected: Any) -> bool:
    """Whether results are the wide reference's, rounded."""
    import torch
    from support.compare import TOLERANCES, exact, near

    for a, e in zip(actual, expected, strict=True):
        if not isinstance(e, torch.Tensor):
            continue
        if not isinstance(a, torch.Tensor) or a.shape != e.shape:
            return False
        a, e = a.detach().cpu(), e.detach()
        if exact(e) or exact(a):
            if not torch.equal(a, e):
                return False
        elif not near(a.to(e.dtype), e, a.dtype, *TOLERANCES.get(a.dtype, (0.0, 0.0))).all():
            return False
    return True


def check(row: Any, forms: list[Any], tell: Callable[[str], None]) -> tuple[dict[str, Any], Any, Any]:
    """The outcome of a row in the first form that the CPU takes, and the arguments of that form."""
    import torch
    from support.compare import assert_same, clone, reference, to_device, widen
    from torch.utils._pytree import tree_leaves

    import xpu_ops
    from tools.scorecard.fills import arguments

    base = row.operator.partition(".")[0]
    packet, overload = row.operator.split(".")
    call = getattr(getattr(torch.ops.aten, packet), overload)
    reasons = ["no form is small enough"]
    for form in forms:
        try:
            args, kwargs = arguments(form)
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        cpu_kwargs = named(kwargs, "cpu")
        wide: list[Any] | None = None
        own: list[Any] | None = None
        lacks = False
        half = any(getattr(v, "dtype", v) in (torch.float16, torch.complex32) for v in tree_leaves((args, kwargs)))
        tell("the CPU")
        try:
            if half:
                wide = found(row, call, widened(base, clone(args)), widen(cpu_kwargs, torch.float32))
            if not half or base not in SLOW:
                own = found(row, call, clone(args), cpu_kwargs)
        except Exception as error:
            lacks = True  # 16-bit forms that the CPU lacks: the reference serves
            if wide is None:
                reasons.append(f"the CPU refuses it: {type(error).__name__}: {error}".split("\n")[0][:200])
                continue
        there = to_device(clone(args)), named(to_device(kwargs), "xpu")
        line: dict[str, Any] = {"outcome": "passed"}
        if str(form) != str(row):
            line["as"] = str(form)
        try:
            tell("xpu")
            xpu_ops.fallback.reset()
            actual = found(row, call, clone(there[0]), there[1])
            torch.xpu.synchronize()
            fallbacks = xpu_ops.fallback.counts()
            if base in UNSET:
                made, expected = ([(t.shape, t.stride(), t.dtype) for t in (v or [])[:1]] for v in (actual, own))
                assert made == expected, f"{made}, expected {expected}"
            if base in FIRST:
                actual, wide, own = actual[:1], wide and wide[:1], own and own[:1]
            if base not in UNSET and (wide is None or not close(actual, wide)):
                tell("the CPU")
                if own is None:
                    own = found(row, call, clone(args), cpu_kwargs)
                assert_same(
                    actual,
                    own,
                    reference=bound(partial(reference, partial(taken, row, call)), clone(args), cpu_kwargs),
                    accumulates=ACCUMULATES,
                )
            if fallbacks:
                line |= {"outcome": "failed", "error": f"ran on the CPU: {', '.join(fallbacks)}"}
        except Exception as error:
            line |= {"outcome": "failed", "error": f"{type(error).__name__}: {error}".strip()[:600]}
        if lacks:
            line["wide"] = True  # the time of the CPU's float32
            return line, (call, widened(base, args), widen(cpu_kwargs, torch.float32)), there
        return line, (call, args, cpu_kwargs), there
    return {"outcome": "skipped", "error": reasons[-1]}, None, None


def bound(call: Callable[..., Any], args: Any, kwargs: Any) -> Callable[[], Any]:
    return lambda: call(*args, **kwargs)


def once(call: Callable[[], Any], count: int, wait: Callable[[], None]) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return (time.perf_counter() - begin) / count


def measure(
    ours: Callable[[], Any], theirs: Callable[[], Any], repeats: int, tell: Callable[[str], None]
) -> tuple[float, float]:
    """The least times of alternating rounds, of which each takes a millisecond or more. A slow row has more rounds: on a busy
    machine one side may have had all the others' time."""
    import torch

    def wait() -> None: ...

    for _ in range(3):  # the second call packs a weight
        ours()
    torch.xpu.synchronize()
    tell("the CPU")
    counts = []
    for call, done in ((theirs, wait), (ours, torch.xpu.synchronize)):
        least = once(call, 1, done)
        if least > LONG:
            return (least, once(ours, 1, torch.xpu.synchronize)) if call is theirs else (once(theirs, 1, wait), least)
        least = min(least, *(once(call, 1, done) for _ in range(2)))
        counts.append(max(1, min(100, math.ceil(1e-3 / max(least, 1e-7)))))
    own = device = math.inf
    for done in range(4 * repeats):
        own = min(own, once(theirs, counts[0], wait))
        device = min(device, once(ours, counts[1], torch.xpu.synchronize))
        if done + 1 >= repeats and own >= device:
            break
    return own, device


def work(args: argparse.Namespace) -> None:
    """Runs the rows from --first on and writes a line before and after each."""
    import torch

    from tools.scorecard.traces import read, smaller

    rows = [row for row in read(args.folder) if args.only in str(row)]
    timed = set(map(str, sample(rows)[:: args.each])) if args.repeats else set()
    rows = [row for row in rows if str(row) in timed] if args.timed else rows[:: args.each]
    with args.results.open("a", buffering=1) as out:
        for at in range(args.first, len(rows)):
            row = rows[at]

            def tell(where: str, row: Any = row, at: int = at) -> None:
                out.write(json.dumps({"id": str(row), "at": at, "started": True, "on": where}) + "\n")

            tell("xpu")
            try:
                begin = time.perf_counter()
                line, here, there = check(row, smaller(row, args.elements), tell)
                line["seconds"] = round(time.perf_counter() - begin, 3)
                if str(row) in timed and line["outcome"] == "passed":
                    call, own, keywords = here
                    ours, theirs = bound(call, *there), bound(call, own, keywords)
                    with torch.no_grad():
                        times = measure(ours, theirs, args.repeats, tell)
                    line["ms"] = [round(1e3 * t, 5) for t in times]
                    if max(times) >= LEAST:
                        line["ratio"] = times[0] / times[1]
            except Exception as error:
                line = {"outcome": "failed", "error": f"{type(error).__name__}: {error}"[:600]}
            out.write(json.dumps({"id": str(row), "at": at, "when": "call", "count": row.count} | line) + "\n")


def sample(rows: list[Any]) -> list[Any]:
    """Of each operator, element types, layouts and order of size the row that the models call most often."""
    from tools.scorecard.traces import elements, specs

    best: dict[Any, Any] = {}
    for row in rows:
        kinds = tuple((t.dtype, len(t.shape), t.stride == () or t.stride[-1]) for t in specs(row))
        key = row.operator, kinds, int(math.log2(elements(row) + 1))
        if key not in best or best[key].count < row.count:
            best[key] = row
    return list(best.values())


def watch(args: argparse.Namespace, options: list[str]) -> None:
    """Runs `work` in processes: one more where a row ends its process, or takes too long."""
    first = args.first
    while True:
        args.results.touch()
        child = subprocess.Popen(
            [sys.executable, "-m", "tools.scorecard.opinputs", *options, "--work", "--first", str(first)]
        )
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(0.5)
            now = args.results.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > SECONDS + (60 if size <= 0 else 0):
                child.kill()
        if child.wait() == 0:
            return
        lines = [json.loads(line) for line in args.results.read_text().splitlines()]
        if not lines or not lines[-1].get("started"):
            raise RuntimeError(f"no row ran: exit status {child.returncode}")
        first = lines[-1]["at"] + 1
        if lines[-1]["on"] == "the CPU":
            late = {"outcome": "skipped", "error": f"torch's CPU gives no result within {SECONDS} s", "when": "call"}
            with args.results.open("a") as out:
                out.write(json.dumps({"id": lines[-1]["id"], "at": lines[-1]["at"]} | late) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.scorecard.opinputs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--results", type=Path, required=True, help="file that gets two lines per row")
    parser.add_argument("--each", type=int, default=1, help="take each n-th row")
    parser.add_argument("--timed", action="store_true", help="only the rows that are timed")
    parser.add_argument("--only", default="", help="rows that have this text")
    parser.add_argument("--first", type=int, default=0, help="from this row on, counted from 0")
    parser.add_argument("--elements", type=int, default=1 << 20, help="of a row: larger ones are made smaller")
    parser.add_argument("--repeats", type=int, default=0, help="time one row of each kind: alternating repeats")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args)
    else:
        watch(args, [a for a in sys.argv[1:] if a != "--work"])


if __name__ == "__main__":
    main()
