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
STEP = "DDP step, perceptron of 3 x 512, batch 64"
ALONE = "the same step in one process"

_PROGRAM = """
import json, os, statistics, sys, time
# Before any thread is made: each process has its half of the processors, for both devices.
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, cores[int(sys.argv[1]) :: 2] or cores)
import torch
import torch.distributed as dist
from torch import nn
rank, rendezvous, sizes = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
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

def step(device, parallel):
    torch.manual_seed(0)
    layers = [nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)]
    model = nn.Sequential(*layers).to(device)
    model = nn.parallel.DistributedDataParallel(model) if parallel else model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(64, 512).to(device)
    def run():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return run

for name, parallel in ((sys.argv[4], True), (sys.argv[5], False)):
    results[name] = both(step("cpu", parallel), step("xpu", parallel), calls=10)
if rank == 0:
    print(json.dumps(results))
dist.destroy_process_group()
"""


def rows(wanted: Callable[[str, str], bool]) -> Iterator[Row]:
    """One row for each size and for a training step; nothing where none of them is wanted."""
    names = [*(f"all_reduce {size}" for size in SIZES), STEP, ALONE]
    if not any(wanted(SECTION, name) for name in names):
        return
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(r), f"{folder}/rendezvous", json.dumps(SIZES), STEP, ALONE],
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
