"""torch's own operator samples (OpInfo) through torch.compile, against eager on xpu.

As a program (`make test-compiled`) it goes through many cases in a worker process with a time limit per case, so that a
crash or a hang is one line of the log and not the end of the run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops
from support.compare import assert_same, clone, reference
from support.opinfo import UNDETERMINED, accumulates, arguments, named, op_id, to_xpu, undetermined

FORWARD_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
BACKWARD_DTYPES = (torch.float32, torch.bfloat16)
_FIRST = 60  # samples of an operator that a run draws from
_WORKER_CASES = 150  # before a new worker: compiled modules stay in memory


class Case(NamedTuple):
    op: OpInfo
    dtype: torch.dtype
    dynamic: bool
    backward: bool

    @property
    def id(self) -> str:
        return f"{op_id(self.op)}-{str(self.dtype).removeprefix('torch.')}-{'dynamic' if self.dynamic else 'static'}"


def forward_cases() -> list[Case]:
    return [Case(op, t, d, False) for op in op_db for t in FORWARD_DTYPES if t in op.dtypes for d in (False, True)]


def backward_cases() -> list[Case]:
    ops = [op for op in op_db if op.supports_autograd and op.name not in UNDETERMINED]
    return [
        Case(op, t, d, True)
        for op in ops
        for t in BACKWARD_DTYPES
        if t in op.backward_dtypes and t in op.dtypes
        for d in (False, True)
    ]


def take(samples: Iterator[SampleInput], count: int | None) -> list[SampleInput]:
    """`count` samples spread over the first sixty; None: the first that has something in it."""
    some = list(itertools.islice(samples, _FIRST))
    if count is None:
        return [s for s in some if all(t.numel() for t in tree_leaves(s.input) if isinstance(t, torch.Tensor))][:1]
    return some[:: max(1, -(-len(some) // count))]


def compiled(function: Any, dynamic: bool, backend: str = "inductor") -> Any:
    torch._dynamo.reset()
    return torch.compile(lambda *args, **kwargs: function(*args, **kwargs), dynamic=dynamic, backend=backend)


def on_host(x: Any) -> Any:
    return tree_map(lambda t: t.detach().cpu() if isinstance(t, torch.Tensor) else t, x)


def without_fallback(run: Callable[..., Any], op: OpInfo, dynamic: bool, on_xpu: Any, on_cpu: Any) -> Any:
    """run(function, args, kwargs) with the compiled operator; None where upstream's tracing refuses CPU tensors alike."""
    try:
        with xpu_ops.fallback.forbid():
            return run(compiled(op.op, dynamic), *on_xpu)
    except Exception as error:
        try:
            run(compiled(op.op, dynamic, "aot_eager"), *on_cpu)
        except type(error):
            return None
        raise


def check(case: Case, samples: int | None) -> int:
    """Compare the case's samples; the number of them that eager and upstream's tracing accept."""
    draw = case.op.sample_inputs("cpu", case.dtype, requires_grad=case.backward)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum((_backward if case.backward else _forward)(case, sample) for sample in take(draw, samples))


def _forward(case: Case, sample: SampleInput) -> bool:
    op, dtype = case.op, case.dtype
    args, kwargs = arguments(sample)
    xargs, xkwargs = to_xpu(op, args, kwargs)
    if "device" in xkwargs:
        xkwargs["device"] = "xpu"
    try:
        with xpu_ops.fallback.forbid():
            expected = op.op(*clone(xargs), **clone(xkwargs))
    except Exception:  # tests/ops compares what eager refuses, and forbids the same
        return False
    actual = without_fallback(lambda f, a, k: f(*a, **k), op, case.dynamic, (xargs, xkwargs), (clone(args), kwargs))
    if actual is None:
        return False
    if undetermined(op, args, kwargs):
        for a, e in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
            assert not isinstance(e, torch.Tensor) or (a.shape, a.dtype) == (e.shape, e.dtype)
        return True
    process = sample.output_process_fn_grad or (lambda x: x)

    def wide() -> Any:
        result = reference(op.op, *args, **kwargs)
        return None if result is None else process(named(op, args, kwargs, result))

    assert_same(
        process(named(op, xargs, xkwargs, actual)),
        on_host(process(named(op, xargs, xkwargs, expected))),
        reference=wide,
        accumulates=accumulates(op) or dtype == torch.bfloat16,
    )
    return True


def _backward(case: Case, sample: SampleInput) -> bool:
    op, dtype = case.op, case.dtype
    args, kwargs = arguments(sample)
    if undetermined(op, args, kwargs):
        return False

    def gradients(function: Any, args: Any, kwargs: Any) -> list[Any]:
        out = function(*args, **kwargs)
        if sample.output_process_fn_grad is not None:
            out = sample.output_process_fn_grad(out)
        outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
        if not outs or not leaves:
            return []
        generator = torch.Generator().manual_seed(1)
        seeds = [torch.rand(t.shape, generator=generator).to(t.device, t.dtype) for t in outs]
        return list(torch.autograd.grad(outs, leaves, seeds, allow_unused=True))

    xargs, xkwargs = to_xpu(op, args, kwargs)
    try:
        with xpu_ops.fallback.forbid():
            expected = gradients(op.op, clone(xargs), clone(xkwargs))
    except Exception:  # tests/ops compares what eager refuses, and forbids the same
        return False
    actual = without_fallback(gradients, op, case.dynamic, (xargs, xkwargs), (args, kwargs))
    if actual is None:
        return False
    assert_same(
        actual,
        on_host(expected),
        tol=(1.3e-4, 1e-4) if dtype == torch.float32 else (1.6e-1, 1e-1),
        reference=lambda: reference(gradients, op.op, args, kwargs),
        accumulates=True,
    )
    return True


# ---- The program


def _work(pipe: Connection, samples: int | None) -> None:
    """The worker: takes the number of a case, gives its outcome."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="xpu_ops-inductor-")
    os.environ["XPU_OPS_COMPILE_ALL"] = "1"
    cases = {(c.backward, c.id): c for c in forward_cases() + backward_cases()}
    pipe.send(None)
    while (name := pipe.recv()) is not None:
        try:
            torch.manual_seed(0)
            compared = check(cases[name], samples)
            torch.xpu.synchronize()
            pipe.send(("ok" if compared else "refused", ""))
        except Exception:
            pipe.send(("failed", traceback.format_exc()))


class _Worker:
    def __init__(self, samples: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_work, args=(far, samples), daemon=True)
        self._process.start()
        far.close()
        self._pipe.recv()
        self.done = 0

    def run(self, case: Case, seconds: float) -> tuple[str, str]:
        self.done += 1
        self._pipe.send((case.backward, case.id))
        try:
            if self._pipe.poll(seconds):
                outcome: tuple[str, str] = self._pipe.recv()
                return outcome
            outcome = "hung", f"no result after {seconds:.0f} s"
        except (EOFError, ConnectionResetError):
            self._process.join()
            outcome = "crashed", f"exit code {self._process.exitcode}"
        self.done = _WORKER_CASES
        return outcome

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _chosen(options: argparse.Namespace) -> list[Case]:
    cases = [
        c
        for kind, make in (("forward", forward_cases), ("backward", backward_cases))
        if kind in options.kind
        for c in make()
    ]
    cases = [c for c in cases if str(c.dtype).removeprefix("torch.") in options.dtype]
    cases = [c for c in cases if ("dynamic" if c.dynamic else "static") in options.shapes and options.filter in c.id]
    if options.again:
        lines = [json.loads(line) for line in Path(options.again).read_text().splitlines()]
        bad = {(r["kind"], r["case"]) for r in lines if r["outcome"] not in ("ok", "refused")}
        cases = [c for c in cases if ("backward" if c.backward else "forward", c.id) in bad]
    random.Random(options.seed).shuffle(cases)
    return cases[: options.cases]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="support.compiled_opinfo", description=__doc__)
    parser.add_argument("--kind", nargs="+", default=["forward", "backward"], choices=["forward", "backward"])
    parser.add_argument("--dtype", nargs="+", default=["float32", "bfloat16", "int64", "bool"])
    parser.add_argument("--shapes", nargs="+", default=["static", "dynamic"], choices=["static", "dynamic"])
    parser.add_argument("--filter", default="", help="part of a case's name")
    parser.add_argument("--again", help="only what failed in this log")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--cases", type=int, help="at most so many")
    parser.add_argument("--samples", type=int, help="of a case; one that has something in it by default")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of a case")
    parser.add_argument("--minutes", type=float, default=1e9, help="limit of the run")
    parser.add_argument("--log", default="compiled_opinfo.jsonl")
    options = parser.parse_args(argv)
    cases, end = _chosen(options), time.monotonic() + 60 * options.minutes
    counts: Counter[str] = Counter()
    worker = None
    with open(options.log, "a") as log:
        for case in cases:
            if time.monotonic() > end:
                break
            if worker is None or worker.done >= _WORKER_CASES:
                if worker is not None:
                    worker.stop()
                worker = _Worker(options.samples)
            begun = time.monotonic()
            outcome, text = worker.run(case, options.seconds)
            counts[outcome] += 1
            kind = "backward" if case.backward else "forward"
            record = {"kind": kind, "case": case.id, "outcome": outcome, "seconds": round(time.monotonic() - begun, 2)}
            log.write(json.dumps(record | ({"text": text} if text else {})) + "\n")
            log.flush()
            if text:
                print(f"{outcome}: {kind} {case.id}: {text.strip().splitlines()[-1][:200]}", flush=True)
    if worker is not None:
        worker.stop()
    print(f"{sum(counts.values())} of {len(cases)} cases: " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items())))
    return int(bool(counts.keys() - {"ok", "refused"}))


if __name__ == "__main__":
    sys.exit(main())
