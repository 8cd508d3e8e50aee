"""Inductor's registries, settings, scheduler and layout of graphs. Runs after torch._inductor.compile_fx."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V
from torch.utils._triton import has_triton_package

from xpu_ops.inductor.aoti.wrapper import CppWrapper
from xpu_ops.inductor.passes import FuseLinear
from xpu_ops.inductor.scheduling import SyclChoices, SyclScheduling
from xpu_ops.inductor.wrapper import Refused, SyclWrapper
from xpu_ops.upstream import install_once
from xpu_ops.upstream.registry import apply, replaces, uses

BACKEND = "sycl"
_SCHEDULER = "torch._inductor.scheduler.Scheduler"
_COMBINED = "torch._inductor.scheduler.ForeachKernelSchedulerNode"


def _scheduling(s: Any) -> Any:
    if config.xpu_backend == BACKEND:
        return SyclScheduling(s)
    from torch._inductor.codegen.xpu.xpu_combined_scheduling import XPUCombinedScheduling

    return XPUCombinedScheduling(s)


def _is_ours(node: Any) -> bool:
    device = node.get_device()
    return config.xpu_backend == BACKEND and device is not None and device.type == "xpu"


@uses(
    "torch._inductor.codegen.common.register_backend_for_device",
    since="2.13",
    why="names the scheduling and the wrappers for xpu",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def register(register_backend_for_device: Callable[..., None]) -> None:
    register_backend_for_device("xpu", _scheduling, SyclWrapper, CppWrapper, Refused)


@replaces(
    f"{_SCHEDULER}.create_backend",
    since="2.13",
    why="upstream raises TritonMissing for every GPU; the other devices keep that",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def create_backend(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def create_backend(self: Any, device: torch.device) -> Any:
        if device.type != "xpu" or config.xpu_backend != BACKEND:
            return upstream(self, device)
        V.graph.add_device_info(device)
        return SyclScheduling(self)

    return create_backend


@replaces(
    f"{_SCHEDULER}.speedup_by_fusion",
    since="2.13",
    why="config.benchmark_fusion times kernels of Triton; the others are fused untimed, as those of the CPU are",
    test="tests/inductor/test_compile_graphs.py::test_options",
)
def no_timed_fusion(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def speedup_by_fusion(self: Any, node1: Any, node2: Any) -> Any:
        if _is_ours(node1):
            with config.patch(benchmark_fusion=False):
                return upstream(self, node1, node2)
        return upstream(self, node1, node2)

    return speedup_by_fusion


@replaces(
    f"{_SCHEDULER}.fusable_weak_dep",
    since="2.13",
    why="upstream looks for reads by the buffer's first name alone; after a write by an operator the buffer has another, so that "
    "`x.add_(x.flip(0))` became one kernel that reads what it has written",
    test="tests/inductor/test_compile_front_end.py::test_in_place_after_a_write_by_an_operator",
)
def reads_of_earlier_versions(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """A kernel may read a buffer and write it only element by element."""

    @functools.wraps(upstream)
    def fusable_weak_dep(self: Any, weak_dep: Any, node1: Any, node2: Any) -> bool:
        if _is_ours(node2):
            real = self.mutation_real_name
            written = real.get(weak_dep.mutating_buf)
            places = {
                w.index
                for w in node2.read_writes.writes
                if w.name == weak_dep.mutating_buf and isinstance(w, MemoryDep)
            }
            for read in node1.read_writes.reads:
                if real.get(read.name) == written and not (isinstance(read, MemoryDep) and {read.index} == places):
                    return False
        return upstream(self, weak_dep, node1, node2)

    return fusable_weak_dep


@replaces(
    "torch._inductor.graph.GraphLowering.decide_layout_opt",
    since="2.13",
    why="upstream makes the images of a graph with convolutions channels last; in training that reorders every weight and every "
    "gradient in each step, and ResNet-50 takes a fifth longer",
    test="tests/inductor/test_compile_models.py::test_images_of_a_training_step_stay_contiguous",
)
def contiguous_training(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """Images that are channels last stay so."""

    @functools.wraps(upstream)
    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        if not is_inference and not config.force_layout_optimization and config.xpu_backend == BACKEND:
            values = (n.meta.get("val") for n in gm.graph.nodes if n.target is torch.ops.aten.convolution.default)
            if any(v is not None and v.device.type == "xpu" for v in values):
                return False
        return upstream(gm, is_inference=is_inference)

    return decide_layout_opt


@uses(
    f"{_COMBINED}.set_group_algorithm_for_combo_kernels",
    f"{_COMBINED}.group_algorithm_for_combo_kernels",
    since="2.13",
    why="config.combo_kernels joins kernels of Triton, for a GPU that starts them slowly; ours are one module anyway",
    test="tests/inductor/test_compile_graphs.py::test_options",
)
def no_combined_kernels(set_algorithm: Callable[..., None], upstream: Callable[[Any], list[Any]]) -> None:
    def group(s: Any) -> list[Any]:
        groups = [[n for n in nodes if not _is_ours(n)] for nodes in upstream(s)]
        return [nodes for nodes in groups if nodes]

    set_algorithm(group)


@replaces(
    "torch._inductor.async_compile._process_pool_allowed",
    since="2.13",
    why="upstream starts a process per core for every graph on a GPU; only Triton compiles in them",
    test="tests/inductor/test_compile_faults.py::test_no_process_waits_for_triton",
)
def processes_for_triton(upstream: Callable[[], bool]) -> Callable[[], bool]:
    def process_pool_allowed() -> bool:
        return has_triton_package() and upstream()

    return process_pool_allowed


def _default(name: str) -> str:
    """The default of a setting: what is set lives in one context, and a thread begins another."""
    return f"torch._inductor.config._config['{name}'].default"


@replaces(
    _default("post_grad_custom_pre_pass"),
    since="2.13",
    why="linear layers for oneDNN, before upstream's patterns, which split addmm",
    test="tests/inductor/test_compile_models.py::test_linear_layers_take_what_follows",
)
def pass_over_graphs(upstream: Any) -> Any:
    return FuseLinear()


@replaces(
    _default("inductor_choices_class"),
    since="2.13",
    why="which kernels are fused and how reductions are split",
    test="tests/inductor/test_compile_graphs.py::test_fused_into_one_kernel",
)
def choices(upstream: Any) -> Any:
    return SyclChoices


@replaces(
    _default("xpu_backend"),
    since="2.13",
    why="upstream knows Triton alone",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def backend(upstream: Any) -> Any:
    return BACKEND


@replaces(
    _default("shape_padding"),
    since="2.13",
    why="where Triton is installed, torch times each product with and without rounded sizes; oneDNN needs none, and that took seconds",
    test="tests/inductor/test_compile_environment.py::test_products_are_not_timed",
)
def no_padding(upstream: Any) -> Any:
    return False


@uses(
    "torch._inductor.config._hash_dirty_var.set",
    since="2.13",
    why="the settings have changed: their hash is a key of Inductor's caches",
    test="tests/inductor/test_compile_environment.py::test_products_are_not_timed",
)
def settings_have_changed(set_dirty: Callable[[bool], Any]) -> None:
    set_dirty(True)


def install(module: ModuleType) -> None:
    """Make torch.compile work for xpu."""
    apply("inductor")
    for file in ("inductor_export", "inductor_lowering", "inductor_operators"):
        install_once(file)
