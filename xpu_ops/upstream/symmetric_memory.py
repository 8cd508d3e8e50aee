"""torch.distributed._symmetric_memory on xpu: its operators, and the parts of torch 2.13 that name CUDA.

The memory is the extension's (bindings/distributed/symmetric_memory.cpp). Operators are compositions of barriers and of
operators on the buffers of all ranks: they sum in float32 by the ranks' order, so that every rank has the same bits.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from xpu_ops.upstream.registry import apply, implement, replaces

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULE = "torch.distributed._symmetric_memory"
_TEST = "tests/distributed/test_symmetric_memory.py::test_symmetric_memory"
# Operators that torch writes in Python for every device, by the function.
_IN_PYTHON = {
    "get_remote_tensors": "_get_remote_tensors_default",
    "fused_all_gather_matmul": "_fused_all_gather_matmul",
    "fused_all_gather_scaled_matmul": "_fused_all_gather_scaled_matmul",
    "fused_matmul_reduce_scatter": "_fused_matmul_reduce_scatter",
    "fused_scaled_matmul_reduce_scatter": "_fused_scaled_matmul_reduce_scatter",
    "_low_contention_all_gather": "_low_contention_all_gather",
    "_low_contention_reduce_scatter": "_low_contention_reduce_scatter",
}


def install(module: ModuleType) -> None:
    """Register what torch.ops.symm_mem lacks on xpu, and let the module's functions run there."""
    apply("symmetric_memory")
    implement("symm_mem", {n: getattr(module, f) for n, f in _IN_PYTHON.items()} | _OPERATORS)


class _OnXpu:
    """The module torch with torch.xpu in the place of torch.cuda."""

    def __init__(self) -> None:
        xpu = torch.xpu
        self.cuda = SimpleNamespace(
            Stream=xpu.Stream,
            Event=xpu.Event,
            MemPool=xpu.MemPool,
            use_mem_pool=xpu.use_mem_pool,
            current_stream=xpu.current_stream,
            current_device=xpu.current_device,
            is_current_stream_capturing=xpu.is_current_stream_capturing,
            _sleep=lambda cycles: None,  # orders kernels of two streams, which barriers of the host do
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def device(self, *args: Any, **kwargs: Any) -> torch.device:
        """As torch.device, of xpu where CUDA is named."""
        made = torch.device(*args, **kwargs)
        return torch.device("xpu", made.index) if made.type == "cuda" else made


@replaces(
    f"{_MODULE}.torch",
    since="2.13",
    until="2.15",
    why="its functions ask torch.cuda for streams and devices; from 2.15 on they ask torch.accelerator",
    test=_TEST,
)
def without_cuda(upstream: ModuleType) -> Any:
    return upstream if torch.cuda.is_available() else _OnXpu()


@replaces(
    f"{_MODULE}._MEMPOOL_DEVICE_TYPES",
    since="2.15",
    why="allocations on xpu are mappings of their own, from no pool",
    test=_TEST,
)
def no_pool(upstream: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kind for kind in upstream if kind != "xpu")


@replaces(
    f"{_MODULE}._should_use_fused_all_gather_matmul_native",
    since="2.13",
    why="the product that waits for its operands inside of the kernel is CUTLASS's",
    test=_TEST,
)
def never_native(upstream: Any) -> Any:
    def _should_use_fused_all_gather_matmul_native(
        A_shard: torch.Tensor, Bs: list[torch.Tensor], gather_dim: int, group_name: Any
    ) -> bool:
        return A_shard.device.type != "xpu" and upstream(A_shard, Bs, gather_dim, group_name)

    return _should_use_fused_all_gather_matmul_native


def _handle(tensor: torch.Tensor, group: str) -> Any:
    from torch._C._distributed_c10d import _SymmetricMemory

    handle = _SymmetricMemory.rendezvous(tensor, group)
    if handle is None:
        raise RuntimeError(
            "the tensor is no symmetric memory: allocate it with torch.distributed._symmetric_memory.empty"
        )
    return handle


def _check(tensor: torch.Tensor, reduce_op: str = "sum") -> None:
    if reduce_op != "sum":
        raise RuntimeError(f"only sum is supported for now (got {reduce_op!r})")
    if not tensor.is_contiguous():
        raise RuntimeError("the tensor must be contiguous")


def _parts(handle: Any, tensor: torch.Tensor) -> list[torch.Tensor]:
    """The elements that every rank has in the place of `tensor`, flat."""
    first = (tensor.data_ptr() - handle.buffer_ptrs[handle.rank]) // tensor.element_size()
    return [
        handle.get_buffer(rank, (tensor.numel(),), tensor.dtype, storage_offset=first)
        for rank in range(handle.world_size)
    ]


def _sum(parts: list[torch.Tensor], out: torch.Tensor) -> torch.Tensor:
    """Written to `out`, 16-bit types rounded once."""
    if parts[0].dtype in (torch.bfloat16, torch.float16):
        total = parts[0].float()
        for part in parts[1:]:
            total += part
        return out.copy_(total)
    out.copy_(parts[0])
    for part in parts[1:]:
        out += part
    return out


def _one_shot_out(input: torch.Tensor, reduce_op: str, group_name: str, out: torch.Tensor) -> torch.Tensor:
    _check(input, reduce_op)
    _check(out)
    if out.shape != input.shape or out.dtype != input.dtype:
        raise RuntimeError(f"expected out of shape {tuple(input.shape)} and type {input.dtype}")
    handle = _handle(input, group_name)
    handle.barrier(channel=0)
    result = torch.empty_like(out) if out.data_ptr() == input.data_ptr() else out
    _sum(_parts(handle, input), result.view(-1))
    handle.barrier(channel=0)
    return out if result is out else out.copy_(result)


def _one_shot(input: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    return _one_shot_out(input, reduce_op, group_name, torch.empty_like(input))


def _one_shot_copy_out(
    symm_buffer: torch.Tensor, local_input: torch.Tensor, reduce_op: str, group_name: str, out: torch.Tensor
) -> torch.Tensor:
    _check(local_input, reduce_op)
    if local_input.numel() > symm_buffer.numel() or local_input.dtype != symm_buffer.dtype:
        raise RuntimeError("the symmetric buffer must hold the input's elements, in their type")
    part = symm_buffer.view(-1)[: local_input.numel()]
    part.copy_(local_input.view(-1))
    _one_shot_out(part, reduce_op, group_name, out.view(-1))
    return out


def _one_shot_copy(
    symm_buffer: torch.Tensor, local_input: torch.Tensor, reduce_op: str, group_name: str
) -> torch.Tensor:
    return _one_shot_copy_out(symm_buffer, local_input, reduce_op, group_name, torch.empty_like(local_input))


def _two_shot_out(input: torch.Tensor, reduce_op: str, group_name: str, output: torch.Tensor) -> torch.Tensor:
    """Each rank sums its part of all, and then takes the other parts from those that have summed them."""
    _check(input, reduce_op)
    _check(output)
    handle = _handle(input, group_name)
    parts = _parts(handle, input)
    ranks, own = handle.world_size, handle.rank
    bounds = [input.numel() * r // ranks for r in range(ranks + 1)]
    handle.barrier(channel=0)
    mine = slice(bounds[own], bounds[own + 1])
    total = torch.empty_like(parts[own][mine])
    _sum([part[mine] for part in parts], total)
    parts[own][mine] = total
    handle.barrier(channel=0)
    flat = output.view(-1)
    for r in range(ranks):
        part = slice(bounds[r], bounds[r + 1])
        if r != own or output.data_ptr() != input.data_ptr():
            flat[part] = parts[r][part]
    handle.barrier(channel=0)
    return output


def _two_shot_(input: torch.Tensor, reduce_op: str, group_name: str) -> torch.Tensor:
    return _two_shot_out(input, reduce_op, group_name, input)


def _reduce_scatter_out(
    input: torch.Tensor, group_name: str, split_last_dim: bool, output: torch.Tensor
) -> torch.Tensor:
    _check(input)
    _check(output)
    handle = _handle(input, group_name)
    dim = input.dim() - 1 if split_last_dim else 0
    if input.shape[dim] % handle.world_size or input.numel() != output.numel() * handle.world_size:
        raise RuntimeError("the input must have as many elements for each rank as the output")
    parts = [p.view(input.shape).chunk(handle.world_size, dim)[handle.rank] for p in _parts(handle, input)]
    handle.barrier(channel=0)
    _sum(parts, output.view(parts[0].shape))
    handle.barrier(channel=0)
    return output


def _fill(input: torch.Tensor, offset: int, value: int, count: int) -> torch.Tensor:
    if input.dim() != 1 or not input.is_contiguous() or input.dtype != torch.uint32:
        raise RuntimeError("the input must be a flat, contiguous uint32 tensor")
    if offset < 0 or count < 1 or offset + count > input.numel():
        raise RuntimeError(f"the elements {offset} to {offset + count} are outside of the input")
    if not 0 <= value < 2**32:
        raise RuntimeError(f"{value} is no uint32")
    input.view(torch.int32)[offset : offset + count].fill_(value - 2**32 if value >= 2**31 else value)
    return input


def _write_value(input: torch.Tensor, offset: int, val: int) -> torch.Tensor:
    return _fill(input, offset, val, 1)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "one_shot_all_reduce": _one_shot,
    "one_shot_all_reduce_out": _one_shot_out,
    "one_shot_all_reduce_copy": _one_shot_copy,
    "one_shot_all_reduce_copy_out": _one_shot_copy_out,
    "two_shot_all_reduce_": _two_shot_,
    "two_shot_all_reduce_out": _two_shot_out,
    "reduce_scatter_out": _reduce_scatter_out,
    "memset32_": _fill,
    "stream_write_value32_": _write_value,
}
