"""Two-rank programs beside processes that keep the cores busy: each rank has to end with 0 and to print nothing.

A program: python tests/support/exits.py --runs 200
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ranks

PROGRAM = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
torch.xpu.set_device(rank)
group(120)
x = torch.ones(1000, device="xpu")
dist.all_reduce(x)
dist.all_gather([torch.empty_like(x) for _ in range(2)], x)
data = torch.randn(8, 64, device="xpu")
DistributedDataParallel(nn.Linear(64, 64).to("xpu"))(data).sum().backward()
sharded = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).to("xpu")
fully_shard(sharded)
sharded(data).sum().backward()
"""
ENDINGS = ("", "dist.destroy_process_group()")


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that never sleep."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(number: int) -> list[str]:
    """One line per rank of a run that did not end quietly."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        started = ranks.start_code(
            Path(folder), PROGRAM + ENDINGS[number % len(ENDINGS)], XPU_OPS_CPU_DEVICES="2", OMP_NUM_THREADS="1"
        )
        for rank, process in enumerate(started):
            out, error = process.communicate(timeout=300)
            if process.returncode or out.strip() or error.strip():
                found.append(f"run {number}, rank {rank}: exit code {process.returncode}: {out}{error[-2000:]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--busy", type=int, default=3, help="processes beside them")
    args = parser.parse_args()
    with busy(args.busy):
        found = [line for number in range(args.runs) for line in run(number)]
    print(*found, f"{args.runs} runs, {2 * args.runs} ranks, {len(found)} that did not end quietly", sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
