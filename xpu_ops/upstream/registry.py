"""The registry of what this package changes in torch and in other libraries: no other file assigns into them.

A file of this folder declares each change beside the function that makes it:

    @replaces("torch._inductor.lowering._div_rn", since="2.13", why="...", test="tests/...::test_...")
    def exact_floor(upstream): ...          # gets the original, returns what takes its place

    @uses("torch._inductor.lowering.make_fallback", ...)
    def keep_operator(make_fallback): ...   # calls a private function

    num_splits = temporarily("torch._inductor.ir.Scan.num_splits", ...)
    with num_splits(replacement): ...       # for the time of a call

A target is the full name of a function, a class attribute or a module's variable; `[key]` behind it names an entry of a table,
with the key's full name or a quoted string. `apply(file)` makes the changes of one file, in their order, and keeps the
originals, whose signatures tests/runtime/test_upstream.py compares with those of the release that a change was written for.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PART = re.compile(r"\.?([A-Za-z_]\w*)|\[('[^']*'|[\w.]+)\]")
_MISSING = object()


@dataclass
class Change:
    """One change: its targets, the releases of the library that have them, the reason, a test."""

    kind: str
    targets: tuple[str, ...]
    since: str
    until: str | None
    why: str
    test: str
    file: str
    make: Callable[..., Any] | None = None
    originals: dict[str, Any] = field(default_factory=dict)

    def library(self) -> str:
        """The library that is changed."""
        return self.targets[0].partition(".")[0]


CHANGES: list[Change] = []


def _module_of(target: str) -> tuple[Any, str]:
    """The module that a name begins with, and the rest. Raises LookupError where there is none."""
    names = re.match(r"[\w.]+", target)[0].rstrip(".").split(".")  # type: ignore[index]
    for n in range(len(names), 0, -1):
        name = ".".join(names[:n])
        module = sys.modules.get(name)
        if module is None:
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                    raise
                continue
            except AttributeError:  # torch.ops and its kin look like modules
                continue
        return module, target[len(name) :]
    raise LookupError(f"{target}: no such module")


def _parts(rest: str, target: str) -> list[tuple[str, bool]]:
    parts = [(m[1] or m[2], m[2] is not None) for m in _PART.finditer(rest)]
    written = "".join(f"[{p}]" if item else f".{p}" for p, item in parts)
    if written != rest:
        raise ValueError(f"{target}: cannot read {rest!r}")
    return parts


def _key(text: str) -> Any:
    return text[1:-1] if text.startswith("'") else resolve(text)


def _step(owner: Any, part: str, item: bool) -> Any:
    return owner[_key(part)] if item else getattr(owner, part)


def _place(target: str) -> tuple[Any, Any, bool]:
    """The owner of the target, the name or key there, and whether it is a key."""
    owner, rest = _module_of(target)
    parts = _parts(rest, target)
    if not parts:
        raise LookupError(f"{target} is a module")
    for part, item in parts[:-1]:
        owner = _step(owner, part, item)
    last, item = parts[-1]
    return owner, _key(last) if item else last, item


def resolve(target: str) -> Any:
    """The object of a full name. Raises LookupError or AttributeError where it is gone."""
    value, rest = _module_of(target)
    for part, item in _parts(rest, target):
        value = _step(value, part, item)
    return value


def set_target(target: str, value: Any) -> None:
    """Put `value` in the place of a target; over a static or class method it becomes a static method."""
    owner, key, item = _place(target)
    if item:
        owner[key] = value
        return
    if inspect.isclass(owner) and isinstance(inspect.getattr_static(owner, key, None), (staticmethod, classmethod)):
        value = staticmethod(value)
    setattr(owner, key, value)


def _declare(kind: str, targets: tuple[str, ...], since: str, until: str | None, why: str, test: str) -> Change:
    file = sys._getframe(2).f_globals["__name__"].rpartition(".")[2]
    change = Change(kind, targets, since, until, why, test, file)
    CHANGES.append(change)
    return change


def _decorator(change: Change) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def take(make: Callable[..., Any]) -> Callable[..., Any]:
        change.make = make
        return make

    return take


def replaces(*targets: str, since: str, until: str | None = None, why: str, test: str) -> Any:
    """Declare that the function's result takes the place of each target; it gets the original.

    Args:
        targets: full names; several where the same object has several names or each gets the same change.
        since, until: the first release of the library with the target, and the first without; None while it is there.
        why: one sentence.
        test: path::function of a test that runs through the change.
    """
    return _decorator(_declare("replaces", targets, since, until, why, test))


def adds(*targets: str, since: str, until: str | None = None, why: str, test: str) -> Any:
    """Declare names that the library has only in builds with XPU, `*` for any rest; the function returns name -> value."""
    return _decorator(_declare("adds", targets, since, until, why, test))


def uses(*targets: str, since: str, until: str | None = None, why: str, test: str) -> Any:
    """Declare private functions that are called to change the library's state; the function gets them."""
    return _decorator(_declare("uses", targets, since, until, why, test))


def temporarily(
    target: str, *, since: str, until: str | None = None, why: str, test: str
) -> Callable[[Any], AbstractContextManager[Any]]:
    """Declare a target that is replaced during calls. Returns a function: its context has the given value in the place."""
    _declare("during a call", (target,), since, until, why, test)

    def during(value: Any) -> AbstractContextManager[Any]:
        from unittest import mock  # takes 15 ms, which `import torch` need not wait for

        owner, name, _ = _place(target)
        return mock.patch.object(owner, name, value)

    return during


@functools.cache
def _installed(library: str) -> str:
    """The version of a library, whose distribution may be a build for the CPU with a name of its own."""
    try:
        return version(library)
    except PackageNotFoundError:
        return version(f"{library}-cpu")


def _has_reached(library: str, release: str) -> bool:
    numbers = [[int(n) for n in re.findall(r"\d+", text)[:2]] for text in (_installed(library), release)]
    return numbers[0] >= numbers[1]


def _is_elsewhen(change: Change) -> bool:
    """Whether the installed release no longer has the targets, or is older than they are."""
    if change.until is not None and _has_reached(change.library(), change.until):
        return True
    try:
        if _has_reached(change.library(), change.since):
            return False
        for target in change.targets:
            resolve(target)
    except PackageNotFoundError:
        return False
    except (AttributeError, LookupError):
        return True
    return False


def _apply(change: Change, targets: list[str]) -> None:
    assert change.make is not None
    if change.kind == "uses":
        change.make(*(resolve(t) for t in targets))
    elif change.kind == "adds":
        for name, value in change.make().items():
            if not any(name == t or fnmatch.fnmatchcase(name, t) for t in targets):
                raise ValueError(f"{name} is not declared by {targets}")
            set_target(name, value)
    else:
        made: dict[int, Any] = {}  # names of one object get one object again
        for target in targets:
            original = change.originals.setdefault(target, resolve(target))
            if id(original) not in made:
                made[id(original)] = change.make(original)
            set_target(target, made[id(original)])


def apply(file: str, within: str = "") -> None:
    """Make the changes of a file of this folder, in their order, to the targets whose names begin with `within`."""
    for change in CHANGES:
        targets = [t for t in change.targets if t.startswith(within)]
        if change.file == file and change.make is not None and targets and not _is_elsewhen(change):
            _apply(change, targets)


_libraries: list[Any] = []  # keep the operators registered


def implement(namespace: str, operators: Mapping[str, Callable[..., Any]]) -> None:
    """Give operators of torch a function on xpu, by name, where the release has none there."""
    import torch

    library = torch.library.Library(namespace, "IMPL", "XPU")
    _libraries.append(library)
    for name, function in operators.items():
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"{namespace}::{name}", "XPU"):
            library.impl(name, function)


def original(change: Change, target: str) -> Any:
    """The object in the place before the change."""
    found = change.originals.get(target, _MISSING)
    return resolve(target) if found is _MISSING else found


def signature(value: Any) -> str:
    """Names and kinds of a function's parameters, `=` behind those with a default; the type of any other value."""
    if not callable(value) or isinstance(value, type):
        return f"a {type(value).__name__}" if not isinstance(value, type) else "a class"
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "a function of C"
    out, keyword = [], False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not keyword:
            out.append("*")
        keyword |= p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        stars = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        out.append(f"{stars}{p.name}{'' if p.default is p.empty else '='}")
    return f"({', '.join(out)})"


def release(library: str) -> str:
    """The library and the release that is installed: "torch 2.13"."""
    return f"{library} {'.'.join(_installed(library).split('.')[:2])}"


def signatures(library: str) -> dict[str, str]:
    """The signature of every target in a library, by name; of one with `*`, and of one that is added, that of its owner.

    Raises LookupError or AttributeError for a target that is gone.
    """
    out = {}
    for change in CHANGES:
        for target in change.targets:
            if not target.startswith(f"{library}.") or _is_elsewhen(change):
                continue
            if change.kind == "adds":
                owner, _, _ = _place(target.replace("*", "_"))
                out[target] = f"of {type(owner).__name__}"
            else:
                out[target] = signature(original(change, target))
    return dict(sorted(out.items()))
