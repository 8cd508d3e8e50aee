"""Checks of symmetric memory, run by support.ranks: what torch's own tests of it ask of CUDA, and what they leave out."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed._symmetric_memory as symmetric
from torch.distributed._symmetric_memory import (
    _fused_all_gather_matmul_fallback,
    _fused_all_gather_scaled_matmul_fallback,
    _fused_matmul_reduce_scatter_fallback,
    _fused_scaled_matmul_reduce_scatter_fallback,
)

BACKEND = "xccl"
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64)
ops = torch.ops.symm_mem


def place() -> torch.device:
    return torch.device("xpu", torch.xpu.current_device())


def name() -> str:
    return dist.group.WORLD.group_name


def shared(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, Any]:
    tensor = symmetric.empty(*shape, dtype=dtype, device=place())
    return tensor, symmetric.rendezvous(tensor, dist.group.WORLD)


def operand(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    g = torch.Generator().manual_seed(31 * rank + len(shape))
    if not dtype.is_floating_point:
        return torch.randint(-9, 9, shape, generator=g).to(dtype)
    return torch.randn(shape, generator=g).to(dtype)


def total(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    parts = [operand(r, *shape, dtype=dtype) for r in range(dist.get_world_size())]
    wide = torch.float32 if dtype.is_floating_point else dtype
    out = parts[0].to(wide)
    for part in parts[1:]:
        out = out + part
    return out.to(dtype)


def refused(text: str, call: Any, kind: type[Exception] = RuntimeError) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


def check_buffers(rank: int) -> None:
    ranks = dist.get_world_size()
    tensor, handle = shared(64, 32)
    assert tensor.device == place() and symmetric.is_symm_mem_tensor(tensor)
    assert not symmetric.is_symm_mem_tensor(torch.empty(4, device="xpu"))
    assert (handle.rank, handle.world_size, handle.buffer_size) == (rank, ranks, tensor.numel() * 4)
    assert symmetric.get_backend("xpu") == "XPU" and handle.device == place()
    tensor.fill_(rank + 1)
    handle.barrier()
    for r in range(ranks):
        assert bool((handle.get_buffer(r, (64, 32), torch.float32) == r + 1).all())
        assert bool((handle.get_remote_tensor(r, (64, 32), torch.float32) == r + 1).all())
        assert handle.get_buffer(r, (16,), torch.float32, storage_offset=8).device == place()
    handle.barrier()
    # Written by the neighbour, in a part of its own.
    handle.get_buffer((rank + 1) % ranks, (32,), torch.float32, storage_offset=32 * rank).fill_(-rank)
    handle.barrier()
    left = (rank - 1) % ranks
    assert bool((tensor.view(-1)[32 * left : 32 * left + 32] == -left).all())
    assert [t.shape for t in ops.get_remote_tensors(tensor, name())] == [tensor.shape] * ranks
    assert symmetric.rendezvous(torch.empty(4, device="xpu"), name()) is None
    handle.barrier()


def check_signals(rank: int) -> None:
    _, handle = shared(16)
    ranks = dist.get_world_size()
    for channel in range(2):
        handle.put_signal((rank + 1) % ranks, channel=channel)
        handle.wait_signal((rank - 1) % ranks, channel=channel)
    assert int(handle.get_signal_pad(rank).view(torch.int32).sum()) == 0
    dist.barrier()
    if rank == 0:
        refused("Timed out after 100 ms in wait_signal: rank 1", lambda: handle.wait_signal(1, timeout_ms=100))
        handle.put_signal(1)
        refused("Timed out after 100 ms in put_signal: rank 1", lambda: handle.put_signal(1, timeout_ms=100))
    dist.barrier()
    if rank == 1:
        handle.wait_signal(0, timeout_ms=10000)
    refused("channel", lambda: handle.barrier(channel=-1))
    refused("maximum supported channel", lambda: handle.barrier(channel=1 << 20))
    refused("rank must be in", lambda: handle.put_signal(ranks))
    refused("graph", lambda: capture(handle))
    dist.barrier()


def capture(handle: Any) -> None:
    with torch.xpu.graph(torch.xpu.XPUGraph()):
        handle.barrier()


def check_barriers_order_streams(rank: int) -> None:
    """Work that a stream has before a barrier is seen by the others after it."""
    tensor, handle = shared(1 << 16)
    other = torch.xpu.Stream()
    for step in range(20):
        stream = other if step % 2 else torch.xpu.current_stream()
        with stream:
            tensor.copy_(torch.full_like(tensor, step * 10 + rank).sqrt().square().round())
            handle.barrier(channel=step % 2)
            for r in range(dist.get_world_size()):
                assert bool((handle.get_buffer(r, tensor.shape, tensor.dtype) == step * 10 + r).all())
            handle.barrier(channel=step % 2)
        torch.xpu.synchronize()


def check_persistent_allocations(rank: int) -> None:
    def make() -> torch.Tensor:
        return symmetric._SymmetricMemory.empty_strided_p2p((8, 4), (4, 1), torch.float32, place(), name(), alloc_id=42)

    first = make()
    where = first.data_ptr()
    refused("still active", make)
    handle = symmetric._SymmetricMemory.rendezvous(first)
    del first
    again = make()
    assert again.data_ptr() == where and symmetric._SymmetricMemory.rendezvous(again).buffer_ptrs == handle.buffer_ptrs
    dist.barrier()


def check_sizes_must_agree(rank: int) -> None:
    tensor = symmetric.empty(8 + rank, device=place())
    refused("same size on all ranks", lambda: symmetric.rendezvous(tensor, name()))
    dist.barrier()


def check_all_reduce(rank: int) -> None:
    for dtype, size in itertools.product(TYPES, (1, 7, 1000)):
        want = total(size, dtype=dtype)
        tensor, _ = shared(size + 3, dtype=dtype)
        part, own = tensor[3:], operand(rank, size, dtype=dtype).to("xpu")
        part.copy_(own)
        got = ops.one_shot_all_reduce(part, "sum", name())
        out = torch.empty_like(got)
        ops.one_shot_all_reduce_out(part, "sum", name(), out)
        copied = ops.one_shot_all_reduce_copy(tensor, own, "sum", name())
        for result in (got, out, copied):
            assert torch.equal(result.cpu(), want), (dtype, size)
        part.copy_(own)
        ops.two_shot_all_reduce_out(part, "sum", name(), out.zero_())
        assert torch.equal(out.cpu(), want)
        part.copy_(own)
        assert ops.two_shot_all_reduce_(part, "sum", name()).data_ptr() == part.data_ptr()
        assert torch.equal(part.cpu(), want)
        part.copy_(own)
        ops.one_shot_all_reduce_out(part, "sum", name(), part)
        assert torch.equal(part.cpu(), want)
    refused("sum", lambda: ops.one_shot_all_reduce(part, "avg", name()))
    refused("no symmetric memory", lambda: ops.one_shot_all_reduce(part.clone(), "sum", name()))
    dist.barrier()


def check_reduce_scatter(rank: int) -> None:
    ranks = dist.get_world_size()
    for dtype, last in itertools.product(TYPES, (False, True)):
        tensor, _ = shared(4 * ranks, 8 * ranks, dtype=dtype)
        tensor.copy_(operand(rank, *tensor.shape, dtype=dtype))
        want = total(*tensor.shape, dtype=dtype).chunk(ranks, 1 if last else 0)[rank]
        out = torch.empty(want.shape, dtype=dtype, device="xpu")
        ops.reduce_scatter_out(tensor, name(), last, out)
        assert torch.equal(out.cpu(), want)


def check_values_are_written(rank: int) -> None:
    signals = torch.zeros(8, dtype=torch.uint32, device="xpu")
    symmetric._SymmetricMemory.stream_write_value32(signals, 3, 7)
    symmetric._SymmetricMemory.memset32(signals, offset=5, val=2**32 - 1, count=2)
    assert signals.tolist() == [0, 0, 0, 7, 0, 2**32 - 1, 2**32 - 1, 0]
    refused("outside", lambda: symmetric._SymmetricMemory.memset32(signals, offset=7, val=1, count=2))


def check_low_contention(rank: int) -> None:
    ranks = dist.get_world_size()
    for in_place in (True, False):
        tensor = shared(4 * ranks, 6)[0] if in_place else torch.empty(4 * ranks, 6, device="xpu")
        tensor.copy_(operand(rank, 4 * ranks, 6))
        got = functional.wait_tensor(ops._low_contention_all_gather(tensor, name()))
        assert torch.equal(got.cpu(), torch.cat([operand(r, 4 * ranks, 6) for r in range(ranks)]))
        for reduce_op in ("sum", "avg"):
            got = functional.wait_tensor(ops._low_contention_reduce_scatter(tensor, reduce_op, name()))
            want = total(4 * ranks, 6, dtype=torch.float32).chunk(ranks)[rank]
            torch.testing.assert_close(got.cpu(), want / (ranks if reduce_op == "avg" else 1))


def check_all_gather_matmul(rank: int) -> None:
    ranks = dist.get_world_size()
    for dim, dtype in itertools.product((0, 1, 2), (torch.float32, torch.bfloat16)):
        own = operand(rank, 4, 8, 16, dtype=dtype).to("xpu")
        rows = 16 * ranks if dim == 2 else 16
        factors = [operand(7 + i, rows, 12, dtype=dtype).to("xpu") for i in range(2)]
        want = _fused_all_gather_matmul_fallback(own, factors, dim, name())
        got = ops.fused_all_gather_matmul(own, factors, dim, name())
        assert torch.equal(got[0], want[0])
        for a, b in zip(got[1], want[1], strict=True):
            assert a.stride() == b.stride()
            # Along the last dim torch adds the products of the shards in the tensors' type.
            torch.testing.assert_close(a, b, rtol=2e-2, atol=0.1 if dim == 2 and dtype == torch.bfloat16 else 1e-4)
        assert ops.fused_all_gather_matmul(own, factors, dim, name(), return_A=False)[0] is None


def check_matmul_reduce_scatter(rank: int) -> None:
    ranks = dist.get_world_size()
    for dim, op in itertools.product((0, 1, 2), ("sum", "avg")):
        own, factor = operand(rank, 2 * ranks, 4 * ranks, 16).to("xpu"), operand(rank + 5, 16, 4 * ranks).to("xpu")
        want = _fused_matmul_reduce_scatter_fallback(own, factor, op, dim, name())
        got = ops.fused_matmul_reduce_scatter(own, factor, op, dim, name())
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def check_scaled(rank: int) -> None:
    ranks, fp8 = dist.get_world_size(), torch.float8_e4m3fn
    own = operand(rank, 2, 8 * ranks, 32).to(fp8).to("xpu")
    factor = operand(9, 16 * ranks, 32).to(fp8).to("xpu").t()
    for scales in (((), ()), ((2, 8 * ranks, 1), (1, 16 * ranks))):
        a, b = (torch.rand(s, generator=torch.Generator().manual_seed(3)).to("xpu") + 0.5 for s in scales)
        rest = ([None], [None], [torch.bfloat16], [False])
        want = _fused_all_gather_scaled_matmul_fallback(own, [factor], a, [b], 0, name(), *rest)
        got = ops.fused_all_gather_scaled_matmul(own, [factor], a, [b], 0, name(), *rest)
        assert torch.equal(got[0].view(torch.uint8), want[0].view(torch.uint8))
        torch.testing.assert_close(got[1][0], want[1][0])
        flat, flat_a = own.flatten(0, 1), a.flatten(0, 1) if a.dim() else a
        call = (flat, factor, flat_a, b, "sum", 0, 0, name(), [flat.shape[0], factor.shape[1]])
        more = {"out_dtype": torch.bfloat16}
        want = _fused_scaled_matmul_reduce_scatter_fallback(*call, **more)
        torch.testing.assert_close(ops.fused_scaled_matmul_reduce_scatter(*call, **more), want, rtol=2e-2, atol=0.2)


def check_subgroup(rank: int) -> None:
    """Two ranks of the group, or both."""
    pair = [0, dist.get_world_size() - 1]
    group = dist.new_group(pair, timeout=timedelta(seconds=60))
    if rank in pair:
        tensor = symmetric.empty(16, device=place()).fill_(rank + 1)
        handle = symmetric.rendezvous(tensor, group)
        assert (handle.rank, handle.world_size) == (pair.index(rank), 2)
        got = ops.one_shot_all_reduce(tensor, "sum", group.group_name)
        assert got.tolist() == [sum(r + 1 for r in pair)] * 16
    dist.barrier()
