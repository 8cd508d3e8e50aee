"""FOLDER save|load: a sharded model and its optimizer, with as many processes as torchrun starts."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

folder, stage = sys.argv[1:]
torch.xpu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
torch.manual_seed(0 if stage == "save" else 1)
# 7 rows and 5 columns: no number of processes divides them.
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.BatchNorm1d(3)).to("xpu")
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
if stage == "save":
    for step in range(3):
        g = torch.Generator().manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(6, 5, generator=g).to("xpu")).square().sum().backward()
        optimizer.step()
weights, moments = get_state_dict(model, optimizer)
state = {"model": weights, "optimizer": moments, "step": 3 if stage == "save" else 0}
if stage == "save":
    dcp.save(state, checkpoint_id=folder)
else:
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
full = StateDictOptions(full_state_dict=True, cpu_offload=True)
weights, moments = get_state_dict(model, optimizer, options=full)
if dist.get_rank() == 0:
    bits = [t.double().sum().item().hex() for t in weights.values()]
    for name in sorted(moments["state"]):
        bits += [moments["state"][name][k].double().sum().item().hex() for k in ("exp_avg", "exp_avg_sq", "step")]
    print(state["step"], *bits, flush=True)
dist.destroy_process_group()
