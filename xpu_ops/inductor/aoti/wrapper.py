"""The C++ around the kernels of a model."""

from __future__ import annotations

import json
import warnings
from typing import Any

import sympy
import torch
from torch._inductor import codecache, config
from torch._inductor.codegen import wrapper
from torch._inductor.codegen.cpp_utils import cexpr
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from xpu_ops.inductor.aoti import package
from xpu_ops.inductor.wrapper import Argument, Scalar
from xpu_ops.jit.service import KernelSpec

_INCLUDES = """
#include <torch/csrc/inductor/aoti_include/common.h>
#include <xpu_ops_model.h>
#include <xpu_ops_operators.h>
"""
_FIELDS = {"i": "integer", "f": "real32", "d": "real64"}


class CppWrapper(CppWrapperCpu):
    """Upstream's for the CPU, with this library's kernels, streams and C functions."""

    def __init__(self) -> None:
        self.device = "xpu"
        super().__init__()
        self.sycl_kernels: dict[str, tuple[KernelSpec, str]] = {}

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: wrapper.PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> CppWrapper:
        if not V.graph.aot_mode:
            raise NotImplementedError(
                "torch._inductor.config.cpp_wrapper is not available on xpu; leave it off for torch.compile, or export the "
                "model with torch._inductor.aoti_compile_and_package."
            )
        return CppWrapper()

    def add_device_include(self, device: str) -> None:
        if device == "xpu" and device not in self.included_devices:
            self.included_devices.add(device)
            self.header.splice(_INCLUDES)
        elif device != "xpu":
            super().add_device_include(device)

    # ---- kernels

    def add_kernel(self, device: int, spec: KernelSpec, source: str) -> None:
        self.sycl_kernels[spec.name] = spec, source

    def launch_kernel(self, name: str, groups: sympy.Expr, fields: list[Argument]) -> None:
        arguments = [f"k_{name}", cexpr(groups)]
        for letter, value in fields:
            if letter == "p":
                arguments.append(f"xpu_ops_model::pointer({value})")
                continue
            if isinstance(value, Scalar):
                text = f"{value.name}_scalar_{next(self.arg_var_id)}"
                self.codegen_tensor_item(value.dtype, value.name, text, self)
            else:
                assert isinstance(value, sympy.Expr), value
                text = cexpr(value)
            arguments.append(f"xpu_ops_model::{_FIELDS[letter]}({text})")
        self.writeline(f"kernels.sycl.launch({', '.join(arguments)});")

    def codegen_model_kernels(self) -> None:
        const = V.graph.const_module
        kernels = {**(const.wrapper_code.sycl_kernels if const else {}), **self.sycl_kernels}
        module, content = package.kernel_file(source for _, source in kernels.values())
        folder, _ = codecache.split_aot_inductor_output_path(config.aot_inductor.output_path)
        _, path = codecache.write(content, package.SUFFIX, hash_type="code", specified_dir=folder, key=module)
        self.additional_files.append(path)
        text = IndentedBuffer()
        text.writeline("namespace {")
        specs = []
        for name, (spec, _) in kernels.items():
            texts = "nullptr"
            if spec.messages:
                texts = f"t_{name}"
                text.writeline(f"const char* const {texts}[] = {{{', '.join(map(json.dumps, spec.messages))}}};")
            specs.append(f'{{"{name}", {spec.local}, "{spec.signature}", {texts}, {len(spec.messages)}}}')
        if kernels:
            text.writeline(f"enum : int64_t {{ {', '.join(f'k_{name}' for name in kernels)} }};")
            text.writeline(f"const XpuOpsKernel sycl_specs[] = {{{', '.join(specs)}}};")
        else:
            text.writeline("const XpuOpsKernel* const sycl_specs = nullptr;")
        text.splice(f"""
            class AOTInductorModelKernels : public AOTInductorModelKernelsBase {{
              public:
                xpu_ops_model::Kernels sycl;
                void load(const std::optional<std::string>& folder, int32_t device) {{
                    sycl.load(folder, "{module}", device, sycl_specs, {len(kernels)});
                }}
            }};
            }}  // namespace
        """)
        self.prefix.splice(text)

    def _write_entry_point_postamble(self) -> None:
        super()._write_entry_point_postamble()
        self.prefix.writeline("kernels.load(this->cubin_dir_, this->device_idx_);")

    def codegen_const_run_driver(self) -> None:
        """Upstream's, but the constants are there when it returns: the first run may be on another stream."""
        driver = IndentedBuffer()
        with self._target_buf("prefix", driver):
            super().codegen_const_run_driver()
        done = "_const_run_impl(output_handles, stream, proxy_executor);"
        wait = f"{done}\n    AOTI_TORCH_ERROR_CODE_CHECK(xpu_ops_wait(stream));"
        self.prefix.splice(driver.getvalue().replace(done, wait))

    # ---- what needs Python

    def _define_kernel_helper(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = False,
        cpp_definition: str | None = None,
    ) -> None:
        if gpu:
            raise NotImplementedError(
                f"xpu_ops: the Triton kernel {kernel_name} cannot be part of a package, since Python launches it; leave it "
                "out of the model, or use torch.compile(program.module())."
            )
        super()._define_kernel_helper(kernel_name, kernel_body, metadata, gpu, cpp_definition)

    def generate_fallback_kernel_with_runtime_lookup_aot(self, op_overload: Any, *args: Any, **kwargs: Any) -> None:
        name = op_overload.name() if isinstance(op_overload, torch._ops.OpOverload) else ""
        if name.partition(".")[0] in torch.library._defs:
            warnings.warn(
                f"xpu_ops: the operator {name} is defined in Python; the package runs in a Python process that has "
                "imported its definition, and not in a C++ program.",
                stacklevel=2,
            )
        super().generate_fallback_kernel_with_runtime_lookup_aot(op_overload, *args, **kwargs)

    def make_zero_buffer(self, name: str) -> str:
        return f"AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_zero_({name}.get()));"
