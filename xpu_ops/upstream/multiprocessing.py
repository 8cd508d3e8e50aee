"""Lets torch.multiprocessing send xpu tensors to other processes: by shared memory where the host reads device memory, else by a copy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from xpu_ops.upstream.registry import uses


@uses(
    "torch.multiprocessing.reductions.reduce_storage",
    since="2.13",
    why="a function of this package is registered for storages; it hands those of other devices to this one",
    test="tests/runtime/test_multiprocessing.py::test_dtypes",
)
def take_storages(reduce_storage: Any) -> None:
    ForkingPickler.register(torch.UntypedStorage, _reduce)


def _extension() -> Any:
    return sys.modules["xpu_ops._C"]


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _reduce(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if storage.device.type != "xpu":
        return reductions.reduce_storage(storage)
    index = storage.device.index
    if storage.nbytes() == 0:
        return _empty, (index,)
    view = _bytes(storage)
    if not _extension().host_accessible(index):
        return _copied, (view.cpu().share_memory_().untyped_storage(), index)
    owner = _extension().owner_as_cpu(view)
    if owner is not None and owner.is_shared():
        torch.xpu.synchronize(index)  # the other process reads as soon as it has the tensor
    else:
        owner = _bytes(torch.UntypedStorage._new_shared(storage.nbytes()))
        _extension().move_to_cpu_memory(view, owner)
    return _shared, (owner.untyped_storage(), index)


def _empty(index: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device("xpu", index))


def _copied(storage: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
    return _bytes(storage).to(torch.device("xpu", index)).untyped_storage()


def _shared(storage: torch.UntypedStorage, index: int) -> torch.UntypedStorage:
    torch.xpu.init()
    return _extension().as_xpu(_bytes(storage), index).untyped_storage()
