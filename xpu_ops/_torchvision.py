"""torchvision on xpu, with or without its binary.

The kernels are registered with the rest of the extension. Schemas, gradients, autocast and fake functions are torchvision's.
Its build on PyPI needs CUDA's libraries: without them its binary does not load, and `import torchvision` fails. Then the
schemas are defined here, before torchvision's Python code registers the rest for them. The CPU has no kernels then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from xpu_ops._after_import import after_import

if TYPE_CHECKING:
    from types import ModuleType

NAMESPACE = "torchvision"
# torchvision casts these for CUDA alone.
_AUTOCAST = ("roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")


def _has_ops() -> bool:  # replaces torchvision.extension._has_ops, and is compiled by torch.jit.script as that is
    return True


def _no_cuda() -> int:
    return -1


def _define(extension: Any) -> None:
    """Define the operators where torchvision's binary has not."""
    if extension._has_ops():
        return
    from xpu_ops import _C

    _C._define_library(NAMESPACE)
    extension._has_ops = _has_ops
    extension._check_cuda_version = _no_cuda  # asks the binary


def _cast(registrations: ModuleType) -> None:
    """Give xpu the autocast functions that torchvision registers for CUDA."""
    library = torch.library.Library(NAMESPACE, "IMPL")
    for name in _AUTOCAST:
        function = getattr(registrations, f"_autocast_{name}", None)
        if function and not torch._C._dispatch_has_kernel_for_dispatch_key(f"{NAMESPACE}::{name}", "AutocastXPU"):
            library.impl(name, function, "AutocastXPU")
    registrations._xpu_autocast_library = library  # type: ignore[attr-defined]  # registered as long as it lives


def make_known() -> None:
    """Have the operators in torch.ops.torchvision, of torchvision where it is installed, else of this package alone."""
    try:
        importlib.import_module(NAMESPACE)
    except ImportError:
        from xpu_ops import _C

        _C._define_library(NAMESPACE)


def watch() -> None:
    """Wait for torchvision. Imports nothing of it."""
    after_import("torchvision.extension", _define)
    after_import("torchvision._autograd_registrations", _cast)
