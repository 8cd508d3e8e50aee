"""Training in a group against the same steps in one process, run by support.ranks. Unmodified torch.distributed on top."""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 3


class Model(nn.Module):
    """Embedding, normalisation and two layers, of which one may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.up = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)
        self.spare = nn.Linear(32, 32)
        self.down = nn.Linear(32, 11)

    def forward(self, x: Tensor, spare: bool = True) -> Tensor:
        y = self.norm(torch.relu(self.up(self.embed(x))))
        return self.down(self.spare(y) if spare else y)


def batch(step: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    """The rank's share of eight sequences."""
    g = torch.Generator().manual_seed(step)
    x = torch.randint(0, 11, (8, 5), generator=g)
    return tuple(t.chunk(ranks)[rank].to("xpu") for t in (x, (x * 3 + 1) % 11))  # type: ignore[return-value]


def loss_of(model: nn.Module, step: int, rank: int, ranks: int, **options: bool) -> Tensor:
    x, y = batch(step, rank, ranks)
    return nn.functional.cross_entropy(model(x, **options).flatten(0, 1), y.flatten())


def fresh() -> Model:
    torch.manual_seed(1)
    return Model()


def alone(
    lr: float = 0.1, spare: Callable[[int], bool] = lambda step: True, make: type = torch.optim.SGD
) -> dict[str, Tensor]:
    """Parameters after the steps of one process on the whole batch."""
    model = fresh().to("xpu")
    optimizer = make(model.parameters(), lr=lr)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, 0, 1, spare=spare(step)).backward()
        optimizer.step()
    return {k: v.detach().cpu() for k, v in model.state_dict().items()}


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, spare: Callable[[int], bool] = lambda step: True
) -> list[float]:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, step, rank, ranks, spare=spare(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def agree(got: dict[str, Tensor], want: dict[str, Tensor], tolerance: float = 2e-5) -> None:
    for name, w in want.items():
        g = got[name].detach()
        g = g.full_tensor() if hasattr(g, "full_tensor") else g
        torch.testing.assert_close(
            g.cpu().float(), w, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


def ddp(
    spare: Callable[[int], bool] = lambda step: True, hook: object = None, tolerance: float = 2e-5, **options: object
) -> None:
    model = DDP(fresh().to("xpu"), **options)  # type: ignore[arg-type]
    if hook is not None:
        model.register_comm_hook(None, hook)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), spare)
    agree(model.module.state_dict(), alone(spare=spare), tolerance)


def check_ddp(rank: int) -> None:
    ddp()
    ddp(bucket_cap_mb=0.001, gradient_as_bucket_view=True)
    ddp(static_graph=True)
    ddp(find_unused_parameters=True, spare=lambda step: step != 1)


def check_ddp_no_sync(rank: int) -> None:
    ranks = dist.get_world_size()
    model = DDP(fresh().to("xpu"))
    with model.no_sync():
        loss_of(model, 0, rank, ranks).backward()
    loss_of(model, 1, rank, ranks).backward()
    one = fresh().to("xpu")
    for step in (0, 1):
        loss_of(one, step, 0, 1).backward()
    for (name, p), q in zip(model.module.named_parameters(), one.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-5, msg=name)


def check_ddp_hooks(rank: int) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    ddp(hook=default_hooks.allreduce_hook)
    ddp(hook=default_hooks.bf16_compress_hook, tolerance=2e-3)
    ddp(hook=default_hooks.fp16_compress_hook, tolerance=2e-3)
    model = DDP(fresh().to("xpu"))
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=4, start_powerSGD_iter=2, min_compression_rate=1
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    assert losses[-1] == losses[-1]


def check_ddp_join(rank: int) -> None:
    model = DDP(fresh().to("xpu"))
    with model.join():
        for step in range(1 + rank):
            loss_of(model, step, rank, dist.get_world_size()).backward()
    dist.barrier()


def check_zero_redundancy(rank: int) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DDP(fresh().to("xpu"))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer)
    agree(model.module.state_dict(), alone(0.01, make=torch.optim.Adam), 1e-4)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))


def check_sync_batch_norm(rank: int) -> None:
    ranks = dist.get_world_size()
    net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3))).to("xpu")
    plain = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)).to("xpu")
    plain.load_state_dict(net.state_dict())
    x = torch.arange(8 * 36.0).view(8, 1, 6, 6).sin().to("xpu")
    DDP(net)(x.chunk(ranks)[rank])
    plain(x)
    torch.testing.assert_close(net[1].running_var, plain[1].running_var, rtol=1e-4, atol=1e-5)


def check_fsdp1(rank: int) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp import MixedPrecision, StateDictType
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    model = FSDP(
        fresh().to("xpu"),
        auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
        device_id=torch.device("xpu", torch.xpu.current_device()),
        use_orig_params=True,
    )
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        agree(model.state_dict(), alone())
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = FSDP(fresh().to("xpu"), mixed_precision=half, device_id=torch.device("xpu", torch.xpu.current_device()))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        agree(model.state_dict(), alone(), 2e-2)


def check_fsdp1_offload_and_checkpointing(rank: int) -> None:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import CPUOffload, StateDictType
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    device = torch.device("xpu", torch.xpu.current_device())
    model = fresh()
    model.spare, model.up = checkpoint_wrapper(model.spare), checkpoint_wrapper(model.up)
    model = FSDP(model, cpu_offload=CPUOffload(offload_params=True), device_id=device, use_orig_params=True)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        agree({k.replace("_checkpoint_wrapped_module.", ""): v for k, v in model.state_dict().items()}, alone())


def check_fully_shard_with_activation_checkpointing(rank: int) -> None:
    from torch.distributed._composable import checkpoint
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    model = fresh().to("xpu")
    for layer in (model.up, model.spare, model.down):
        checkpoint(layer)
        fully_shard(layer)
    fully_shard(model)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    agree(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), alone())


def check_join_of_ddp_and_zero_redundancy(rank: int) -> None:
    """One rank has a batch more: torch.distributed's Join lets it finish, and the ranks agree at the end."""
    from torch.distributed.algorithms.join import Join
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DDP(fresh().to("xpu"))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        for step in range(2 + rank):
            optimizer.zero_grad()
            loss_of(model, step, rank, dist.get_world_size()).backward()
            optimizer.step()
    for p in model.parameters():
        parts = [torch.empty_like(p) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, p.detach())
        assert all(torch.equal(parts[0], q) for q in parts)


def check_buckets_travel_while_backward_computes(rank: int) -> None:
    """The first bucket has arrived before the device has computed the last gradient."""
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(10))).to("xpu")
    first = DDP(model, bucket_cap_mb=1)
    arrived: list[float] = []
    ended: list[float] = []

    def hook(_, bucket):  # DDP wants no annotations that are strings
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        def stamp(f: torch.futures.Future[list[Tensor]]) -> Tensor:
            arrived.append(time.monotonic())
            return f.value()[0]

        return future.then(stamp)

    def watch(_: Tensor) -> None:
        # The last gradient is in the queue: a thread waits for the device to compute it.
        event = torch.xpu.Event()
        event.record()
        thread = threading.Thread(target=lambda: (event.synchronize(), ended.append(time.monotonic())))
        thread.start()
        threads.append(thread)

    first.register_comm_hook(None, hook)
    x = torch.randn(4096, 512, device="xpu")
    for _ in range(2):  # buckets have their final order from the second step on
        arrived.clear(), ended.clear()
        threads: list[threading.Thread] = []
        handle = model[0].weight.register_hook(watch)
        loss = first(x).sum()
        torch.xpu.synchronize()
        dist.barrier()
        loss.backward()
        handle.remove()
        for t in threads:
            t.join()
        torch.xpu.synchronize()
    assert len(arrived) > 4 and arrived[0] < ended[0], (arrived, ended)
    print(
        f"{sum(a < ended[0] for a in arrived)} of {len(arrived)} buckets arrived before backward ended", file=sys.stderr
    )


def check_fully_shard(rank: int) -> None:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

    for options, tolerance in (
        ({}, 2e-5),
        ({"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}, 2e-2),
        ({"offload_policy": CPUOffloadPolicy(pin_memory=False)}, 2e-5),
    ):
        model = fresh() if "offload_policy" in options else fresh().to("xpu")
        for layer in (model.up, model.spare, model.down):
            fully_shard(layer, **options)
        fully_shard(model, **options)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1))
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        agree(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), alone(), tolerance)


def check_tensor_parallel(rank: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    ranks = dist.get_world_size()
    mesh = init_device_mesh("xpu", (ranks,))
    model = fresh().to("xpu")
    plan = {"spare": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(model, mesh, plan)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(model, step, 0, 1).backward()
        optimizer.step()
    agree(model.state_dict(), alone())
    x = torch.arange(12.0, device="xpu").view(4, 3)
    d = distribute_tensor(x, mesh, [Shard(0)])
    assert isinstance(d, DTensor) and torch.equal(d.redistribute(mesh, [Shard(1)]).full_tensor(), x)
    assert torch.equal((d @ d.t()).redistribute(mesh, [Replicate()]).to_local(), x @ x.t())


def check_checkpoint(rank: int) -> None:
    """Saved by all ranks, read by one process that knows nothing of them."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    folder = os.path.join(tempfile.gettempdir(), f"xpu_ops_dcp_{os.getppid()}")
    model = fresh().to("xpu")
    want = copy.deepcopy(model.state_dict())
    fully_shard(model)
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
    dist.barrier()
    if rank == 0:
        got = {"model": {k: torch.zeros_like(v) for k, v in want.items()}}
        dcp.load(got, checkpoint_id=folder, no_dist=True)
        agree(got["model"], {k: v.cpu() for k, v in want.items()}, 0)
    dist.barrier()
    again = {"model": fresh().to("xpu").state_dict()}
    dcp.load(again, checkpoint_id=folder)
    agree(again["model"], {k: v.cpu() for k, v in want.items()}, 0)


def check_pipeline_trains(rank: int) -> None:
    """One forward, one backward: gradients of the stages are those of the whole model."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    ranks, device = dist.get_world_size(), torch.device("xpu", torch.xpu.current_device())
    torch.manual_seed(3)
    layers = [nn.Linear(6, 6).to("xpu") for _ in range(ranks)]
    x, target = torch.randn(8, 6).to("xpu"), torch.randn(8, 6).to("xpu")
    whole = [copy.deepcopy(layer) for layer in layers]
    y = x
    for layer in whole:
        y = torch.tanh(layer(y))
    # The schedule divides gradients by the number of micro-batches: a mean of means is the mean.
    nn.functional.mse_loss(y, target).backward()
    stage = PipelineStage(nn.Sequential(layers[rank], nn.Tanh()), rank, ranks, device)
    schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(x)
    elif rank == ranks - 1:
        schedule.step(target=target)
    else:
        schedule.step()
    torch.testing.assert_close(layers[rank].weight.grad, whole[rank].weight.grad, rtol=1e-4, atol=1e-6)


def check_pipeline(rank: int) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(2)
    layers = [nn.Linear(6, 6).to("xpu") for _ in range(dist.get_world_size())]
    x = torch.randn(8, 6).to("xpu")
    want = x
    for layer in layers:
        want = torch.tanh(layer(want))
    stage = PipelineStage(
        nn.Sequential(layers[rank], nn.Tanh()),
        rank,
        dist.get_world_size(),
        torch.device("xpu", torch.xpu.current_device()),
    )
    schedule = ScheduleGPipe(stage, 4)
    if rank == 0:
        schedule.step(x)
    else:
        out = schedule.step()
        if rank == dist.get_world_size() - 1:
            torch.testing.assert_close(out, want, rtol=1e-5, atol=1e-6)
