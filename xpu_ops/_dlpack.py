"""DLPack of xpu tensors where torch reads the device off a pointer: with a device that is asked for, and without elements."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import torch


def register(extension: ModuleType) -> None:
    """Replace the three functions of torch._C that `torch.from_dlpack` and `Tensor.__dlpack__` call."""
    c: Any = torch._C
    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        setattr(c, name, _exporting(getattr(c, name)))
    c._from_dlpack = _importing(c._from_dlpack, extension)


def _exporting(upstream: Any) -> Any:
    """The capsule of a tensor. torch asks for data to name the device `dl_device`; on this one its own needs no name."""

    @functools.wraps(upstream)
    def export(data: torch.Tensor, *, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        oneapi = int(torch.utils.dlpack.DLDeviceType.kDLOneAPI)
        if dl_device is not None and int(dl_device[0]) == oneapi:
            target = torch.device("xpu", int(dl_device[1]))
            if data.device != target:
                if copy is False:
                    raise ValueError(f"cannot move tensor from {data.device} to {target} without copying.")
                data, copy = data.to(target), None
            dl_device = None
        return upstream(data, dl_device=dl_device, copy=copy)

    return export


def _importing(upstream: Any, extension: ModuleType) -> Any:
    @functools.wraps(upstream)
    def take(capsule: Any) -> torch.Tensor:
        if type(capsule).__name__ == "PyCapsule" and (empty := extension.empty_from_dlpack(capsule)) is not None:
            return empty
        return upstream(capsule)

    return take
