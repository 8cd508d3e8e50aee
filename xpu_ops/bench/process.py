"""Rows that need processes of their own: the first call, resident memory, the device's worker threads; and time against size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .core import Case, Row

_IMPORT = """
import time
start = time.perf_counter()
import torch
x = torch.ones(1000, device=DEVICE)
(x + x).cpu()
"""
_REPORT = """
import json
seconds = time.perf_counter() - start
linked = 0
if DEVICE == "xpu":
    import xpu_ops._C
    linked = xpu_ops._C.module_stats()["linked"]
print(json.dumps({"seconds": seconds, "linked": linked}))
"""
_MEMORY = """
import json, re, torch
from xpu_ops.bench.models import MODELS, _Pair
torch.set_num_threads(2)
build, inputs = MODELS["ResNet-50"]
pair = _Pair(build, torch.float32, True)
if DEVICE == "xpu":  # the copy on the CPU would count twice
    pair.models = {"xpu": pair.models["cpu"].to("xpu")}
x = inputs().to(DEVICE)
for _ in range(3):
    pair(x).item()
# Not ru_maxrss: a process inherits that of the one that started it.
print(json.dumps({"kib": int(re.search("VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])}))
"""
_WORKERS = """
import json, os, time
# Before any thread is made: one processor makes the device, oneDNN's products too, use one worker.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:WORKERS])
import torch
def best(f):
    for _ in range(3): f()
    torch.xpu.synchronize()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(10): f()
        torch.xpu.synchronize()
        times.append((time.perf_counter() - start) / 10)
    return min(times)
x, m = torch.rand(4_000_000, device="xpu") + 0.5, torch.rand(1024, 1024, device="xpu")
print(json.dumps({"lgamma 4e6": best(lambda: torch.lgamma(x)), "pow 4e6": best(lambda: torch.pow(x, x)),
                  "tan 4e6": best(lambda: torch.tan(x)), "mm f32 1024": best(lambda: torch.mm(m, m))}))
"""

FIRST = "import to first result, us"
LINKED = "modules compiled at the first call"
MEMORY = "resident memory of ResNet-50 training, KiB"

SIZES = [10**k for k in range(3, 9)]
SCALING: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: x + x, "exp": torch.exp, "sum": torch.sum, "clone": torch.clone, "cumsum": lambda x: x.cumsum(0),
}  # fmt: skip


def scaling() -> Iterator[Case]:
    """Time against size: a row for each of five operators and six sizes."""
    for size in SIZES:
        x = torch.rand(size) / 8
        for name, function in SCALING.items():
            yield Case(f"scaling {name}", f"{size:.0e}", function, (x,), check=size < 10**8)


def _run(program: str, device: str, workers: int = 2) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", f"DEVICE, WORKERS = {device!r}, {workers}\n{program}"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _both(name: str, program: str, key: str, scale: float) -> Row:
    values = []
    try:
        for device in ("cpu", "xpu"):
            values.append(min(_run(program, device)[key] for _ in range(3 if key == "seconds" else 1)) * scale)
    except subprocess.CalledProcessError as error:
        return Row("process", name, 0.0, 0.0, 0.0, error=(error.stderr.strip().splitlines() or ["no message"])[-1][:80])
    return Row("process", name, values[0], values[1], 0.0)


def rows(wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """Rows of fresh processes. The two columns hold what the name says, and one worker and two in "workers"."""
    if wanted("process", FIRST):
        yield _both(FIRST, _IMPORT + _REPORT, "seconds", 1e6)
    if wanted("process", LINKED):
        yield Row("process", LINKED, 0.0, _run(_IMPORT + _REPORT, "xpu")["linked"], 0.0)
    if wanted("process", MEMORY):
        yield _both(MEMORY, _MEMORY, "kib", 1.0)
    if wanted("workers", ""):
        one, two = (_run(_WORKERS, "xpu", n) for n in (1, 2))
        for name in one:
            yield Row("workers", f"{name}, one against two", one[name] * 1e6, two[name] * 1e6, 0.0)
