"""Gives torch.distributed the backend "xccl", as a build of torch with XCCL has it. Starts nothing and imports nothing."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch

from xpu_ops.upstream.registry import adds, apply, replaces

_C10D = "torch.distributed.distributed_c10d"


def _group() -> Any:
    return getattr(sys.modules["xpu_ops._C"], "ProcessGroupXCCL", None)


def install() -> None:
    """Fill in what distributed_c10d looks up when a group is made; nothing where torch has no distributed package."""
    group = _group()
    if _C10D not in sys.modules or group is None:
        return
    group.__module__ = _C10D
    apply("distributed")
    # Before the queues are drained: callbacks of collectives submit to them.
    atexit.register(_leave)


@adds(
    f"{_C10D}.ProcessGroupXCCL",
    "torch.distributed.ProcessGroupXCCL",
    "torch._C._distributed_c10d.ProcessGroupXCCL",
    since="2.13",
    why='the class of the backend "xccl"',
    test="tests/distributed/test_collectives.py::test_collectives",
)
def group_class() -> dict[str, Any]:
    modules = (_C10D, "torch.distributed", "torch._C._distributed_c10d")
    return {f"{module}.ProcessGroupXCCL": _group() for module in modules}


@replaces(
    f"{_C10D}.__all__",
    since="2.13",
    why="a build with XCCL lists the class",
    test="tests/distributed/test_devices.py::test_the_backend_is_listed",
)
def listed(upstream: list[str]) -> list[str]:
    return [*upstream, "ProcessGroupXCCL"]


@replaces(
    f"{_C10D}._XCCL_AVAILABLE",
    since="2.13",
    why="torch.distributed.is_xccl_available returns it",
    test="tests/distributed/test_devices.py::test_the_backend_is_listed",
)
def available(upstream: bool) -> bool:
    return True


@replaces(
    f"{_C10D}.Backend.backend_capability['gloo']",
    since="2.13",
    why="a group of gloo takes XPU tensors, too: the operators of c10d put ProcessGroupXCCL over it",
    test="tests/distributed/test_devices.py::test_the_backend_is_listed",
)
def gloo_devices(upstream: list[str]) -> list[str]:
    return upstream if "xpu" in upstream else [*upstream, "xpu"]


@replaces(
    "torch.distributed.rendezvous._rendezvous_handlers['env']",
    "torch.distributed.rendezvous._rendezvous_handlers['tcp']",
    since="2.13",
    why="after a restart by torchrun the store still has the keys of the processes before",
    test="tests/distributed/test_launched.py::test_a_restart_has_keys_of_its_own",
)
def attempts_apart(upstream: Any) -> Any:
    """A rendezvous handler whose store has keys of its own for a restart by torchrun.

    The agent's store outlives its workers (TORCHELASTIC_USE_AGENT_STORE): a rank could read there the address of a
    process that was killed. With several agents the numbers of their attempts may differ, so that keys stay as they are.
    """

    @functools.wraps(upstream)
    def apart(url: str, **options: Any) -> Iterator[tuple[Any, int, int]]:
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        restarted = attempt != "0" and os.environ.get("GROUP_WORLD_SIZE") == "1"
        for store, rank, size in upstream(url, **options):
            if restarted and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
                store = torch.distributed.PrefixStore(f"attempt_{attempt}", store)
            yield store, rank, size

    return apart


def _leave() -> None:
    """Wait for collectives on their way: their threads call Python, which ends next. After an uncaught exception, 2 s."""
    sys.modules["xpu_ops._C"].settle_collectives(timedelta(seconds=2) if getattr(sys, "last_value", None) else None)
