"""Functions that torch.nn.DataParallel and torch.nn.parallel.comm call, and that only a CUDA build of torch has, for its own tensors."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xpu_ops.upstream.registry import adds


def _device(index: int | None) -> torch.device:
    if index == -1:
        return torch.device("cpu")
    return torch.device("xpu", torch.xpu.current_device() if index is None else index)


def _check_inputs(tensors: Sequence[torch.Tensor]) -> None:
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    for i, t in enumerate(tensors):
        if t.device.type != "xpu":
            raise RuntimeError(
                f"Expected all input tensors to be XPU tensors, but tensor at index {i} has device {t.device}"
            )


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to broadcast to")
    first, *rest = devices
    copies = [tensor.to(_device(index), non_blocking=True, copy=True) for index in rest]
    return [tensor.to(_device(first), non_blocking=True), *copies]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [o if o is tensor else o.copy_(tensor, non_blocking=True) for o in out]


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [list(copies) for copies in zip(*(_broadcast(t, devices) for t in tensors), strict=True)]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[torch.Tensor]:
    if not devices:
        raise RuntimeError("Expected at least one device to scatter to")
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    moved = []
    for i, chunk in enumerate(chunks):
        stream = streams[i] if streams else None
        with stream or contextlib.nullcontext():
            moved.append(chunk.to(_device(devices[i]), non_blocking=True))
    return moved


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[torch.Stream | None] | None
) -> list[torch.Tensor]:
    if not out:
        raise RuntimeError("Expected at least one output tensor to scatter to")
    chunks = tensor.split([o.size(dim) for o in out], dim)
    return [o.copy_(chunk, non_blocking=True) for o, chunk in zip(out, chunks, strict=True)]


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    _check_inputs(tensors)
    device = _device(destination)
    return torch.cat([t.to(device, non_blocking=device.type != "cpu") for t in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    _check_inputs(tensors)
    for part, t in zip(out.split([t.size(dim) for t in tensors], dim), tensors, strict=True):
        part.copy_(t, non_blocking=out.device.type != "cpu")
    return out


_FUNCTIONS = (
    _broadcast,
    _broadcast_out,
    _broadcast_coalesced,
    _scatter,
    _scatter_out,
    _gather,
    _gather_out,
)


def _without_gpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; in a CUDA build, torch's own where there is a GPU of NVIDIA's, which DataParallel prefers to xpu."""
    upstream = getattr(torch._C, function.__name__, None)
    if upstream is None:
        return function

    @functools.wraps(function)
    def either(*args: Any) -> Any:
        return upstream(*args) if torch.cuda.is_available() else function(*args)

    return either


@adds(
    *(f"torch._C.{function.__name__}" for function in _FUNCTIONS),
    since="2.13",
    why="only CUDA builds have them, for CUDA; torch.nn.DataParallel calls them for any accelerator",
    test="tests/runtime/test_data_parallel.py::test_a_model_trains",
)
def communication() -> dict[str, Any]:
    return {f"torch._C.{f.__name__}": _without_gpu(f) for f in _FUNCTIONS}
