"""Triton's driver interface: the device, loading and launching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from xpu_ops.block.types import LANES
from xpu_ops.triton.compiler import Binary
from xpu_ops.triton.lower.state import LOCAL_BYTES

try:
    from triton.backends.driver import decompose_descriptor, expand_signature
except ImportError:  # Triton 3.7 has both beside its CUDA driver; an error here would end every `import triton`
    from triton.backends.nvidia import driver as _older

    def decompose_descriptor(arg: Any) -> list[Any]:
        """Base, sizes, strides and flags of a tensor descriptor."""
        return list(_older.make_tensordesc_arg(arg, None))

    def expand_signature(signature: Sequence[Any], meta: None, kind: str) -> list[Any]:
        """The signature with the parts of each descriptor in its place."""
        return list(_older.expand_signature(signature, meta))


def _torch() -> ModuleType:
    """Imported when it is needed: `import triton` reads this file."""
    import torch

    return torch


_LETTERS = {"fp16": "f", "bf16": "f", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d", "constexpr": "-"}


def _flat(values: Any) -> list[Any]:
    """The leaves of nested tuples."""
    return [leaf for v in values for leaf in (_flat(v) if isinstance(v, tuple | list) else [v])]


def _leaves(kind: Any, arg: Any) -> list[Any]:
    """An argument as the parts that its expanded signature lists."""
    if isinstance(kind, tuple):
        return [leaf for k, a in zip(kind, arg, strict=True) for leaf in _leaves(k, a)]
    return decompose_descriptor(arg) if kind.startswith("tensordesc") else [arg]


def _letter(kind: str) -> str:
    return "p" if kind[0] == "*" else _LETTERS.get(kind, "i")


def make_launcher(source: Any, metadata: Any) -> Callable[..., None]:
    """The callable that Triton launches with: an object of the extension, with Python in front only for tuples and descriptors."""
    from xpu_ops import _C

    kinds = list(source.signature.values())
    expanded = expand_signature(kinds, None, "")
    native: Callable[..., None] = _C.triton_launcher("".join(_letter(k) for k in _flat(expanded)))
    if all(isinstance(k, str) and not k.startswith("tensordesc") for k in kinds):
        return native

    def launch_nested(*args: Any) -> None:
        native(*args[:9], *(leaf for k, a in zip(kinds, args[9:], strict=True) for leaf in _leaves(k, a)))

    return launch_nested


class _Utils:
    """The functions that Triton expects under driver.utils."""

    def get_device_properties(self, device: int) -> dict[str, Any]:
        p = _torch().xpu.get_device_properties(device)
        return {
            "max_shared_mem": LOCAL_BYTES,
            "multiprocessor_count": p.max_compute_units,
            "max_num_regs": 1 << 20,
            "warpSize": LANES,
            "max_work_group_size": p.max_work_group_size,
            "sub_group_sizes": [LANES],
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 64,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """(module, kernel, registers, spills, most threads of a program)."""
        from xpu_ops import _C

        _torch().xpu.init()
        binary = Binary.unpack(kernel)
        head = binary.header
        module = _C.JitModule.find(head["digest"], device)
        if module is None:
            module = _C.JitModule.add(head["digest"], device, binary.spirv, binary.native, head["target"])
        loaded = _C.TritonKernel(module, name, head["items"], head["messages"], head["waits"])
        return module, loaded, 0, 0, 1 << 20

    def unload_module(self, module: Any) -> None:
        """Modules end with their last kernel."""


class XpuDriver(DriverBase):
    """The current device of torch.xpu."""

    def __init__(self) -> None:
        self.utils = _Utils()
        self.launcher_cls = make_launcher
        self.get_current_device = _torch().xpu.current_device
        self.set_current_device = _torch().xpu.set_device

    def get_current_stream(self, device: int) -> int:
        """Launches take the current stream of the thread themselves."""
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return 0, 0

    @staticmethod
    def is_active() -> bool:
        return bool(_torch().xpu.is_available())

    def map_python_to_cpp_type(self, ty: str) -> str:
        return {"p": "void*", "f": "float", "d": "double", "i": "int64_t"}[_letter(ty)]

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("xpu", "cpu", LANES)

    def get_active_torch_device(self) -> Any:
        return _torch().device("xpu", self.get_current_device())

    def get_device_interface(self) -> Any:
        return _torch().xpu

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        return _torch().empty(32 << 20, dtype=_torch().int8, device="xpu")

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()
