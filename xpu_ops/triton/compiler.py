"""Triton's compiler interface: TTIR, SYCL source, native code."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.runtime.errors import OutOfResources

from xpu_ops.block.device import policy
from xpu_ops.block.nests import program
from xpu_ops.block.types import LANES
from xpu_ops.triton import ttir
from xpu_ops.triton.lower import kernel as lowering
from xpu_ops.triton.lower.state import LOCAL_BYTES

if TYPE_CHECKING:
    from xpu_ops.jit.service import Built


class UnsupportedError(NotImplementedError):
    """Raised where a kernel uses what is not lowered; names the operation and the line of the source."""


@dataclass(frozen=True)
class XpuOptions:
    """The options that Triton, its autotuner and Inductor give. Stages change nothing here; warps only where a program
    has several sub-groups. `items`: of the work-group that runs a program."""

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 2
    warp_size: int = LANES
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    extern_libs: Any = ()
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "xpu"
    arch: str = "cpu"
    generate_native_code: bool = False
    grf_mode: str = ""
    maxnreg: int | None = None
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    ir_override: str | None = None
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    items: int = LANES

    def hash(self) -> str:
        """A digest of the options that change the code."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("num_warps", "num_stages", "waves_per_eu", "kpack")}
        return hashlib.sha256(repr(sorted(own.items(), key=str)).encode()).hexdigest()


def _dump(title: str, text: str) -> None:
    if os.environ.get("XPU_OPS_TRITON_DUMP") == "1":
        print(f"---- {title}\n{text}", file=sys.stderr)


@functools.lru_cache(maxsize=256)
def _compile(source: str) -> Built:
    """One compile for configurations that differ in nothing that counts."""
    from xpu_ops.jit import service

    return service.build(source)


def waits(functions: dict[str, ttir.Function]) -> bool:
    """Whether a kernel may loop until another thread has written to memory."""
    ops = [op for f in functions.values() for op in f.walk()]
    return any(op.name == "scf.while" for op in ops) and any(o.volatile or o.name.startswith("tt.atomic") for o in ops)


@dataclass(frozen=True)
class Binary:
    """The entry of a kernel in Triton's cache. `header` has the digest of the source, the target, the texts, and whether
    a program may wait for another thread."""

    header: dict[str, Any]
    spirv: bytes
    native: bytes

    def pack(self) -> bytes:
        head = json.dumps({**self.header, "spirv": len(self.spirv)})
        return f"{head}\n".encode() + self.spirv + self.native

    @staticmethod
    def unpack(data: bytes) -> Binary:
        head, _, code = data.partition(b"\n")
        header = json.loads(head)
        size = header.pop("spirv")
        return Binary(header, code[:size], code[size:])


class XpuBackend(BaseBackend):
    """TTIR to SYCL for the devices of xpu_ops."""

    binary_ext = "xpubin"
    supports_native_tensor_specialization = False
    instrumentation = None

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == "xpu"

    def get_target_name(self, options: XpuOptions) -> str:
        return "xpu"

    def hash(self) -> str:
        from xpu_ops.jit import service

        return f"xpu_ops-{service.generator_digest('triton', 'block')}"

    def parse_options(self, opts: dict[str, Any]) -> XpuOptions:
        known = {k: v for k, v in opts.items() if k in XpuOptions.__dataclass_fields__ and v is not None}
        options = XpuOptions(**known)
        assert options.num_warps > 0 and options.num_warps & (options.num_warps - 1) == 0, (
            "num_warps must be a power of 2"
        )
        if options.launch_cooperative_grid:
            raise ValueError(
                "launch_cooperative_grid=True: programs of this device run one after the other, so that one that waits "
                "for a later one never ends"
            )
        return replace(options, items=program(policy(), options.num_warps).team_items)

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_codegen_implementation(self, options: XpuOptions) -> dict[str, Any]:
        def convert_custom_types(*args: Any, **kwargs: Any) -> Any:
            raise UnsupportedError("the type fp8e4b15 is not supported on xpu")

        return {"min_dot_size": lambda a, b: (1, 1, 1), "convert_custom_types": convert_custom_types}

    def get_module_map(self) -> dict[str, ModuleType]:
        from triton.language.extra.cuda import libdevice  # declarations; xpu_ops/block/ops.py has the functions

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """TTIR needs none but Triton's."""

    def make_ttir(self, module: Any, metadata: dict[str, Any], options: XpuOptions) -> Any:
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.ttir.add_triton_licm(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
        return module

    def make_sycl(self, module: Any, metadata: dict[str, Any], options: XpuOptions) -> str:
        text = str(module)
        _dump("TTIR", text)
        try:
            functions = ttir.parse(text)
            lowered = lowering.lower(functions, program(policy(), options.num_warps))
        except ttir.Unsupported as error:
            where = f" ({error.where})" if error.where else ""
            raise UnsupportedError(f"xpu: {error}{where}") from None
        if lowered.local_bytes > LOCAL_BYTES:
            raise OutOfResources(lowered.local_bytes, LOCAL_BYTES, "shared memory")
        metadata.update(name=lowered.name, shared=lowered.local_bytes, messages=list(lowered.messages))
        metadata["waits"] = waits(functions)
        _dump("SYCL", lowered.source)
        return lowered.source

    def make_binary(self, source: str, metadata: dict[str, Any], options: XpuOptions) -> bytes:
        built = _compile(source)
        header = {"digest": built.digest, "target": built.target, "messages": metadata["messages"]}
        header |= {"items": options.items, "waits": metadata["waits"]}
        return Binary(header, built.spirv, built.native).pack()

    def add_stages(self, stages: dict[str, Any], options: XpuOptions, language: Any = None) -> None:
        if language is not None and language.name != "TRITON":
            raise UnsupportedError(f"kernels in {language.name.lower()} are not supported on xpu")
        stages["ttir"] = lambda source, metadata: self.make_ttir(source, metadata, options)
        stages["sycl"] = lambda source, metadata: self.make_sycl(source, metadata, options)
        stages["xpubin"] = lambda source, metadata: self.make_binary(source, metadata, options)
