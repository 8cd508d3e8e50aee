"""Sharded training and a checkpoint: each process keeps its part of every parameter, gradient and optimizer state.

    XPU_OPS_CPU_DEVICES=2 torchrun --nproc-per-node 2 examples/fsdp.py

Start it again and it goes on from the checkpoint in the current folder, with any number of processes.
"""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

FOLDER = "fsdp-checkpoint"

local_rank = int(os.environ["LOCAL_RANK"])
torch.xpu.set_device(local_rank)
dist.init_process_group(device_id=torch.device("xpu", local_rank))
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)


def layer() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)


model = nn.Sequential(nn.Embedding(16, 32), layer(), layer(), nn.Linear(32, 16)).to("xpu")
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for part in model:
    fully_shard(part, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

done = 0
if os.path.isdir(FOLDER):
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "step": done}
    dcp.load(state, checkpoint_id=FOLDER)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    done = state["step"]

for step in range(done, done + 20):
    g = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, 16, (8, 9), generator=g).cumsum(1) % 16
    mine = tokens.chunk(ranks)[rank].to("xpu")
    loss = nn.functional.cross_entropy(model(mine[:, :-1]).flatten(0, 1).float(), mine[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

weights, moments = get_state_dict(model, optimizer)
dcp.save({"model": weights, "optimizer": moments, "step": step + 1}, checkpoint_id=FOLDER)
dist.all_reduce(loss := loss.detach(), dist.ReduceOp.AVG)
if rank == 0:
    print(f"step {step}: loss {loss.item():.3f}, saved in {FOLDER}", flush=True)
dist.destroy_process_group()
