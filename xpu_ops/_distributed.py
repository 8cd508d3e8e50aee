"""Gives torch.distributed the backend "xccl", as a build of torch with XCCL has it. Starts nothing and imports nothing."""

from __future__ import annotations

import atexit
import sys
from datetime import timedelta
from types import ModuleType
from typing import Any

import torch


def register(extension: ModuleType) -> None:
    """Fill in what distributed_c10d looks up when a group is made; nothing where torch has no distributed package."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    group: Any = getattr(extension, "ProcessGroupXCCL", None)
    if c10d is None or group is None:
        return
    group.__module__ = c10d.__name__
    for module in (c10d, torch.distributed, torch._C._distributed_c10d):
        module.ProcessGroupXCCL = group
    c10d.__all__ += ["ProcessGroupXCCL"]
    c10d._XCCL_AVAILABLE = True
    # A group of gloo takes XPU tensors, too: the operators of c10d put ProcessGroupXCCL over it.
    devices = c10d.Backend.backend_capability[c10d.Backend.GLOO]
    if "xpu" not in devices:
        devices.append("xpu")
    # Before the queues are drained: callbacks of collectives submit to them.
    atexit.register(_leave, extension)


def _leave(extension: ModuleType) -> None:
    """Wait for collectives on their way: their threads call Python, which ends next. After an uncaught exception, 2 s."""
    extension.settle_collectives(timedelta(seconds=2) if getattr(sys, "last_value", None) else None)
