"""Continuous batching of transformers on xpu: how much memory its key-value cache plans for.

transformers takes 0.9 of the total memory of an xpu device, less what the program itself holds. Where the device is the CPU
that memory is the machine's: other programs hold some of it, and page files are no place for a cache.
"""

from __future__ import annotations

from typing import Any

import torch


def _on_the_host() -> bool:
    from xpu_ops import _C

    return torch.xpu.is_available() and _C.host_accessible(torch.xpu.current_device())


def plan_memory(module: Any) -> None:
    """Count as taken what is not free, as transformers does for CUDA."""
    before = module.get_device_and_memory_breakdown

    def get_device_and_memory_breakdown() -> tuple[torch.device, int, int, int]:
        device, total, reserved, allocated = before()
        if device.type == "xpu" and _on_the_host():
            free, total = torch.xpu.mem_get_info(device)
            allocated = max(allocated, total - free)
        return device, total, reserved, allocated

    module.get_device_and_memory_breakdown = get_device_and_memory_breakdown


def plan_share(module: Any) -> None:
    """Take the share that transformers takes of a CPU's memory."""
    before = module.resolve_max_memory_percent

    def resolve_max_memory_percent(*args: Any, device: torch.device | None = None, **kwargs: Any) -> None:
        if device is not None and device.type == "xpu" and _on_the_host():
            device = torch.device("cpu")
        before(*args, device=device, **kwargs)

    module.resolve_max_memory_percent = resolve_max_memory_percent


ACTIONS = {
    "transformers.generation.continuous_batching.cache": plan_memory,
    "transformers.generation.continuous_batching.initialization": plan_share,
}
