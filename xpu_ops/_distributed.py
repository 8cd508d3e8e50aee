"""Gives torch.distributed the backend "xccl", as a build of torch with XCCL has it. Starts nothing and imports nothing."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Iterator
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
    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    for scheme in ("env", "tcp"):
        handlers[scheme] = _attempts_apart(handlers[scheme])
    # Before the queues are drained: callbacks of collectives submit to them.
    atexit.register(_leave, extension)


def _attempts_apart(handler: Any) -> Any:
    """A rendezvous handler whose store has keys of its own for a restart by torchrun.

    The agent's store outlives its workers (TORCHELASTIC_USE_AGENT_STORE): a rank could read there the address of a
    process that was killed. With several agents the numbers of their attempts may differ, so that keys stay as they are.
    """

    @functools.wraps(handler)
    def apart(url: str, **options: Any) -> Iterator[tuple[Any, int, int]]:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        restarted = attempt != "0" and os.environ.get("GROUP_WORLD_SIZE") == "1"
        for store, rank, size in handler(url, **options):
            if restarted and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
                store = torch.distributed.PrefixStore(f"attempt_{attempt}", store)
            yield store, rank, size

    return apart


def _leave(extension: ModuleType) -> None:
    """Wait for collectives on their way: their threads call Python, which ends next. After an uncaught exception, 2 s."""
    extension.settle_collectives(timedelta(seconds=2) if getattr(sys, "last_value", None) else None)
