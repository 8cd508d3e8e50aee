"""A process of four is killed while the others are in an all_reduce."""

from __future__ import annotations

import os
import signal

import torch
import torch.distributed as dist

torch.xpu.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group()
x = torch.ones(100_000, device="xpu")
for step in range(1000):
    if step == 5 and dist.get_rank() == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)
    x.div_(dist.get_world_size())
