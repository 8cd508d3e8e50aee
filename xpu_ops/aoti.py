"""Loads models that torch._inductor.aoti_compile_and_package exported for xpu, in milliseconds.

torch._inductor.aoti_load_package loads the same packages. It imports all of torch.compile first, which takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_ops import _C  # noqa: F401  (registers what runs the packages)

__all__ = ["Package", "load"]


class Package:
    """A loaded model. Call it as the module that was exported.

    Source: bindings/aoti/runner.cpp, which torch's loader finds in its registry.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._in, self._out = (pytree.treespec_loads(text) for text in loader.get_call_spec())
        self._names: list[str] = self._in.children()[1].context

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model.

        Raises:
            TypeError: where the arguments are not of the structure of those that it was exported with.
        """
        if kwargs.keys() != set(self._names):
            raise TypeError(f"The model takes the keyword arguments {self._names}, got {list(kwargs)}")
        flat, spec = pytree.tree_flatten((args, {name: kwargs[name] for name in self._names}))
        if spec != self._in:
            raise TypeError(f"The model takes arguments of the structure {self._in}, got {spec}")
        results = self._loader.boxed_run([x for x in flat if isinstance(x, torch.Tensor)])
        return pytree.tree_unflatten(results, self._out)

    def metadata(self) -> dict[str, str]:
        """Return what the package says about itself: device, versions of torch and xpu_ops."""
        return dict(self._loader.get_metadata())

    def constant_names(self) -> list[str]:
        """Return the names of its weights, as in the state_dict of the module."""
        return list(self._loader.get_constant_fqns())

    def load_constants(self, constants: Mapping[str, torch.Tensor], *, full: bool = True) -> None:
        """Replace weights by those of a state_dict; `full` asks for all of them.

        Raises:
            RuntimeError: where one is missing or unknown.
        """
        self._loader.load_constants(dict(constants), False, full, False, True)


def load(
    path: str | os.PathLike[str], *, model: str = "model", device_index: int = -1, single_threaded: bool = False
) -> Package:
    """Load a package.

    Args:
        path: the .pt2 file.
        model: which one, of a file with several.
        device_index: the xpu device; -1 for the current one.
        single_threaded: one thread at a time will call it; saves a lock.

    Raises:
        RuntimeError: where the file is damaged, or was made for another device or release of torch.

    Source: torch's AOTIModelPackageLoader; bindings/aoti/package.cpp checks the package.
    """
    return Package(torch._C._aoti.AOTIModelPackageLoader(os.fspath(path), model, single_threaded, 1, device_index))
