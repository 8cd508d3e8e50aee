"""Training that torchrun may start again: FOLDER and, where given, the step at which rank 1 is killed on the first attempt."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

STEPS = 6
folder, die_at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else -1
local_rank, attempt = int(os.environ["LOCAL_RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.xpu.set_device(local_rank)
dist.init_process_group(device_id=torch.device("xpu", local_rank))
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1)).to("xpu")
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def saved(step: int) -> str:
    return os.path.join(folder, f"step{step}")


def complete() -> int:
    """Number of the last checkpoint that was written to its end."""
    done = [s for s in range(1, STEPS + 1) if os.path.exists(os.path.join(saved(s), ".metadata"))]
    return max(done, default=0)


begin = complete()
if begin:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=saved(begin))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
for step in range(begin, STEPS):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8, generator=g).chunk(ranks)[rank].to("xpu")
    if attempt == 0 and step == die_at and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(mean := loss.detach().clone(), dist.ReduceOp.AVG)
    if rank == 0:
        print(f"attempt {attempt} step {step} loss {mean.item().hex()}", flush=True)
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=saved(step + 1))
dist.destroy_process_group()
