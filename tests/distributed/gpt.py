"""A small GPT with DDP, fully_shard, tensor and sequence parallel against one process, run by support.ranks.

Loss curves agree within 2e-4, their last digits: gradients are sums in another order.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, STEPS = 32, 32, 4, 16, 8, 8
TOLERANCE = 2e-4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        # A tensor parallel layer has some of the heads.
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def fresh() -> GPT:
    torch.manual_seed(5)
    return GPT()


def curve(model: nn.Module, *, split: bool) -> list[float]:
    """Losses of the whole batch over the steps. With `split` each rank computes its share."""
    # Tensor parallel leaves plain parameters beside DTensors, which torch's multi-tensor functions refuse.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=None if split else False)
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if split else (0, 1)
    losses = []
    for step in range(STEPS):
        g = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 3, (BATCH, LENGTH + 1), generator=g).cumsum(1) % VOCABULARY
        mine = tokens.chunk(ranks)[rank].to("xpu")
        loss = nn.functional.cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        if split:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def agree(got: list[float]) -> None:
    want = curve(fresh().to("xpu"), split=False)
    assert want[-1] < 0.7 * want[0], want
    torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=TOLERANCE, atol=TOLERANCE)


def check_ddp(rank: int) -> None:
    agree(curve(DistributedDataParallel(fresh().to("xpu")), split=True))


def check_fully_shard(rank: int) -> None:
    model = fresh().to("xpu")
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    agree(curve(model, split=True))


def check_fsdp1(rank: int) -> None:
    device = torch.device("xpu", torch.xpu.current_device())
    agree(curve(FullyShardedDataParallel(fresh().to("xpu"), device_id=device, use_orig_params=True), split=True))


def block_plan(sequence: bool) -> dict[str, object]:
    """How a block is spread. With `sequence` the norms have a part of the sequence each."""
    plan: dict[str, object] = {
        **{f"attention.{n}": ColwiseParallel() for n in "qkv"},
        "attention.out": RowwiseParallel(),
        "up": ColwiseParallel(),
        "down": RowwiseParallel(),
    }
    if sequence:
        gather = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
        plan.update(
            {
                "norm1": SequenceParallel(),
                "norm2": SequenceParallel(),
                "attention": PrepareModuleInput(**gather),
                "attention.out": RowwiseParallel(output_layouts=Shard(1)),
                "up": ColwiseParallel(input_layouts=Shard(1)),
                "down": RowwiseParallel(output_layouts=Shard(1)),
            }
        )
    return plan


def check_tensor_parallel(rank: int) -> None:
    model = fresh().to("xpu")
    mesh = init_device_mesh("xpu", (dist.get_world_size(),))
    for block in model.blocks:
        parallelize_module(block, mesh, block_plan(sequence=False))
    parallelize_module(model, mesh, {"head": ColwiseParallel(output_layouts=Replicate())})
    agree(curve(model, split=False))


def check_sequence_parallel(rank: int) -> None:
    model = fresh().to("xpu")
    mesh = init_device_mesh("xpu", (dist.get_world_size(),))
    parallelize_module(
        model,
        mesh,
        {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    for block in model.blocks:
        parallelize_module(block, mesh, block_plan(sequence=True))
    agree(curve(model, split=False))


def check_two_dimensions(rank: int) -> None:
    """Tensor parallel inside, fully_shard across: ranks as a mesh of two by two."""
    if dist.get_world_size() != 4:
        return
    model = fresh().to("xpu")
    mesh = init_device_mesh("xpu", (2, 2), mesh_dim_names=("data", "model"))
    for block in model.blocks:
        parallelize_module(block, mesh["model"], block_plan(sequence=False))
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
    losses = []
    for step in range(STEPS):
        g = torch.Generator().manual_seed(step)
        tokens = torch.randint(0, 3, (BATCH, LENGTH + 1), generator=g).cumsum(1) % VOCABULARY
        mine = tokens.chunk(2)[rank // 2].to("xpu")
        loss = nn.functional.cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    agree(losses)
