"""Collectives on xpu against the same on CPU tensors over gloo: two processes, both devices in turn in each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from .core import Row

SECTION = "distributed"
SIZES = {"4 kB": 1 << 10, "64 kB": 1 << 14, "1 MB": 1 << 18, "16 MB": 1 << 22, "64 MB": 1 << 24}  # floats
# A model's step with DistributedDataParallel, and in one process.
MODELS = {"perceptron": "perceptron of 3 x 512, batch 64", "transformer": "transformer of 2 x 256, 4 x 128 tokens"}
STEPS = {
    f"{kind}, {text}": (name, kind == "DDP step")
    for name, text in MODELS.items()
    for kind in ("DDP step", "step in one process")
}

_PROGRAM = """
import json, os, statistics, sys, time
# Before any thread is made: each process has its half of the processors, for both devices.
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[int(sys.argv[1]) :: 2] or cores)
import torch
import torch.distributed as dist
from torch import nn
rank, rendezvous, sizes, steps = int(sys.argv[1]), sys.argv[2], *map(json.loads, sys.argv[3:])
torch.set_num_threads(len(os.sched_getaffinity(0)))
dist.init_process_group("cpu:gloo,xpu:xccl", init_method="file://" + rendezvous, rank=rank, world_size=2)

def timed(function, calls):
    dist.barrier()
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        torch.xpu.synchronize()
        times.append(time.perf_counter() - start)
    return times

# The mean of the faster third of the calls. gloo's thread polls while a message has come that nobody asked for
# yet; where that takes the core from the thread that would ask, a call waits 2 to 4 ms for the scheduler, on both devices.
def both(cpu, xpu, calls, rounds=15):
    for f in (cpu, xpu):
        f(), f()
    pairs = [(timed(cpu, calls), timed(xpu, calls)) for _ in range(rounds)]
    fast = lambda times: statistics.mean(sorted(times)[: max(1, len(times) // 3)])
    quartiles = statistics.quantiles([fast(p[1]) for p in pairs], n=4)
    return [*(fast([t for p in pairs for t in p[device]]) for device in (0, 1)), quartiles[2] - quartiles[0]]

results = {}
for name, n in sizes.items():
    tensors = {d: torch.ones(n, device=d) for d in ("cpu", "xpu")}
    functions = [lambda t=t: dist.all_reduce(t, dist.ReduceOp.MAX) for t in tensors.values()]
    results["all_reduce " + name] = both(*functions, calls=max(4, min(200, (1 << 23) // n)))

def perceptron():
    layers = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)]
    return nn.Sequential(*layers), torch.randn(64, 512)

def transformer():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Embedding(1000, 256), encoder, nn.Linear(256, 1000)), torch.randint(1000, (4, 128))

def step(device, build, parallel):
    torch.manual_seed(0)
    model, x = build()
    model, x = model.to(device), x.to(device)
    model = nn.parallel.DistributedDataParallel(model) if parallel else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    def run():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return run

for name, (build, parallel) in steps.items():
    build = {"perceptron": perceptron, "transformer": transformer}[build]
    results[name] = both(step("cpu", build, parallel), step("xpu", build, parallel), calls=10 if build is perceptron else 3)
if rank == 0:
    print(json.dumps(results))
dist.destroy_process_group()
"""


def rows(wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """One row for each size and for each training step; nothing where none of them is wanted."""
    names = [*(f"all_reduce {size}" for size in SIZES), *STEPS]
    if not any(wanted(SECTION, name) for name in names):
        return
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(r), f"{folder}/rendezvous", json.dumps(SIZES), json.dumps(STEPS)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for r in range(2)
        ]
        done = [p.communicate(timeout=600) for p in processes]
    if failed := [err for p, (_, err) in zip(processes, done, strict=True) if p.returncode]:
        message = (failed[0].strip().splitlines() or ["no message"])[-1][:80]
        yield from (Row(SECTION, name, 0.0, 0.0, 0.0, error=message) for name in names)
        return
    results: dict[str, Any] = json.loads(done[0][0].splitlines()[-1])
    for name in names:
        if wanted(SECTION, name):
            cpu, xpu, spread = results[name]
            yield Row(SECTION, name, cpu * 1e6, xpu * 1e6, spread / xpu)
