"""How the arguments of operators are drawn that no schema describes: a recipe per signature, not one per operator.

A recipe draws arguments by name; what it leaves out comes from the schema's rules (support.arguments). An operator that takes
the results of another, a gradient, says whose; the other is then called on the CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FLOATS = ("f32", "bf16", "f16", "f64")
NUMBERS = (*FLOATS, "i64", "c64", "u8", "i32")
EVERY = (*NUMBERS, "b8")


@dataclass(frozen=True)
class Recipe:
    fill: Callable[[Any], dict[str, Any]]  # from the Draw to arguments by name; out arguments too where it names them
    types: tuple[str, ...] = FLOATS
    oracle: Callable[..., Any] | None = None  # the same call where the CPU has no kernel of that name
    values: bool = True  # False where the result's elements are nobody's
    bad: dict[str, list[Any]] = field(default_factory=dict)  # arguments -> values that must be refused as the CPU does
    view: Callable[[Any], Any] = lambda result: result  # what of the result is defined
    tol: dict[str, tuple[float, float]] = field(default_factory=dict)
    strides: bool = True  # False where the CPU and this device have layouts of their own
    host: tuple[str, ...] = ()  # arguments that stay on the host


@dataclass(frozen=True)
class Gradient:
    forward: str
    given: dict[str, int]  # argument -> which result of the forward call it is
    rest: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = (
        None  # further arguments, from those of the forward call
    )
    types: tuple[str, ...] = FLOATS
    oracle: Callable[..., Any] | None = None
    view: Callable[[Any], Any] = lambda result: result
    values: bool = True
    bad: dict[str, list[Any]] = field(default_factory=dict)
    tol: dict[str, tuple[float, float]] = field(default_factory=dict)
    strides: bool = True
    host: tuple[str, ...] = ()


RECIPES: dict[str, Recipe | Gradient] = {}

# Overloads (globs as of re.fullmatch) that no test draws, with the reason: the only list of them.
UNDRAWN: dict[str, str] = {}


def recipe(*names: str, **options: Any) -> Callable[[Callable[[Any], dict[str, Any]]], Callable[[Any], dict[str, Any]]]:
    """Registers a function for operators: names of overloads or of operators with all their overloads."""

    def register(fill: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
        for name in names:
            assert name not in RECIPES, name
            RECIPES[name] = Recipe(fill, **options)
        return fill

    return register


def gradient(name: str, forward: str, rest: Any = None, **options: Any) -> None:
    """Registers an operator that takes the results of `forward`; integers among the options say which argument is which."""
    given = {k: v for k, v in options.items() if type(v) is int}
    others = {k: v for k, v in options.items() if type(v) is not int}
    assert name not in RECIPES, name
    RECIPES[name] = Gradient(forward, given, rest, **others)


def find(name: str) -> Recipe | Gradient | None:
    """By the overload, by the operator, by the operator whose in-place form it is."""
    base = name.partition(".")[0]
    for key in (name, base, base.removesuffix("_"), name.replace("_.", ".")):
        if key in RECIPES:
            return RECIPES[key]
    return None


def undrawn(name: str) -> str | None:
    """Why an overload is not drawn."""
    return next((reason for glob, reason in UNDRAWN.items() if re.fullmatch(glob, name)), None)
