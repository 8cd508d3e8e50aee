"""torch.compile for xpu on a stock torch: Inductor writes SYCL kernels, xpu_ops.jit compiles them.

Nothing is to be imported or called: `watch()` runs with `import torch` and waits for torch._inductor.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


def _on_inductor(module: ModuleType) -> None:
    try:
        from xpu_ops.inductor.install import install

        install()
    except Exception as error:  # torch.compile on the CPU must go on working
        import warnings

        warnings.warn(f"torch.compile is not available on xpu: {type(error).__name__}: {error}", stacklevel=2)


def _on_dynamo(module: Any) -> None:
    """`is_compile_supported("xpu")` asks for Triton."""
    upstream = module.is_compile_supported

    def is_compile_supported(device_type: Any) -> Any:
        import torch

        if torch.device(device_type).type == "xpu":
            return module.is_compile_supported("cpu")
        return upstream(device_type)

    module.is_compile_supported = is_compile_supported


_ACTIONS: dict[str, Callable[[ModuleType], None]] = {
    "torch._inductor.compile_fx": _on_inductor,
    "torch._dynamo.utils": _on_dynamo,
}


class _Loader(importlib.abc.Loader):
    """Runs a module as its own loader does and an action after it."""

    def __init__(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        self._loader, self._action = loader, action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._action(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the watched modules as the other finders do, with our loader around theirs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = _ACTIONS.get(name)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, action)
        return spec


def watch() -> None:
    """Install the backend when torch._inductor is imported, or now where it has been. Imports nothing of it."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    for name, action in _ACTIONS.items():
        if name in sys.modules:
            action(sys.modules[name])
