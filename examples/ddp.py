"""Data-parallel training: each process has its share of every batch, and DistributedDataParallel averages the gradients.

    XPU_OPS_CPU_DEVICES=2 torchrun --nproc-per-node 2 examples/ddp.py

Nothing here names a backend: "xccl" is that of xpu. On a machine with one GPU per process leave the variable out.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

local_rank = int(os.environ["LOCAL_RANK"])
device = torch.device("xpu", local_rank)
torch.xpu.set_device(device)
dist.init_process_group(device_id=device)
rank, ranks = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
x = torch.randn(512, 16)
data = TensorDataset(x, (x[:, :4] * x[:, 4:8]).sum(1, keepdim=True))
sampler = DistributedSampler(data, shuffle=True)
loader = DataLoader(data, batch_size=64 // ranks, sampler=sampler)

model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 1)).to(device)
model = DistributedDataParallel(model, device_ids=[local_rank])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

for epoch in range(4):
    sampler.set_epoch(epoch)
    total = torch.zeros((), device=device)
    for inputs, target in loader:
        loss = nn.functional.mse_loss(model(inputs.to(device)), target.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    if rank == 0:
        print(f"epoch {epoch}: mean loss {total.item() / len(loader):.3f} on {ranks} processes", flush=True)

dist.destroy_process_group()
