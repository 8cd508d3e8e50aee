"""The Python code around the kernels of a graph."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen import wrapper


class SyclWrapper(wrapper.PythonWrapperCodegen):
    """Upstream's, plus the module of the graph's kernels."""

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
        self.imports.writeline("from xpu_ops.inductor.compiler import Module as SyclModule")
        self.header.writeline("sycl_module = SyclModule()")

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline("sycl_module.build(globals())")


def root_of(w: wrapper.PythonWrapperCodegen) -> wrapper.PythonWrapperCodegen:
    """The wrapper of the whole graph, in which the kernels of its subgraphs are defined too."""
    while isinstance(w, wrapper.SubgraphPythonWrapperCodegen):
        w = w.parent_wrapper
    return w


class Refused:
    """Stands for a wrapper that writes C++."""

    supports_caching = False

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "AOTInductor and cpp_wrapper are not available on xpu: generated C++ would need an XPU build of torch. "
            "torch.export and torch.compile(exported.module()) work."
        )
