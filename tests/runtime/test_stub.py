"""xpu_ops/_C.pyi says what the extension has: the same names, and as many arguments."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from xpu_ops import _C

STUB = ast.parse((Path(__file__).resolve().parents[2] / "xpu_ops" / "_C.pyi").read_text())
DECLARED = {n.name: n for n in STUB.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
CLASSES = [n for n in DECLARED.values() if isinstance(n, ast.ClassDef)]
FUNCTIONS = [n for n in DECLARED.values() if isinstance(n, ast.FunctionDef)]


def public(scope: object) -> set[str]:
    return {n for n in dir(scope) if not n.startswith(("__", "_pybind11_"))}


def arguments(function: ast.FunctionDef) -> int:
    """As pybind11 counts them: the star before arguments by name is one."""
    named = len(function.args.kwonlyargs)
    return len(function.args.posonlyargs) + len(function.args.args) + named + bool(named)


def bound_arguments(function: object) -> int:
    """How many arguments pybind11 says that a function takes."""
    signature = (getattr(function, "__doc__", None) or "").split("\n")[0].rsplit(" -> ", 1)[0]
    inside = signature[signature.index("(") + 1 : -1]
    depth, count = 0, 1 if inside else 0
    for c in inside:
        depth += (c in "[(") - (c in "])")
        count += c == "," and depth == 0
    return count


def test_names() -> None:
    assert public(_C) == set(DECLARED)


@pytest.mark.parametrize("declared", CLASSES, ids=lambda n: n.name)
def test_members(declared: ast.ClassDef) -> None:
    own = getattr(_C, declared.name)
    of_torch = set().union(*(public(base) for base in own.__bases__)) if declared.bases else set()
    assert (
        public(own) - of_torch
        == {n.name for n in declared.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name != "__init__"}
        - of_torch
    )


def wrong_numbers(scope: object, declared: list[ast.stmt]) -> list[str]:
    """Functions of a module or of the modules in it whose arguments are not as many as the stub says."""
    return [
        f.name
        for f in declared
        if isinstance(f, ast.FunctionDef) and bound_arguments(getattr(scope, f.name)) != arguments(f)
    ] + [
        name
        for inner in declared
        if isinstance(inner, ast.ClassDef)
        for name in wrong_numbers(getattr(scope, inner.name), inner.body)
    ]


def test_numbers_of_arguments() -> None:
    modules = [n for n in CLASSES if n.name in ("_onednn", "_onemkl")]
    assert wrong_numbers(_C, [*FUNCTIONS, *modules]) == []
