"""Registers the backend with torch._inductor. Imported when torch._inductor.compile_fx has been."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import async_compile, config, graph, scheduler
from torch._inductor.codegen import common
from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V
from torch.utils._triton import has_triton_package

from xpu_ops.inductor import flex, passes, scan
from xpu_ops.inductor.aoti import build
from xpu_ops.inductor.aoti.wrapper import CppWrapper
from xpu_ops.inductor.scheduling import SyclChoices, SyclScheduling
from xpu_ops.inductor.wrapper import Refused, SyclWrapper

BACKEND = "sycl"


def _scheduling(s: Any) -> Any:
    if config.xpu_backend == BACKEND:
        return SyclScheduling(s)
    from torch._inductor.codegen.xpu.xpu_combined_scheduling import XPUCombinedScheduling

    return XPUCombinedScheduling(s)


def _create_backend(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """Upstream's raises TritonMissing for every GPU; the other devices keep that."""

    @functools.wraps(upstream)
    def create_backend(self: Any, device: torch.device) -> Any:
        if device.type != "xpu" or config.xpu_backend != BACKEND:
            return upstream(self, device)
        V.graph.add_device_info(device)
        return SyclScheduling(self)

    return create_backend


def _processes_for_triton(upstream: Callable[[], bool]) -> Callable[[], bool]:
    """Upstream starts a process per core for every graph on a GPU; only Triton compiles in them."""

    def process_pool_allowed() -> bool:
        return has_triton_package() and upstream()

    return process_pool_allowed


def _is_ours(node: Any) -> bool:
    device = node.get_device()
    return config.xpu_backend == BACKEND and device is not None and device.type == "xpu"


def _no_combined_kernels(upstream: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    """config.combo_kernels joins kernels of Triton, for a GPU that starts them slowly; ours are one module anyway."""

    def group(s: Any) -> list[Any]:
        groups = [[n for n in nodes if not _is_ours(n)] for nodes in upstream(s)]
        return [nodes for nodes in groups if nodes]

    return group


def _no_timed_fusion(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """config.benchmark_fusion times kernels of Triton; the others are fused untimed, as those of the CPU are."""

    @functools.wraps(upstream)
    def speedup_by_fusion(self: Any, node1: Any, node2: Any) -> Any:
        if _is_ours(node1):
            with config.patch(benchmark_fusion=False):
                return upstream(self, node1, node2)
        return upstream(self, node1, node2)

    return speedup_by_fusion


def _reads_of_earlier_versions(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """A kernel may read a buffer and write it only element by element.

    Upstream looks for reads by the buffer's first name alone. After `index_put_` and other writes by operators the buffer
    has another, so that `x.add_(x.flip(0))` became one kernel that reads what it has written.
    """

    @functools.wraps(upstream)
    def fusable_weak_dep(self: Any, weak_dep: Any, node1: Any, node2: Any) -> bool:
        if _is_ours(node2):
            real = self.mutation_real_name
            written = real.get(weak_dep.mutating_buf)
            places = {
                w.index for w in node2.read_writes.writes if w.name == weak_dep.mutating_buf and hasattr(w, "index")
            }
            for read in node1.read_writes.reads:
                if real.get(read.name) == written and not (isinstance(read, MemoryDep) and {read.index} == places):
                    return False
        return upstream(self, weak_dep, node1, node2)

    return fusable_weak_dep


def _contiguous_training(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """Upstream makes the images of a graph with convolutions channels last. In training that reorders every weight and
    every gradient in each step: ResNet-50 takes a fifth longer. Images that are channels last stay so."""

    @functools.wraps(upstream)
    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        if not is_inference and not config.force_layout_optimization and config.xpu_backend == BACKEND:
            values = (n.meta.get("val") for n in gm.graph.nodes if n.target is torch.ops.aten.convolution.default)
            if any(v is not None and v.device.type == "xpu" for v in values):
                return False
        return upstream(gm, is_inference=is_inference)

    return decide_layout_opt


def _set_default(name: str, value: Any) -> None:
    """Change a default of Inductor's configuration: what is set lives in one context, and a thread begins another."""
    config._config[name].default = value
    config._hash_dirty_var.set(True)


@functools.cache
def install() -> None:
    """Make torch.compile work for xpu, once a process."""
    common.register_backend_for_device("xpu", _scheduling, SyclWrapper, CppWrapper, Refused)
    build.install()
    scheduler.Scheduler.create_backend = _create_backend(scheduler.Scheduler.create_backend)
    scheduler.Scheduler.speedup_by_fusion = _no_timed_fusion(scheduler.Scheduler.speedup_by_fusion)
    scheduler.Scheduler.fusable_weak_dep = _reads_of_earlier_versions(scheduler.Scheduler.fusable_weak_dep)
    graph.GraphLowering.decide_layout_opt = staticmethod(_contiguous_training(graph.GraphLowering.decide_layout_opt))
    foreach = scheduler.ForeachKernelSchedulerNode
    foreach.set_group_algorithm_for_combo_kernels(_no_combined_kernels(foreach.group_algorithm_for_combo_kernels))
    passes.install_lowerings()
    flex.install()
    scan.install()
    async_compile._process_pool_allowed = _processes_for_triton(async_compile._process_pool_allowed)
    _set_default("post_grad_custom_pre_pass", passes.FuseLinear())  # before upstream's patterns, which split addmm
    _set_default("inductor_choices_class", SyclChoices)
    _set_default("xpu_backend", BACKEND)
    # Where Triton is installed, torch times each product with and without rounded sizes; oneDNN needs none, and that took seconds.
    _set_default("shape_padding", False)
