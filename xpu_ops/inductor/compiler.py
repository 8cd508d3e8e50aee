"""The module that a compiled graph imports: collects its kernels, has them compiled as one module per device, hands them out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.runtime.runtime_utils import create_bandwidth_info_str

from xpu_ops import _autoload
from xpu_ops.block import printer
from xpu_ops.jit import service
from xpu_ops.jit.service import KernelSpec

HEADER = printer.opening()


class Module:
    """The kernels of one graph."""

    def __init__(self) -> None:
        self._kernels: dict[int, list[tuple[KernelSpec, str]]] = {}

    def add(self, device: int, spec: KernelSpec, source: str) -> None:
        """Note a kernel."""
        self._kernels.setdefault(device, []).append((spec, source))

    @staticmethod
    def scope(device: int) -> AbstractContextManager[None]:
        """Makes a device the current one: one object for all calls."""
        torch.xpu.init()
        return _autoload.load().device_scope(device)

    @staticmethod
    def layout_check() -> Callable[..., None]:
        """Torch's assert_size_stride, at a tenth of its cost."""
        return _autoload.load().assert_size_stride

    def build(self, scope: dict[str, Any]) -> None:
        """Compile or load all kernels and define their names in `scope`."""
        for device, kernels in self._kernels.items():
            source = HEADER + "".join(text for _, text in kernels)
            specs = [spec for spec, _ in kernels]
            for spec, launch in zip(specs, service.load(source, specs, device), strict=True):
                scope[spec.name] = launch
        self._kernels.clear()


def timed(name: str, launch: Callable[..., None], size: int, groups: int, *arguments: object) -> None:
    """Launch a kernel for config.profile_bandwidth: its time from an idle queue, and `size` bytes per second of it."""
    from torch._inductor.runtime import triton_heuristics

    torch.xpu.synchronize()
    begun = time.perf_counter()
    launch(groups, *arguments)
    torch.xpu.synchronize()
    seconds = time.perf_counter() - begun
    if re.match(config.profile_bandwidth_regex, name):
        call = seconds * 1e3, size / 1e9, size / 1e9 / seconds, name
        triton_heuristics.collected_calls.append(call)
        text = create_bandwidth_info_str(*call[:3], suffix=f" \t {name}")
        triton_heuristics.log.info("%s", text)


def generator_digest() -> str:
    """Digest of this code generator: enters the keys of Inductor's caches."""
    return service.generator_digest("inductor", "block", "upstream")
