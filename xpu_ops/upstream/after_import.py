"""Runs code of ours when somebody else's module has been imported, without importing it.

`import torch` brings this package in, and must not bring libraries that the program may never use. A door to such a library
registers an action for the module it has to touch:

    after_import("torchvision.extension", install)

The action runs right after the module's own code, before the import returns, with the module as its argument; at once where
the module is there already, and with the next import after it where its code is just running. It runs once, in the importing
thread. What it raises is the importer's: an action that others can do without catches its errors and warns.
"""

from __future__ import annotations

import importlib.abc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Action = Callable[[ModuleType], None]

_actions: dict[str, list[Action]] = {}
# Of modules whose code was running already: torch._dynamo.utils imports Triton, and that the backend in this package.
_unfinished: list[tuple[ModuleType, Action]] = []


def _initializing(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _run_finished() -> None:
    for pair in [p for p in _unfinished if not _initializing(p[0])]:
        _unfinished.remove(pair)
        module, action = pair
        action(module)


class _Loader(importlib.abc.Loader):
    """Runs a module as its own loader does, then the actions. The module keeps its own loader."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for action in _actions.pop(module.__name__, ()):
            action(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the awaited modules as the finders behind it do, with our loader around theirs."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        _run_finished()
        if name not in _actions:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


_finder = _Finder()


def after_import(name: str, action: Action) -> None:
    """Run `action(module)` when the module of this full name has been imported, or now where it has been."""
    module = sys.modules.get(name)
    if module is None:
        _actions.setdefault(name, []).append(action)
    elif _initializing(module):
        _unfinished.append((module, action))
    else:
        action(module)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
