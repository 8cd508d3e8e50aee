"""The `xpu` device for a stock PyTorch CPU wheel: Intel GPUs, or the CPU where there is none.

`import torch` brings the device to life by itself (entry point group `torch.backends`); this package is its public API.

- :mod:`xpu_ops.aoti`: loads exported models without torch.compile's modules
- :mod:`xpu_ops.fallback`: operators that run on the CPU, counted and forbidden
- :mod:`xpu_ops.fused`: operators with post-ops, norms with residual, rotary embedding
- :mod:`xpu_ops.ipex`: IPEX's names on this package
- :mod:`xpu_ops.jit`: kernels from C++ text
- :mod:`xpu_ops.onednn`, :mod:`xpu_ops.onemkl`: caches and versions of the libraries
- :mod:`xpu_ops.vision`: which kernels serve torchvision's operators
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from xpu_ops import _interpreter  # noqa: F401  # isort: skip  (first: torch would hang in a subinterpreter)

import torch

from xpu_ops import _autoload, _paths

if TYPE_CHECKING:
    from torch import Tensor

    from xpu_ops import _C, aoti, fallback, ipex, jit, onednn, onemkl, vision
    from xpu_ops._accelerate import function as accelerate_cpu
    from xpu_ops._optimize import WeightFormat
    from xpu_ops._optimize import function as optimize
    from xpu_ops.coverage.trace import trace_ops

# Modules of the public API, which load at their first use.
_MODULES = ("aoti", "fallback", "fused", "ipex", "jit", "onednn", "onemkl", "vision")

# Old names that still work, with a warning, until the release after 0.1.
_RENAMED = {
    "fallback_counts": ("fallback", "counts"),
    "forbid_fallback": ("fallback", "forbid"),
    "reset_fallback_counts": ("fallback", "reset"),
}

__all__ = [
    "WeightFormat",
    "accelerate_cpu",
    "aoti",
    "as_cpu",
    "as_xpu",
    "device_mapping",
    "fallback",
    "fused",
    "inline_enabled",
    "ipex",
    "jit",
    "onednn",
    "onemkl",
    "optimize",
    "set_device_mapping",
    "set_inline",
    "trace_ops",
    "vision",
]

if not TYPE_CHECKING:
    try:
        _C = _autoload.load()
    except ImportError as error:
        # `import torch` passes here: it must go on, with the warning of _autoload, and `xpu-ops doctor` must start.
        _C = _autoload.Unavailable(error)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        if sentence := _paths.not_built():
            raise AttributeError(sentence)
        from xpu_ops._built import VERSION

        return VERSION
    if name == "trace_ops":
        from xpu_ops.coverage.trace import trace_ops

        globals()[name] = trace_ops
        return trace_ops
    if name in ("optimize", "WeightFormat"):
        from xpu_ops import _optimize

        globals().update(optimize=_optimize.function, WeightFormat=_optimize.WeightFormat)
        return globals()[name]
    if name == "accelerate_cpu":
        from xpu_ops import _accelerate

        globals()[name] = _accelerate.function
        return _accelerate.function
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _RENAMED:
        return _renamed(name)
    raise AttributeError(f"module 'xpu_ops' has no attribute '{name}'")


def _renamed(old: str) -> Any:
    import warnings

    module, name = _RENAMED[old]
    text = f"xpu_ops.{old} is now xpu_ops.{module}.{name}; the old name goes with the release after 0.1"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
    # From now on __getattr__ is not asked: one warning per name and process, unless it was an error.
    globals()[old] = value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *(n for n in globals() if n.startswith("__"))})


if not isinstance(_C, _autoload.Unavailable):
    from xpu_ops import fused  # registers the fake functions of torch.ops.xpu_ops, which _C defines


def set_device_mapping(mapping: str) -> None:
    """Choose which devices the indices xpu:0, xpu:1, ... name. Must come before the first use of a device.

    Args:
        mapping: "auto" (GPUs, or the CPU where there is none), "gpu" (GPUs only), "cpu" (xpu:0 is the CPU) or "explicit"
            (every device has its own index, GPUs first). The environment variable XPU_OPS_DEVICE_MAPPING does the same.

    Raises:
        ValueError: for an unknown mapping.
        RuntimeError: when a device has been used already.

    Source: kernels/runtime/device/device.cpp, which lists SYCL's devices.
    """
    _C.set_device_mapping(mapping)


def device_mapping() -> str:
    """Return the mapping in force, see :func:`set_device_mapping`.

    Source: kernels/runtime/device/device.cpp.
    """
    return _C.device_mapping()


def as_cpu(tensor: Tensor) -> Tensor:
    """Return a CPU tensor on the memory of an XPU tensor, in O(1), after waiting for the current stream of its device.

    Both share the storage and its lifetime: a write through one is seen by the other once the device is synchronized.
    The result is detached from autograd.

    Args:
        tensor: on an XPU device, any shape, strides and dtype.

    Raises:
        TypeError: when the tensor is not on an XPU device.
        RuntimeError: where the host cannot read device memory: a discrete GPU, or XPU_OPS_DISCRETE=1.

    Source: bindings/aten/memory/alias.cpp: a storage on the same allocation, which it keeps alive.
    """
    return _C.as_cpu(tensor)


def as_xpu(tensor: Tensor, device: int | torch.device | None = None) -> Tensor:
    """Return an XPU tensor on the memory of a CPU tensor, in O(1). The reverse of :func:`as_cpu`, same sharing.

    Args:
        tensor: on the CPU, any shape, strides and dtype.
        device: XPU device or its index; the current one by default.

    Raises:
        TypeError: when the tensor is not on the CPU.
        RuntimeError: where the device does not work on host memory.

    Source: bindings/aten/memory/alias.cpp: a storage on the same allocation, which it keeps alive.
    """
    index = torch.device(device).index if isinstance(device, (str, torch.device)) else device
    torch.xpu.init()
    return _C.as_xpu(tensor, -1 if index is None else index)


def set_inline(on: bool) -> None:
    """Choose whether small work may run on the calling thread.

    That happens only where the device is the CPU, shares its memory with the host and has nothing left to do on the
    current stream, and only with the bits of a launch. On by default; the environment variable XPU_OPS_INLINE=0 turns it off.

    Args:
        on: False launches a kernel for every call.

    Source: `SmallWork::run`, docs/threads.md.
    """
    _C.set_inline(on)


def inline_enabled() -> bool:
    """Return whether small work may run on the calling thread, see :func:`set_inline`.

    Source: `SmallWork::run`, docs/threads.md.
    """
    return _C.inline_enabled()
