"""Device meshes of two dimensions: groups that are split off, hybrid sharding, tensor parallelism beside data parallelism."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ranks

BODY = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
torch.xpu.set_device(rank)
group(60)
mesh = init_device_mesh("xpu", SHAPE, mesh_dim_names=("outer", "inner"))
assert mesh["outer"].size() == SHAPE[0] and mesh["inner"].size() == SHAPE[1]
x = torch.ones(4, device="xpu") * (rank + 1)
dist.all_reduce(x, group=mesh.get_group("inner" if SHAPE[1] == 2 else "outer"))
assert x.tolist() == [3.0] * 4, x
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).to("xpu")
data = torch.randn(4, 8, device="xpu")
want = model(data)
if MODE == "hybrid":
    fully_shard(model, mesh=mesh)
else:
    parallelize_module(model, mesh["inner"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
got = model(data)
torch.testing.assert_close(got, want)
got.sum().backward()
assert all(p.grad is not None for p in model.parameters())
dist.destroy_process_group()
print("done")
"""


@pytest.mark.parametrize(
    "mode,shape",
    [
        ("hybrid", (1, 2)),
        pytest.param("hybrid", (2, 1), marks=pytest.mark.slow),
        pytest.param("tensor", (1, 2), marks=pytest.mark.slow),
    ],
)
def test_two_dimensions(tmp_path: Path, mode: str, shape: tuple[int, int]) -> None:
    body = BODY.replace("SHAPE", str(shape)).replace("MODE", repr(mode))
    for process in ranks.start_code(tmp_path, body, XPU_OPS_CPU_DEVICES="2", OMP_NUM_THREADS="1"):
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0 and out.strip() == "done", err[-3000:]
