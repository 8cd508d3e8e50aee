"""The operators of this package and how they enter the dispatcher: a schema that is there is served, one that is missing defined."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclasses.dataclass(frozen=True)
class Operator:
    """One operator of a foreign namespace.

    Args:
        namespace: `_C`, `_moe_C` and so on.
        name: of the operator.
        schema: the name, arguments and results as the dispatcher parses them.
        key: of the implementation: XPU, CPU, or CompositeExplicitAutograd where no argument is a tensor.
        function: the implementation.
    """

    namespace: str
    name: str
    schema: str
    key: str
    function: Callable[..., Any]


OPERATORS: dict[str, Operator] = {}
_libraries: dict[str, torch.library.Library] = {}
_refused: dict[str, str] = {}


def operator(namespace: str, schema: str, key: str = "XPU") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function among the operators; nothing reaches the dispatcher before :func:`enter`."""
    name = schema.partition("(")[0]

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS[f"{namespace}::{name}"] = Operator(namespace, name, schema, key, function)
        return function

    return add


def enter(operators: Iterable[Operator]) -> None:
    """Give operators to the dispatcher, once.

    A schema that another library defined stays, and gets the kernel where it begins with the arguments of ours; a kernel that
    is there stays.
    """
    for op in operators:
        qualified = f"{op.namespace}::{op.name}"
        if torch._C._dispatch_has_kernel_for_dispatch_key(qualified, op.key) if _schema(qualified) else False:
            continue
        library = _libraries.get(op.namespace)
        if library is None:
            library = _libraries[op.namespace] = torch.library.Library(op.namespace, "FRAGMENT")
        theirs = _schema(qualified)
        if theirs is None:
            library.define(op.schema)
        elif not _serves(torch._C.parse_schema(f"{op.namespace}::{op.schema}"), theirs):
            _refused[qualified] = str(theirs)
            continue
        library.impl(op.name, op.function, op.key)


def refused() -> dict[str, str]:
    """Operators that another library defined with other arguments, which keep its schema and get no kernel of ours."""
    return dict(_refused)


def _schema(qualified: str) -> torch.FunctionSchema | None:
    try:
        return torch._C._get_schema(qualified, "")
    except RuntimeError:
        return None


def _serves(ours: torch.FunctionSchema, theirs: torch.FunctionSchema) -> bool:
    mine, others = ([str(a.type) for a in schema.arguments] for schema in (ours, theirs))
    rest = ours.arguments[len(others) :], theirs.arguments[len(mine) :]
    return (
        all(_takes(a, b) for a, b in zip(mine, others, strict=False))
        and all(a.has_default_value() for part in rest for a in part)
        and len(ours.returns) == len(theirs.returns)
    )


def _takes(ours: str, theirs: str) -> bool:
    """An optional argument takes what a plain one brings."""
    return theirs in (ours, ours.removeprefix("Optional[").removesuffix("]"), f"Optional[{ours}]")
