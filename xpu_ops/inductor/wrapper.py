"""The Python code around the kernels of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.codegen import simd, wrapper
from torch._inductor.utils import cache_on_self
from torch._inductor.virtualized import V
from torch.utils._triton import has_triton_package

from xpu_ops.jit.service import KernelSpec


@dataclass(frozen=True)
class Scalar:
    """The value of a CPU tensor of one element, read before a launch."""

    name: str
    dtype: torch.dtype


# The letter of a field (KernelSpec.signature) and its value: the name of a tensor, a scalar, an expression of sizes.
Argument = tuple[str, str | Scalar | sympy.Expr]


@dataclass
class DeviceScopeLine(wrapper.EnterDeviceContextManagerLine):
    """Upstream's, by one object for all calls: the module's _DeviceGuard and set_device are Python, at every call."""

    def codegen(self, code: Any) -> None:
        if V.graph.cpp_wrapper:
            return super().codegen(code)
        code.writeline(f"with {scope_name(self.device_idx)}:")
        code.do_indent()


def scope_name(device: int) -> str:
    return f"sycl_device_{device}"


class SyclWrapper(wrapper.PythonWrapperCodegen):
    """Upstream's, plus the module of the graph's kernels."""

    last_seen_device_guard_index: int | None

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: wrapper.PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> wrapper.PythonWrapperCodegen:
        if is_subgraph:
            assert subgraph_name is not None and parent_wrapper is not None
            return wrapper.SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return SyclWrapper()

    def write_header(self) -> None:
        super().write_header()
        self.imports.writeline("from xpu_ops.inductor.compiler import KernelSpec, Module as SyclModule")
        self.header.writeline("sycl_module = SyclModule()")
        self.header.writeline("assert_size_stride = sycl_module.layout_check()")
        if config.profile_bandwidth:
            self.imports.writeline("from xpu_ops.inductor.compiler import timed as sycl_timed")

    def codegen_device_guard_enter(self, device_idx: int, num_streams: int = 1, *args: Any, **kwargs: Any) -> None:
        if num_streams > 1 or config.triton.autotune_at_compile_time or config.xpu_backend == "triton":
            super().codegen_device_guard_enter(device_idx, num_streams, *args, **kwargs)
            return
        line = f"{scope_name(device_idx)} = sycl_module.scope({device_idx})"
        if not self.header.contains(line):
            self.header.writeline(line)
        self.writeline(DeviceScopeLine(device_idx, self.last_seen_device_guard_index))
        self.last_seen_device_guard_index = device_idx
        self._num_streams = num_streams

    def add_kernel(self, device: int, spec: KernelSpec, source: str) -> None:
        """Have a kernel compiled with the others of the graph."""
        self.header.writeline(f"sycl_module.add({device}, {spec!r}, '''")
        self.header.splice(source)
        self.header.writeline("''')")

    @cache_on_self
    def write_triton_header_once(self) -> None:
        """Without Triton the imports are those of config.profile_bandwidth."""
        if has_triton_package():
            super().write_triton_header_once()
        elif config.profile_bandwidth:
            self.imports.writeline("from torch._inductor.runtime.triton_heuristics import start_graph, end_graph")

    def generate_and_run_autotune_block(self) -> None:
        """torch._inductor.standalone_compile tunes ahead of the first call; kernels of ours have nothing to tune."""
        if self.kernel_autotune_names:
            super().generate_and_run_autotune_block()

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline("sycl_module.build(globals())")


def root_of(w: wrapper.PythonWrapperCodegen) -> wrapper.PythonWrapperCodegen:
    """The wrapper of the whole graph, in which the kernels of its subgraphs are defined too."""
    while isinstance(w, wrapper.SubgraphPythonWrapperCodegen):
        w = w.parent_wrapper
    return w


def python_argument(value: str | Scalar | sympy.Expr) -> str:
    """A field of a launch, as the call in Python passes it."""
    if isinstance(value, Scalar):
        return f"{value.name}.item()"
    return value if isinstance(value, str) else simd.pexpr(value)


class Refused:
    """Stands for a wrapper that writes a graph of torch.fx."""

    supports_caching = False

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "torch._inductor.config.fx_wrapper is not available on xpu: it writes calls of Triton's kernels. Leave it off."
        )
