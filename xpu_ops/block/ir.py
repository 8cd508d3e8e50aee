"""A kernel as data: values, statements and loops. Passes change it, the printer writes it; neither reads C++."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from xpu_ops.block.parameters import Field
from xpu_ops.block.types import LANES


_RANK = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


@dataclass(frozen=True)
class Expr:
    """A value: an operation over other values and constants, and how C++ writes it.

    Two expressions are equal where operation and arguments are. `atom`: the text needs no parentheses.
    """

    text: str = field(compare=False)
    op: str
    args: tuple[Hashable, ...] = ()
    atom: bool = field(default=False, compare=False)

    def names(self) -> Iterator[str]:
        """The variables in it."""
        if self.op == "name":
            yield str(self.args[0])
            return
        for a in self.args:
            if isinstance(a, Expr):
                yield from a.names()

    def _with(self, symbol: str, other: Expr | int | str) -> Expr:
        other, rank = value(other), _RANK[symbol]
        left = self.text if self.atom or _RANK.get(self.op, 0) >= rank else f"({self.text})"
        right = other.text if other.atom or _RANK.get(other.op, 0) > rank else f"({other.text})"
        return Expr(f"{left} {symbol} {right}", symbol, (self, other))

    def __add__(self, other: Expr | int | str) -> Expr:
        return self._with("+", other)

    def __sub__(self, other: Expr | int | str) -> Expr:
        return self._with("-", other)

    def __mul__(self, other: Expr | int | str) -> Expr:
        return self._with("*", other)

    def __floordiv__(self, other: Expr | int | str) -> Expr:
        return self._with("/", other)

    def __mod__(self, other: Expr | int | str) -> Expr:
        return self._with("%", other)


def name(of: str) -> Expr:
    """A variable."""
    return Expr(of, "name", (of,), True)


def value(of: Expr | int | str) -> Expr:
    """A number, or the variable of that name."""
    if isinstance(of, Expr):
        return of
    return name(of) if isinstance(of, str) else Expr(str(of), "constant", (of,), True)


def call(function: str, *args: Expr | int | str) -> Expr:
    """A function of the prelude or of the user."""
    values = tuple(map(value, args))
    return Expr(f"{function}({', '.join(v.text for v in values)})", function, values, True)


def least(a: Expr | int | str, b: Expr | int | str) -> Expr:
    """The smaller of two integers that all items share: a built-in function's result would not be known as shared."""
    return Expr(f"{value(a).text} < {value(b).text} ? {value(a).text} : {value(b).text}", "least", (value(a), value(b)))


def load(pointer: Expr | str, at: Expr | str) -> Expr:
    """An element of a buffer. The pointer is uniform, the place of 64 bits: a sum of 32 bits would be a gather."""
    return call("ld", pointer, at)


# ---- statements


@dataclass(frozen=True)
class Let:
    """A variable. Those of type "long" are indices, which never change."""

    name: str
    ctype: str
    value: Expr
    cast: bool = True


@dataclass(frozen=True)
class Store:
    """An element of a buffer. `first`: the lanes have one value, which is stored once."""

    pointer: Expr
    at: Expr
    value: Expr
    first: bool = False


@dataclass(frozen=True)
class Accumulator:
    """One value per way of a loop, before the loop."""

    name: str
    ctype: str
    initial: str


@dataclass(frozen=True)
class Accumulate:
    """An element joins the accumulator of its way."""

    accumulator: str
    op: str
    element: Expr


@dataclass(frozen=True)
class Joined:
    """What the accumulators of all lanes and ways have come to, in every lane."""

    name: str
    ctype: str
    accumulator: str
    op: str


@dataclass(frozen=True)
class Rows:
    """A loop by all items together. `apart`: each sub-group takes rows of its own."""

    row: str
    begin: Expr
    end: Expr
    body: tuple[Node, ...]
    apart: bool = False


@dataclass(frozen=True)
class Lanes:
    """A loop over neighbours in memory, which lie side by side in the lanes. `ways`: accumulators of a lane."""

    column: str
    begin: Expr
    end: Expr
    body: tuple[Node, ...]
    ways: int = 0


@dataclass(frozen=True)
class Either:
    """A choice that all items make alike."""

    condition: Expr
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]


@dataclass(frozen=True)
class Span:
    """The neighbours of `count` that belong to this work-group, `each` to every one: s.begin, s.end."""

    count: Expr
    each: Expr


Node: TypeAlias = Let | Span | Store | Accumulator | Accumulate | Joined | Rows | Lanes | Either


@dataclass(frozen=True)
class Kernel:
    """Parameters, the functions in front, the body; `items` of a work-group, of which sub-groups or all share a row."""

    name: str
    fields: tuple[Field, ...]
    body: tuple[Node, ...]
    before: str = ""
    items: int = LANES
    together: bool = True  # the items of a work-group share the rows; else each sub-group has its own
