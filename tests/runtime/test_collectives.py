"""Collectives on XPU tensors: refused, because the CPU fallback would give back their inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import script

# One process of two. Each collective must raise before it communicates; one that does not writes its name and result.
PROGRAM = """
import sys, torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

rank, rendezvous = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method="file://" + rendezvous, rank=rank, world_size=2)
x, pair = torch.full((4,), 1.0 + rank, device="xpu"), torch.zeros(8, device="xpu")
two = [torch.zeros(4, device="xpu") for _ in range(2)]
here, other = rank == 0, 1 - rank
calls = {
    "allreduce_": lambda: dist.all_reduce(x),
    "allreduce_coalesced_": lambda: dist.all_reduce_coalesced([x, x + 1]),
    "broadcast_": lambda: dist.broadcast(x, src=0),
    "_allgather_base_": lambda: dist.all_gather_into_tensor(pair, x),
    "allgather_": lambda: dist.all_gather(two, x),
    "_reduce_scatter_base_": lambda: dist.reduce_scatter_tensor(x, pair),
    "reduce_scatter_": lambda: dist.reduce_scatter(x, two),
    "alltoall_base_": lambda: dist.all_to_all_single(torch.empty_like(x), x),
    "alltoall_": lambda: dist.all_to_all(two, [x, x]),
    "reduce_": lambda: dist.reduce(x, dst=0),
    "gather_": lambda: dist.gather(x, two if here else None, dst=0),
    "scatter_": lambda: dist.scatter(x, two if here else None, src=0),
    "send": lambda: dist.send(x, dst=other),
    "recv_": lambda: dist.recv(x, src=other),
    "functional all_reduce": lambda: functional.all_reduce(x, "sum", dist.group.WORLD) + 0,
    "functional all_gather": lambda: functional.all_gather_tensor(x, 0, dist.group.WORLD) + 0,
    "functional reduce_scatter": lambda: functional.reduce_scatter_tensor(pair, "sum", 0, dist.group.WORLD) + 0,
}
for name in sys.argv[3:] or calls:
    try:
        calls[name]()
        print(name, "gave", x.tolist())
    except NotImplementedError as e:
        wanted = name if not name.startswith("functional") else "c10d::"
        if "Collectives on xpu tensors are not there yet" not in str(e) or wanted not in str(e):
            print(name, "raised", e)
on_cpu = x.cpu()
dist.all_reduce(on_cpu)
print("cpu", on_cpu.tolist(), x.cpu().tolist() == [1.0 + rank] * 4)
dist.barrier()
dist.destroy_process_group()
"""


def run(tmp_path: Path, *names: str, **env: str) -> list[str]:
    """Standard output of both processes."""
    program, rendezvous = tmp_path / "program.py", tmp_path / "rendezvous"
    program.write_text(PROGRAM)
    code = f"""
        import subprocess, sys
        command = [sys.executable, {str(program)!r}, "RANK", {str(rendezvous)!r}, *{names!r}]
        both = [subprocess.Popen([str(r) if x == "RANK" else x for x in command], stdout=subprocess.PIPE, text=True) for r in range(2)]
        for process in both:
            print(process.communicate()[0].strip(), process.returncode)
    """
    return script.out(code, timeout=240, **env).splitlines()


@pytest.mark.parametrize("discrete", ["", "1"])
def test_every_collective_is_refused(tmp_path: Path, discrete: str) -> None:
    """In both modes: what works on the shared memory of a CPU is silently wrong on a GPU."""
    assert run(tmp_path, XPU_OPS_DISCRETE=discrete) == ["cpu [3.0, 3.0, 3.0, 3.0] True 0"] * 2
