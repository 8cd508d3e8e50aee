"""Inductor's registries, settings, scheduler and layout of graphs. Runs after torch._inductor.compile_fx."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import fx
from torch._dynamo.utils import _metrics_context_tls
from torch._inductor import config, debug
from torch._inductor.dependencies import MemoryDep
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.virtualized import V
from torch.autograd import profiler
from torch.utils._triton import has_triton_package

from xpu_ops.inductor.aoti.wrapper import CppWrapper
from xpu_ops.inductor.convolution import fold_norms
from xpu_ops.inductor.convolution import operator as folded_convolution
from xpu_ops.inductor.passes import Rewrite
from xpu_ops.inductor.replay import Replayed
from xpu_ops.inductor.scheduling import SyclChoices, SyclScheduling
from xpu_ops.inductor.wrapper import Refused, SyclWrapper
from xpu_ops.upstream import install_once
from xpu_ops.upstream.registry import apply, replaces, uses

BACKEND = "sycl"
_FEW = 2  # convolutions between which little is turned
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


def _reads_planes(convolution: fx.Node) -> bool:
    """Whether a convolution of planes costs about what it does with channels last: less than the copies there and back."""
    _, weight, _, stride, _, _, transposed, _, groups = convolution.args
    size = weight.meta["val"].shape
    if len(size) == 3:
        return True
    depthwise = groups > 1 and size[1] == 1
    pointwise = groups == 1 and all(s == 1 for s in size[2:])
    return not transposed and all(s == 1 for s in stride) and (depthwise or pointwise)


@replaces(
    "torch._inductor.graph.GraphLowering.decide_layout_opt",
    since="2.13",
    why="upstream makes the images of a graph with convolutions channels last; in training that reorders every weight and every "
    "gradient in each step, and ResNet-50 takes a fifth longer. Around one or two depthwise, 1x1 or 1-d convolutions the copies cost "
    "more than they save",
    test="tests/inductor/test_compile_models.py::test_images_around_few_cheap_convolutions_stay_contiguous",
)
def contiguous_images(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """Images that are channels last stay so."""

    @functools.wraps(upstream)
    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        if not config.force_layout_optimization and config.xpu_backend == BACKEND:
            if any(n.target is folded_convolution() for n in gm.graph.nodes):
                return True  # the pass that wrote it has asked
            found = [n for n in gm.graph.nodes if n.target is torch.ops.aten.convolution.default]
            ours = any(n.meta["val"].device.type == "xpu" for n in found if "val" in n.meta)
            if ours and (not is_inference or (len(found) <= _FEW and all(map(_reads_planes, found)))):
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


def _is_plain(graph: Any) -> bool:
    """Whether a graph of Inductor is called without a context of its compilation."""
    return isinstance(graph, CompiledFxGraph) and getattr(graph, "_compile_context", None) is None


def _end_metrics() -> None:
    metrics = getattr(_metrics_context_tls, "runtime_metrics_context", None)
    if metrics is not None and metrics._metrics:
        metrics.finish()


@replaces(
    "torch._inductor.output_code.CompiledFxGraph.__call__",
    since="2.13",
    why="upstream makes contexts and asks for autotuning, recording and metrics at every call of a graph",
    test="tests/inductor/test_compile_environment.py::test_a_profiler_sees_the_bytecode_of_a_call",
)
def plain_call(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def call(self: Any, inputs: Any) -> Any:
        is_plain = "xpu" in self.device_types and _is_plain(self)
        if not is_plain or profiler._is_profiler_enabled or debug.RECORD_GRAPH_EXECUTION:
            return upstream(self, inputs)
        try:
            return self.current_callable(inputs)
        finally:
            _end_metrics()

    return call


@functools.cache
def _tell(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)


@replaces(
    "torch._inductor.output_code.CompiledFxGraph.post_compile",
    since="2.13",
    why='upstream records graphs of CUDA alone for mode="reduce-overhead", and says nothing where it does not',
    test="tests/inductor/test_compile_replay.py::test_a_graph_is_replayed",
)
def recorded_graphs(upstream: Callable[..., None]) -> Callable[..., None]:
    """Static graphs of inference that write none of their inputs. A mode that asks for more than it gets says so once."""

    @functools.wraps(upstream)
    def post_compile(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        upstream(self, example_inputs, constants, graph_kwargs)
        if "xpu" not in self.device_types or config.xpu_backend != BACKEND:
            return
        if config.max_autotune:
            _tell("torch.compile tunes no products on xpu: oneDNN has chosen their kernels.")
        if not config.triton.cudagraphs:
            return
        fx = self.fx_kwargs
        if (
            set(self.device_types) == {"xpu"}
            and fx["is_inference"]
            and not (self.mutated_inputs or self.mutated_input_idxs)
            and "torch.ops._c10d_functional" not in self.source_code
        ):
            call = self.current_callable
            give_up = functools.partial(setattr, self, "current_callable", call)
            self.current_callable = Replayed(call, fx["static_input_idxs"] or (), give_up)
        else:
            _tell("torch.compile records graphs of inference on xpu that write no input: others are called.")

    return post_compile


@replaces(
    "torch._functorch._aot_autograd.runtime_wrappers._create_runtime_wrapper",
    since="2.13",
    why="upstream's wrapper takes nine frames of Python at every call, also where no input is written, no result is a view and "
    "nothing is recorded",
    test="tests/inductor/test_compile_environment.py::test_a_call_of_a_plain_graph",
)
def plain_wrapper(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """From its second call on a graph without side effects is called as it is."""

    @functools.wraps(upstream)
    def create(compiled_fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        whole: Callable[..., Any] = upstream(compiled_fn, **kwargs)
        m = kwargs["runtime_metadata"]
        written = any(i.mutates_data or i.mutates_metadata for i in m.input_info)
        changes = m.num_outputs_aliased or m.dynamic_outputs or m.grad_enabled_mutation is not None
        if kwargs["trace_joint"] or kwargs["disable_amp"] or written or changes:
            return whole
        plain = False
        is_graph = _is_plain(compiled_fn)

        @functools.wraps(whole)
        def runtime_wrapper(args: list[Any]) -> Any:
            nonlocal plain
            if not plain or profiler._is_profiler_enabled or debug.RECORD_GRAPH_EXECUTION:
                plain = any(isinstance(a, torch.Tensor) and a.device.type == "xpu" for a in args)
                return whole(args)
            grads = torch.is_grad_enabled()
            if grads:
                torch._C._set_grad_enabled(False)
            try:
                return compiled_fn.current_callable(args) if is_graph else compiled_fn(args)  # type: ignore[attr-defined]
            finally:
                if grads:
                    torch._C._set_grad_enabled(True)
                if is_graph:
                    _end_metrics()

        return runtime_wrapper

    return create


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
    why="linear layers for oneDNN and whole softmax, before upstream's patterns, which split addmm",
    test="tests/inductor/test_compile_models.py::test_linear_layers_take_what_follows",
)
def pass_over_graphs(upstream: Any) -> Any:
    return Rewrite()


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


@replaces(
    _default("comprehensive_padding"),
    since="2.13",
    why="upstream lets the rows of what a graph keeps begin at multiples of 128 bytes, but on a CPU: flat loops become rows, and "
    "operators copy",
    test="tests/inductor/test_compile_operators.py::test_group_norm_behind_a_convolution",
)
def rows_without_gaps(upstream: Any) -> Any:
    return False


@uses(
    "torch._inductor.config._hash_dirty_var.set",
    since="2.13",
    why="the settings have changed: their hash is a key of Inductor's caches",
    test="tests/inductor/test_compile_environment.py::test_products_are_not_timed",
)
def settings_have_changed(set_dirty: Callable[[bool], Any]) -> None:
    set_dirty(True)


@replaces(
    "torch._inductor.compile_fx.post_grad_passes",
    since="2.13",
    why="the batch norm of an inference goes into the weights of the convolution before it; a custom pass is not told of which kind "
    "a graph is",
    test="tests/inductor/test_compile_norms.py::test_networks",
)
def folded_norms(upstream: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(upstream)
    def post_grad_passes(gm: Any, is_inference: bool) -> None:
        if is_inference and config.xpu_backend == BACKEND:
            fold_norms(gm.graph)
        upstream(gm, is_inference)

    return post_grad_passes


def install(module: ModuleType) -> None:
    """Make torch.compile work for xpu."""
    apply("inductor")
    for file in ("inductor_export", "inductor_lowering", "inductor_operator", "inductor_operators", "inductor_passes"):
        install_once(file)
