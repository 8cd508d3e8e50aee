"""Transformers on xpu: how much memory the key-value cache of continuous batching plans for, and products of experts.

transformers takes 0.9 of the total memory of an xpu device, less what the program itself holds. Where the device is the CPU
that memory is the machine's: other programs hold some of it, and page files are no place for a cache.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_ops.upstream.registry import replaces

_BATCHING = "transformers.generation.continuous_batching"


def _on_the_host() -> bool:
    from xpu_ops import _C

    return torch.xpu.is_available() and _C.host_accessible(torch.xpu.current_device())


@replaces(
    f"{_BATCHING}.cache.get_device_and_memory_breakdown",
    since="5.23",
    why="counts as taken what is not free, as transformers does for CUDA",
    test="tests/models/test_serving.py::test_memory_that_others_hold_is_not_planned_with",
)
def plan_memory(upstream: Any) -> Any:
    def get_device_and_memory_breakdown() -> tuple[torch.device, int, int, int]:
        device, total, reserved, allocated = upstream()
        if device.type == "xpu" and _on_the_host():
            free, total = torch.xpu.mem_get_info(device)
            allocated = max(allocated, total - free)
        return device, total, reserved, allocated

    return get_device_and_memory_breakdown


@replaces(
    f"{_BATCHING}.initialization.resolve_max_memory_percent",
    since="5.23",
    why="takes the share that transformers takes of a CPU's memory",
    test="tests/models/test_serving.py::test_memory_that_others_hold_is_not_planned_with",
)
def plan_share(upstream: Any) -> Any:
    def resolve_max_memory_percent(*args: Any, device: torch.device | None = None, **kwargs: Any) -> None:
        if device is not None and device.type == "xpu" and _on_the_host():
            device = torch.device("cpu")
        upstream(*args, device=device, **kwargs)

    return resolve_max_memory_percent


@replaces(
    "transformers.integrations.moe._can_use_grouped_mm",
    since="5.23",
    why="while a graph is traced it takes an operator of its own, written in Python, for all types but bf16",
    test="tests/inductor/test_export.py::test_products_of_groups",
)
def products_of_groups(upstream: Any) -> Any:
    def _can_use_grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> bool:
        return weight.device.type == "xpu" or upstream(input, weight, offs)

    return _can_use_grouped_mm
