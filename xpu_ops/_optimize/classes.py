"""Swaps the class of a module for one with another forward: parameters, hooks and keys of its state stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

_made: dict[tuple[type, type], type] = {}


def mixed(mixin: type, base: type) -> type:
    """The class of `base` with the methods of `mixin` before its own, under the name of `base`."""
    key = mixin, base
    if key not in _made:
        names = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
        _made[key] = type(base.__name__, (mixin, base), names)
    return _made[key]


def swap(module: nn.Module, mixin: type) -> Callable[[], None]:
    """Give `module` the methods of `mixin`. Returns what takes them back."""
    before: Any = module.__class__
    module.__class__ = mixed(mixin, before)

    def restore() -> None:
        module.__class__ = before

    return restore
