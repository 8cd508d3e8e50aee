"""torchvision on xpu, with or without its binary.

The kernels are registered with the rest of the extension. Schemas, gradients, autocast and fake functions are torchvision's.
Its build on PyPI needs CUDA's libraries: without them its binary does not load, and `import torchvision` fails. Then the
schemas are defined here, before torchvision's Python code registers the rest for them. The CPU has no kernels then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from xpu_ops.upstream.registry import adds, apply, replaces

if TYPE_CHECKING:
    from types import ModuleType

NAMESPACE = "torchvision"
# torchvision casts these for CUDA alone.
_AUTOCAST = ("roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")


def _has_ops() -> bool:  # compiled by torch.jit.script, as the original is
    return True


def _no_cuda() -> int:
    return -1


def install(module: ModuleType) -> None:
    """Define the operators where torchvision's binary has not; later register autocast functions."""
    if module.__name__ == "torchvision.extension":
        if module._has_ops():
            return
        from xpu_ops import _C

        _C._define_library(NAMESPACE)
    apply("torchvision", module.__name__)


@replaces(
    "torchvision.extension._has_ops",
    since="0.28",
    why="without CUDA's libraries torchvision's binary does not load, and `import torchvision` fails",
    test="tests/aten/test_vision.py::test_in_a_fresh_process",
)
def has_ops(upstream: Any) -> Any:
    return _has_ops


@replaces(
    "torchvision.extension._check_cuda_version",
    since="0.28",
    why="it asks the binary, which is not there",
    test="tests/aten/test_vision.py::test_in_a_fresh_process",
)
def check_cuda_version(upstream: Any) -> Any:
    return _no_cuda


@adds(
    "torchvision._autograd_registrations._xpu_autocast_library",
    since="0.28",
    why="torchvision registers autocast functions for CUDA alone; the registrations live as long as this library object",
    test="tests/aten/test_vision.py::test_namespace",
)
def cast() -> dict[str, Any]:
    registrations = importlib.import_module("torchvision._autograd_registrations")
    library = torch.library.Library(NAMESPACE, "IMPL")
    for name in _AUTOCAST:
        function = getattr(registrations, f"_autocast_{name}", None)
        if function and not torch._C._dispatch_has_kernel_for_dispatch_key(f"{NAMESPACE}::{name}", "AutocastXPU"):
            library.impl(name, function, "AutocastXPU")
    return {"torchvision._autograd_registrations._xpu_autocast_library": library}


def make_known() -> None:
    """Have the operators in torch.ops.torchvision, of torchvision where it is installed, else of this package alone."""
    try:
        importlib.import_module(NAMESPACE)
    except ImportError:
        from xpu_ops import _C

        _C._define_library(NAMESPACE)
