"""accelerate's Accelerator and transformers' Trainer as they are, with as many processes as torchrun starts. Prints weights."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

LOCAL_RANK = int(os.environ["LOCAL_RANK"])


def data(count: int) -> torch.utils.data.TensorDataset:
    g = torch.Generator().manual_seed(1)
    x = torch.randn(count, 4, generator=g)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


def accelerate() -> nn.Module:
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=2)
    assert accelerator.device == torch.device("xpu", LOCAL_RANK), accelerator.device
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data(64), batch_size=16 // accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    assert isinstance(model, nn.parallel.DistributedDataParallel) == (accelerator.num_processes > 1)
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.mse_loss(model(x), y))
                optimizer.step()
                optimizer.zero_grad()
    every = accelerator.gather(torch.full((2,), float(accelerator.process_index), device=accelerator.device))
    assert every.tolist() == [float(r) for r in range(accelerator.num_processes) for _ in range(2)]
    return accelerator.unwrap_model(model)


class Rows(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.data = data(32)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, k: int) -> dict[str, torch.Tensor]:
        x, y = self.data[k]
        return {"x": x, "labels": y}


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer(x)
        return {"loss": nn.functional.mse_loss(y, labels), "logits": y}


def trainer() -> nn.Module:
    import transformers

    torch.manual_seed(0)
    args = transformers.TrainingArguments(
        output_dir=sys.argv[2], per_device_train_batch_size=8 // int(os.environ["WORLD_SIZE"]), max_steps=6, report_to=[],
        save_strategy="no", optim="sgd", learning_rate=0.1, lr_scheduler_type="constant", logging_steps=2, disable_tqdm=True,
        max_grad_norm=0.0,
    )  # fmt: skip
    assert args.device == torch.device("xpu", LOCAL_RANK), args.device
    # The order of the rows is that of the sampler with any number of processes.
    t = transformers.Trainer(Regression(), args, train_dataset=Rows())
    t.train()
    return t.accelerator.unwrap_model(t.model)


model = {"accelerate": accelerate, "trainer": trainer}[sys.argv[1]]()
# torchrun's Python has no buffer: a line is one write, so that no other process comes between.
if LOCAL_RANK == 0:
    values = [f"{v:.4f}" for p in model.parameters() for v in p.flatten().tolist()]
    sys.stdout.write(" ".join(["weights", *values]) + "\n")
if dist.is_initialized():
    sys.stdout.write(f"backend {dist.get_backend()}\n")
    dist.destroy_process_group()
