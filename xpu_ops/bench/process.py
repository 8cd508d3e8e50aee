"""Rows that need processes of their own: the first call, resident memory, the device's worker threads; and time against size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

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
from xpu_ops.bench.models import MODELS, Pair
torch.set_num_threads(2)
build, inputs = MODELS["ResNet-50"]
pair = Pair(build, torch.float32, True)
if DEVICE == "xpu":  # the copy on the CPU would count twice
    pair.models = {"xpu": pair.models["cpu"].to("xpu")}
x = inputs().to(DEVICE)
for _ in range(3):
    pair(x).item()
# Not ru_maxrss: a process inherits that of the one that started it.
print(json.dumps({"kib": int(re.search("VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1])}))
"""
_FIRST_USE = """
import json, time, torch
from xpu_ops.bench.process import FIRST_CALLS
wait = torch.xpu.synchronize if DEVICE == "xpu" else lambda: None
(torch.ones(10, device=DEVICE) + 1).sum().item()
seconds = {}
for name in [NAME] if NAME else FIRST_CALLS:
    make, function = FIRST_CALLS[name]
    args = [t.to(DEVICE) for t in make()]
    wait()
    start = time.perf_counter()
    with torch.no_grad():
        function(*args)
    wait()
    seconds[name] = time.perf_counter() - start
print(json.dumps(seconds))
"""
_TWENTY = """
import json, re, torch
from xpu_ops.bench.process import FIRST_CALLS
torch.set_num_threads(2)
with torch.no_grad():
    for make, function in list(FIRST_CALLS.values())[:20]:
        function(*(t.to(DEVICE) for t in make()))
        torch.xpu.synchronize() if DEVICE == "xpu" else None
print(json.dumps({"mib": int(re.search("VmHWM:\\s+([0-9]+)", open("/proc/self/status").read())[1]) / 1024}))
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

FIRST = "import to first result"
LINKED = "modules compiled at the first call"
FIRST_USE = "first use"
TWENTY = "resident memory after twenty operators"
MEMORY = "resident memory of ResNet-50 training"

_image = lambda: torch.rand(2, 16, 32, 32)  # noqa: E731
_rows = lambda: torch.rand(128, 1024)  # noqa: E731
_ids = lambda n: torch.arange(n).flip(0)  # noqa: E731
# Operands and a call of each family whose device code, or primitive of oneDNN, is loaded at the first call.
FIRST_CALLS: dict[str, tuple[Callable[[], list[torch.Tensor]], Callable[..., Any]]] = {
    "mul": (lambda: [_rows(), _rows()], torch.mul),
    "sin": (lambda: [_rows()], torch.sin),
    "gelu": (lambda: [_rows()], F.gelu),
    "where": (lambda: [_rows() > 0.5, _rows(), _rows()], torch.where),
    "sum": (lambda: [_rows()], lambda x: x.sum(1)),
    "argmax": (lambda: [_rows()], lambda x: x.argmax(1)),
    "softmax": (lambda: [_rows()], lambda x: x.softmax(-1)),
    "layer_norm": (lambda: [_rows()], lambda x: F.layer_norm(x, x.shape[1:])),
    "batch_norm": (lambda: [_image()], lambda x: F.batch_norm(x, None, None, training=True)),
    "mm": (lambda: [torch.rand(256, 256)] * 2, torch.mm),
    "linear, bf16": (lambda: [torch.rand(256, 256).bfloat16()] * 2, F.linear),
    "conv2d": (lambda: [_image(), torch.rand(16, 16, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)),
    "attention": (lambda: [torch.rand(1, 4, 128, 64)] * 3, F.scaled_dot_product_attention),
    "max_pool2d": (lambda: [_image()], lambda x: F.max_pool2d(x, 2)),
    "embedding": (lambda: [_ids(128), _rows()], F.embedding),
    "index": (lambda: [_rows(), _ids(128)], lambda x, i: x[i]),
    "cat": (lambda: [_rows(), _rows()], lambda x, y: torch.cat([x, y])),
    "permute": (lambda: [_image()], lambda x: x.permute(0, 2, 3, 1).contiguous()),
    "sort": (lambda: [_rows()], torch.sort),
    "normal": (lambda: [_rows()], torch.randn_like),
    "dropout": (lambda: [_rows()], F.dropout),
    "scatter_add": (lambda: [_rows(), _ids(128), _rows()], lambda x, i, y: x.index_add(0, i, y)),
    "topk": (lambda: [_rows()], lambda x: x.topk(5)),
    "cumsum": (lambda: [_rows()], lambda x: x.cumsum(1)),
    "nonzero": (lambda: [_rows() > 0.5], torch.nonzero),
    "interpolate": (lambda: [_image()], lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
    "cross_entropy": (lambda: [_rows(), _ids(128)], F.cross_entropy),
    "foreach": (lambda: [_rows(), _rows()], lambda x, y: torch._foreach_mul([x, y], 2.0)),
    "cholesky": (lambda: [torch.eye(64)], torch.linalg.cholesky),
    "fft": (lambda: [_rows()], torch.fft.rfft),
}

SIZES = [10**k for k in range(3, 9)]
# Operators, and the bytes that each moves per element.
SCALING: dict[str, tuple[int, Callable[[torch.Tensor], Any]]] = {
    "add": (8, lambda x: x + x), "exp": (8, torch.exp), "sum": (4, torch.sum), "clone": (8, torch.clone),
    "cumsum": (8, lambda x: x.cumsum(0)),
}  # fmt: skip


def scaling() -> Iterator[Case]:
    """Time against size: a row for each of five operators and six sizes."""
    for size in SIZES:
        x = torch.rand(size) / 8
        for name, (each, function) in SCALING.items():
            yield Case(f"scaling {name}", f"{size:.0e}", function, (x,), check=size < 10**8, bytes_moved=each * size)


def _run(program: str, device: str, workers: int = 2, name: str = "") -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", f"DEVICE, WORKERS, NAME = {device!r}, {workers}, {name!r}\n{program}"],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _both(name: str, program: str, key: str, scale: float, unit: str) -> Row:
    values = []
    try:
        for device in ("cpu", "xpu"):
            values.append(min(_run(program, device)[key] for _ in range(3 if key == "seconds" else 1)) * scale)
    except subprocess.CalledProcessError as error:
        message = (error.stderr.strip().splitlines() or ["no message"])[-1][:80]
        return Row("process", name, 0.0, 0.0, 0.0, error=message, unit=unit)
    return Row("process", name, values[0], values[1], 0.0, unit=unit)


def rows(wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """Rows of fresh processes. The two columns hold what the unit says, and one worker and two in "workers".

    In "first use", the CPU's first calls are those of one process; a target says something about xpu's alone.
    """
    if wanted("process", FIRST):
        yield _both(FIRST, _IMPORT + _REPORT, "seconds", 1e6, "us")
    if wanted("process", LINKED):
        yield Row("process", LINKED, 0.0, _run(_IMPORT + _REPORT, "xpu")["linked"], 0.0, unit="modules")
    if wanted("process", MEMORY):
        yield _both(MEMORY, _MEMORY, "kib", 1.0 / 1024, "MiB")
    if wanted("process", TWENTY):
        yield _both(TWENTY, _TWENTY, "mib", 1.0, "MiB")
    chosen = [name for name in FIRST_CALLS if wanted(FIRST_USE, name)]
    first_calls = _run(_FIRST_USE, "cpu") if chosen else {}
    for name in chosen:  # a process each: what one has loaded is there for the next
        xpu = min(_run(_FIRST_USE, "xpu", name=name)[name] for _ in range(2))
        yield Row(FIRST_USE, name, first_calls[name] * 1e6, xpu * 1e6, 0.0)
    if wanted("workers", ""):
        one, two = (_run(_WORKERS, "xpu", n) for n in (1, 2))
        for name in one:
            yield Row("workers", f"{name}, one against two", one[name] * 1e6, two[name] * 1e6, 0.0)
