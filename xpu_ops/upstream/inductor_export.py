"""Inductor's export: options of the C++ builder for xpu, and a sentence for what cannot be exported."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._inductor import codecache, config, cpp_builder, cpu_vec_isa, exc
from torchgen.aoti.fallback_ops import inductor_fallback_ops

from xpu_ops._paths import release_dir
from xpu_ops.upstream.registry import replaces, temporarily


@replaces(
    "torch._inductor.cpp_builder.get_cpp_torch_device_options",
    since="2.13",
    why="upstream's for xpu ask for Level Zero's loader and an XPU build of torch; headers of SYCL are stood in for",
    test="tests/inductor/test_export.py::test_in_a_fresh_process",
)
def device_options(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def get_cpp_torch_device_options(device_type: str, *args: Any, **kwargs: Any) -> Any:
        if device_type != "xpu":
            return upstream(device_type, *args, **kwargs)
        definitions, includes, cflags, ldflags, folders, libraries, passed = upstream("cpu", *args, **kwargs)
        here = release_dir()
        return (
            [*definitions, "USE_XPU"],
            [str(here / "aoti"), *includes],
            cflags,
            ldflags,
            [*folders, str(here)],
            [*libraries, "xpu_ops_torch"],
            passed,
        )

    return get_cpp_torch_device_options


def _check_compiler() -> None:
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        raise RuntimeError(
            "xpu_ops: exporting a model needs a C++ compiler, and none was found; install g++ (Debian, Ubuntu: "
            "apt-get install g++), or name one in the environment variable CXX. Loading and running a package needs none."
        ) from error


_instructions = temporarily(
    "torch._inductor.codecache.pick_vec_isa",
    since="2.13",
    why="a model without CPU tensors is compiled for any processor",
    test="tests/inductor/test_export.py::test_in_a_fresh_process",
)


_information = temporarily(
    "torch._inductor.codecache.get_device_information",
    since="2.13",
    why="a package names the processor's instructions only where its code needs them",
    test="tests/inductor/test_export.py::test_loading_runs_no_programs",
)


@replaces(
    "torch._inductor.codecache.AotCodeCompiler.compile",
    since="2.13",
    why="versions for the package's metadata; no precompiled header of an XPU build; weights follow the library",
    test="tests/inductor/test_export.py::test_packages_name_their_makers",
)
def compile_package(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def compile(model: Any, *args: Any, device_type: str, **kwargs: Any) -> Any:
        if device_type != "xpu":
            return upstream(model, *args, device_type=device_type, **kwargs)
        from xpu_ops._built import VERSION

        isa = cpu_vec_isa.pick_vec_isa()
        information = {k: str(v) for k, v in codecache.get_device_information(device_type).items()}
        changes: dict[str, Any] = {
            "aot_inductor.metadata": {
                **config.aot_inductor.metadata,
                "xpu_ops": VERSION,
                "torch": torch.__version__,
            },
            # The precompiled header is that of an XPU build.
            "aot_inductor.precompile_headers": False,
            # Four fifths of a small package; aot_inductor.debug_symbols brings them back.
            "aot_inductor.enable_line_tables": False,
        }
        if "cpu" not in model.device_types:
            # The host's code only calls; for this processor alone it would end a process on another one.
            changes["cpp.march"] = ""
            isa = cpu_vec_isa.invalid_vec_isa
            del information["AOTI_CPU_ISA"]
        if config.aot_inductor.package_constants_on_disk_format != "binary_blob":
            # As text, which upstream's C++ for xpu writes, weights take minutes to compile; so they follow the library.
            changes["aot_inductor.force_mmap_weights"] = True
        with config.patch(changes), _instructions(lambda: isa), _information(lambda device: information):
            return upstream(model, *args, device_type=device_type, **kwargs)

    return compile


_functions = temporarily(
    "torchgen.aoti.fallback_ops.inductor_fallback_ops",
    since="2.13",
    why="this library has C functions for more operators than torch: those that it keeps whole",
    test="tests/inductor/test_export.py::test_whole_operators_have_c_functions",
)


@functools.cache
def _operators() -> dict[str, Any]:
    """Torch's with those that tools/codegen/aoti.py makes besides."""
    names = (Path(__file__).resolve().parents[1] / "data" / "aoti_operators.txt").read_text().split()
    return {**{name: {} for name in names}, **inductor_fallback_ops}


@replaces(
    "torch._inductor.graph.GraphLowering.codegen_with_cpp_wrapper",
    since="2.13",
    why="upstream runs the model once before it writes C++ for a GPU: Triton's kernels are tuned there, ours are not",
    test="tests/inductor/test_export.py::test_in_a_fresh_process",
)
def one_pass(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def codegen_with_cpp_wrapper(self: Any) -> Any:
        if "xpu" not in self.device_types or config.xpu_backend != "sycl":
            return upstream(self)
        _check_compiler()
        with _functions(_operators()):
            return self.codegen()

    return codegen_with_cpp_wrapper
