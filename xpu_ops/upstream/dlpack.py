"""DLPack of xpu tensors where torch reads the device off a pointer: with a device that is asked for, and without elements."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch

from xpu_ops.upstream.registry import replaces


@replaces(
    "torch._C._to_dlpack",
    "torch._C._to_dlpack_versioned",
    since="2.13",
    why="torch asks for data to name the device `dl_device`; on this one its own needs no name",
    test="tests/runtime/test_dlpack.py::test_a_device_is_asked_for",
)
def exporting(upstream: Any) -> Any:
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


@replaces(
    "torch._C._from_dlpack",
    since="2.13",
    why="torch reads the device off the pointer, which a tensor without elements does not have",
    test="tests/runtime/test_dlpack.py::test_no_elements",
)
def importing(upstream: Any) -> Any:
    extension = sys.modules["xpu_ops._C"]

    @functools.wraps(upstream)
    def take(capsule: Any) -> torch.Tensor:
        if type(capsule).__name__ == "PyCapsule" and (empty := extension.empty_from_dlpack(capsule)) is not None:
            return empty
        return upstream(capsule)

    return take
