"""Checks of what a profile shows of collectives, run by support.ranks."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from support.profiles import BOTH, names, trace_of
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

N = 1000


def xpu(*shape: int) -> torch.Tensor:
    return torch.ones(shape, device="xpu")


def profiled(f: Callable[[], object], **options: Any) -> tuple[profile, list[dict[str, Any]]]:
    with profile(activities=BOTH, record_shapes=True, **options) as prof:
        f()
    with tempfile.TemporaryDirectory() as folder:
        return prof, trace_of(prof, Path(folder))


def recorded(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e["args"] for e in trace if e.get("name") == "record_param_comms"]


def check_every_collective(rank: int) -> None:
    """Name, elements in and out, the rank that is special, the range, and the tensors that come in."""
    x, y, both = xpu(N), xpu(2 * N), [xpu(N), xpu(N)]
    root = [0, both] if rank == 0 else [0, None]
    world: Any = dist.group.WORLD
    sparse = torch.eye(4).to_sparse().to("xpu")
    cases: list[tuple[Callable[[], Any], str, int, int, int, str]] = [
        (lambda: dist.all_reduce(x), "allreduce", N, N, rank, "all_reduce"),
        (lambda: dist.all_reduce(sparse), "allreduce_sparse", 16, 16, rank, "all_reduce_sparse"),
        (lambda: world.allreduce_coalesced([x, y]).wait(), "allreduce_coalesced", 3 * N, 3 * N, rank, "allreduce_coalesced"),
        (lambda: dist.broadcast(x, 1), "broadcast", N, N, 1, "broadcast"),
        (lambda: dist.reduce(x, 1), "reduce", N, N, 1, "reduce"),
        (lambda: dist.all_gather(both, x), "all_gather", N, 2 * N, rank, "all_gather"),
        (lambda: dist.all_gather_into_tensor(y, x), "_allgather_base", N, 2 * N, rank, "_all_gather_base"),
        (lambda: world.allgather_into_tensor_coalesced([y, y], [x, x]).wait(),
         "allgather_into_tensor_coalesced", 2 * N, 4 * N, rank, "all_gather_into_tensor_coalesced"),
        (lambda: dist.gather(x, root[1], 0), "gather", N, 2 * N, 0, "gather"),
        (lambda: dist.scatter(x, root[1], 0), "scatter", 2 * N, N, 0, "scatter"),
        (lambda: dist.reduce_scatter(x, both), "reduce_scatter", 2 * N, N, rank, "reduce_scatter"),
        (lambda: dist.reduce_scatter_tensor(x, y), "_reduce_scatter_base", 2 * N, N, rank, "_reduce_scatter_base"),
        (lambda: dist.all_to_all(both, [x, x]), "all_to_all", 2 * N, 2 * N, rank, "all_to_all"),
        (lambda: dist.all_to_all_single(y, xpu(2 * N)), "all_to_all", 2 * N, 2 * N, rank, "all_to_all"),
        (lambda: dist.all_to_all_single(y, xpu(2 * N), [N, N], [N, N]), "all_to_allv", 2 * N, 2 * N, rank, "all_to_all"),
        (lambda: (dist.recv if rank else dist.send)(x, 1 - rank), "recv" if rank else "send", N, N, 1 - rank,
         "recv 1<-0" if rank else "send 0->1"),
    ]  # fmt: skip
    for call, *expected in cases:
        prof, trace = profiled(call)
        first, wait = recorded(trace)
        found = [first[k] for k in ("Collective name", "In msg nelems", "Out msg nelems")]
        peer = next((first[k] for k in ("Src Rank", "Dst Rank") if k in first), first["Rank"])
        (inside,) = (e for e in prof.events() if e.name.startswith("xccl:") and e.device_type.name == "CPU")
        assert [*found, peer, inside.name.removeprefix("xccl:")] == expected, (found, peer, inside.name, expected)
        shown = sum(math.prod(s) for s in inside.input_shapes)
        assert shown == (0 if expected[0] == "scatter" and rank else first["In msg nelems"]), inside.input_shapes
        assert inside.is_async
        assert first["dtype"] == "Float" and first["Process Group Name"] == "0"
        assert (first["Process Group Ranks"], first["Group size"]) == ("[0, 1]", 2)
        assert (wait["Collective name"], wait["Seq"]) == ("wait", first["Seq"])
        assert first["In split size"] == (f"[{N}, {N}]" if expected[0] == "all_to_allv" else "[]")


def check_sequence_numbers(rank: int) -> None:
    x = xpu(N)
    numbers = [e["Seq"] for e in recorded(profiled(lambda: [dist.all_reduce(x) for _ in range(3)])[1])]
    assert numbers == [numbers[0] + i for i in (0, 0, 1, 1, 2, 2)], numbers


def check_groups(rank: int) -> None:
    """The name, the description and the global ranks; a group of gloo alone as well."""
    x = xpu(N)
    for backend in ("cpu:gloo,xpu:xccl", "gloo"):
        group = dist.new_group([1], backend=backend, group_desc="the second")
        if rank == 1:
            first, _ = recorded(profiled(lambda group=group: dist.all_reduce(x, group=group))[1])
            assert first["Process Group Name"] == group.group_name, first
            assert first["Process Group Description"] == "the second", first
            assert (first["Global rank start"], first["Group size"]) == (1, 1), first


def check_barriers(rank: int) -> None:
    """Of a group for xpu tensors alone."""
    group = dist.new_group(backend="xccl")
    prof, trace = profiled(lambda: dist.barrier(group))
    assert [(e["Collective name"], e["In msg nelems"]) for e in recorded(trace)] == [("barrier", 0), ("wait", 0)]
    assert "xccl:barrier" in {e.name for e in prof.events()}


def check_the_time_that_it_took(rank: int) -> None:
    """From the start in the engine until the result is back, on a row of its own: the other rank comes later."""
    x = xpu(1 << 20)

    def work() -> None:
        done = dist.all_reduce(x.sin(), async_op=True)  # the stream is busy: it starts on another thread
        x.cos()
        done.wait()

    dist.barrier()
    if rank == 1:
        time.sleep(0.4)
    prof, trace = profiled(work)
    (carried,) = (e for e in trace if e.get("cat") == "gpu_user_annotation")
    assert carried["name"] == "xccl:all_reduce"
    assert carried["dur"] > 0.2e6 or rank == 1, carried
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e.get("name") == "thread_name"}
    assert rows[carried["pid"], carried["tid"]].startswith("collectives"), rows
    streams = {e["tid"] for e in trace if e.get("cat") == "kernel"}
    assert carried["tid"] not in streams
    assert {"sin f32", "cos f32"} <= set(names(prof)) and "xccl:all_reduce" not in names(prof)


def check_a_profile_that_ends_before_the_collective(rank: int) -> None:
    """The stock gloo range would write into the profile's freed memory."""
    x = xpu(N)
    for _ in range(5):
        dist.barrier()
        if rank == 1:
            time.sleep(0.2)
        with profile(activities=[ProfilerActivity.CPU]) as prof:
            pending = dist.all_reduce(x, async_op=True)
        assert [e.name for e in prof.events() if "all_reduce" in e.name] == ["xccl:all_reduce"]
        del prof
        with profile(activities=[ProfilerActivity.CPU]):
            torch.ones(100) + 1
        pending.wait()


def check_execution_traces(rank: int) -> None:
    x = xpu(N)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "execution.json")
        observer = ExecutionTraceObserver().register_callback(str(file))
        profiled(lambda: dist.all_reduce(x), execution_trace_observer=observer)
        observer.unregister_callback()
        nodes = json.loads(file.read_text())["nodes"]
    first = next(n for n in nodes if n["name"] == "record_param_comms")
    attributes = {a["name"]: a["value"] for a in first["attrs"]}
    assert first["inputs"]["shapes"][0] == [[N]], first
    assert (attributes["collective_name"], attributes["in_msg_nelems"]) == ("allreduce", N), attributes


def check_data_parallel_training(rank: int) -> None:
    """One record for the bucket of the gradients, within the backward pass."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(30, 20).to("xpu"))
    x = xpu(8, 30)
    model(x).sum().backward()
    _, trace = profiled(lambda: model(x).sum().backward())
    reduced = [e for e in recorded(trace) if e["Collective name"] == "allreduce"]
    assert [e["In msg nelems"] for e in reduced] == [30 * 20 + 20]
