"""A kernel as data: values, statements and loops. Passes change it, the printer writes it; neither reads C++."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import dataclass_transform

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
    _hash: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args)))

    def __hash__(self) -> int:
        return self._hash

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
        left = self.text if self.atom or self.op == symbol or _RANK.get(self.op, 0) > rank else f"({self.text})"
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


TRUE, FALSE = (Expr(text, "constant", (text,), True) for text in ("true", "false"))


def value(of: Expr | int | str) -> Expr:
    """A number, or the variable of that name."""
    if isinstance(of, Expr):
        return of
    return name(of) if isinstance(of, str) else Expr(str(of), "constant", (of,), True)


def call(function: str, *args: Expr | int | str) -> Expr:
    """A function of the prelude or of the user."""
    values = tuple(map(value, args))
    return Expr(f"{function}({', '.join(v.text for v in values)})", function, values, True)


def cast(ctype: str, of: Expr | int | str, how: str = "static") -> Expr:
    """A value converted to a type."""
    return call(f"{how}_cast<{ctype}>", of)


def struct(ctype: str, *fields: Expr | int | str) -> Expr:
    """A struct of these fields."""
    values = tuple(map(value, fields))
    return Expr(f"{ctype}{{{', '.join(v.text for v in values)}}}", ctype, values, True)


def member(of: str, field: str) -> Expr:
    """A field of a variable."""
    return Expr(f"{of}.{field}", "member", (name(of), field), True)


def _part(of: Expr | int | str) -> str:
    of = value(of)
    return of.text if of.atom else f"({of.text})"


def infix(symbol: str, a: Expr | int | str, b: Expr | int | str) -> Expr:
    """A comparison, or another operation that Expr's own operators do not have."""
    return Expr(f"{_part(a)} {symbol} {_part(b)}", symbol, (value(a), value(b)))


def every(conditions: Iterable[Expr]) -> Expr:
    """Whether all hold; true of none."""
    found = tuple(dict.fromkeys(conditions))
    if len(found) < 2:
        return found[0] if found else TRUE
    return Expr(" && ".join(map(_part, found)), "&&", found)


def choice(which: Expr, a: Expr, b: Expr) -> Expr:
    """The first value where the condition holds, else the second."""
    return Expr(f"({_part(which)} ? {_part(a)} : {_part(b)})", "?:", (which, a, b), True)


def at(base: Expr, index: Expr | int) -> Expr:
    """A place in memory: so many elements from `base` on."""
    return Expr(f"{_part(base)}[{value(index).text}]", "[]", (base, value(index)), True)


def pointed(pointer: Expr) -> Expr:
    """The place that a pointer has."""
    return Expr(f"(*{_part(pointer)})", "[]", (pointer,), True)


GROUP = call("__spirv_BuiltInWorkgroupId", 0)  # the number of the work-group


def least(a: Expr | int | str, b: Expr | int | str) -> Expr:
    """The smaller of two integers. The prelude's function is a `?:`: a built-in one's result is not the same in all items."""
    return call("sycl::min<long>", a, b)


def result(accumulator: str, op: str, field: str = "") -> Expr:
    """The accumulators of all lanes and ways joined. The printer knows the loop."""
    return Expr(f"{accumulator}{field}", "result", (accumulator, op, field), True)


def load(pointer: Expr | str, at: Expr | str, op: str = "load") -> Expr:
    """An element of a buffer. The pointer is uniform, the place of 64 bits: a sum of 32 bits would be a gather. `op` "step": the
    operand steps through memory along the row, and is read from its block's copy where there is one."""
    place = value(pointer), value(at)
    return Expr(f"ld({place[0].text}, {place[1].text})", op, place, True)


def ways(count: int | str) -> Let:
    """How many accumulators there are of each name."""
    return Let("ACC", "constexpr int", value(count))


# ---- statements and loops


@dataclass_transform(frozen_default=True)
class Node:
    """A statement or a loop."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Let(Node):
    """A variable. Those of type "long" are indices, which never change. `cast`: the value is converted to the type."""

    name: str
    ctype: str
    value: Expr
    cast: bool = False


class Assign(Node):
    """A variable gets another value."""

    name: str
    value: Expr


class Check(Node):
    """A variable says whether a condition holds. Where it does not, text `number` is reported."""

    name: str
    condition: Expr
    number: int


class Report(Node):
    """The report of a check whose condition is known already."""

    name: str
    number: int


class Leave(Node):
    """An item ends where the variable is false."""

    unless: str


class If(Node):
    """A branch, which lanes may take apart."""

    condition: Expr
    body: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


class Store(Node):
    """An element of a buffer. `first`: the lanes have one value, which is stored once. `when`: variables that all have to hold.
    `buffer` is what the front end calls it."""

    pointer: Expr
    at: Expr
    value: Expr
    first: bool = False
    when: tuple[str, ...] = ()
    buffer: str = ""


class Accumulator(Node):
    """One value per way of a loop, before the loop; ACC says how many ways there are. `initial`: '' for what needs none."""

    name: str
    ctype: str
    initial: str


class Accumulate(Node):
    """An element joins the accumulator of its way."""

    accumulator: str
    op: str
    element: Expr
    when: tuple[str, ...] = ()


class Function(Node):
    """A function inside of a kernel, of parameters by type and name. `inlined`: at every call, whatever the compiler thinks."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Node, ...]
    result: Expr
    inlined: bool = True


class ScanStep(Node):
    """The result of a scan at the elements that the lanes have."""

    name: str
    carried: str
    element: Expr
    function: str


class Memory(Node):
    """Memory of a work-group, and the pointer to it."""

    name: str
    pointer: str
    ctype: str
    count: int


class Rows(Node):
    """A loop by all items together. `apart`: each sub-group takes rows of its own."""

    row: str
    begin: Expr
    end: Expr
    body: tuple[Node, ...]
    apart: bool = False


class Lanes(Node):
    """A loop over neighbours in memory, which lie side by side in the lanes. `ways`: accumulators of a lane."""

    column: str
    begin: Expr
    end: Expr
    body: tuple[Node, ...]
    ways: int = 0
    in_order: bool = False  # all lanes go together; those past the end, on the last element, find `in` false


class Steps(Node):
    """A loop of each lane for itself, two accumulators by turns."""

    index: str
    end: Expr
    body: tuple[Node, ...]


class Columns(Node):
    """Four vectors of columns side by side: what is in front, a loop over the rows in which each column has its accumulator,
    what follows for each column."""

    begin: Expr
    end: Expr
    before: tuple[Node, ...]
    row: str
    rows: Expr
    body: tuple[Node, ...]
    after: tuple[Node, ...]


class Block(Node):
    """The copy of a block of an operand that lies along the columns, transposed: read before the rows, or written after."""

    function: str
    constants: tuple[int, ...]
    copy: str
    ranges: tuple[str, ...]
    definitions: tuple[Node, ...]
    pointer: str
    at: Expr
    result: str = ""  # the type of the place that is written
    buffer: str = ""


class Span(Node):
    """The neighbours of `count` that belong to this work-group, `each` to every one: s.begin, s.end."""

    count: Expr
    each: Expr


# ---- programs of blocks: what the items of a work-group do together, on arrays in its memory


class Variable(Node):
    """A variable, or `count` of them, that gets other values later. Without initial values it is zero, with None anything."""

    name: str
    ctype: str
    initial: tuple[Expr, ...] | None = ()
    count: int = 0


class Put(Node):
    """A place or a variable gets a value. `by`: the "sub_group" or the "program" has one value, which is put there once."""

    place: Expr
    value: Expr
    when: Expr = TRUE
    by: str = ""


class Do(Node):
    """A call for what it does."""

    call: Expr


class Sync(Node):
    """All items of the program see what any has written so far."""


class One(Node):
    """Statements of one item of the program."""

    body: tuple[Node, ...]


class Scope(Node):
    """Statements with variables of their own; `once`: an end of them is Jump("break")."""

    body: tuple[Node, ...]
    once: bool = False


class Jump(Node):
    """The end of a loop, or of the kernel."""

    word: str


class Count(Node):
    """A loop over 0 <= index < end. `shared`: the sub-groups of the program take steps of it by turns."""

    index: str
    end: int
    body: tuple[Node, ...]
    step: int = 1
    shared: bool = False
    unroll: bool = False


class Vectors(Node):
    """Such a loop, from where `index` is, as long as a condition holds."""

    index: str
    end: int
    step: int
    body: tuple[Node, ...]
    condition: Expr = TRUE
    shared: bool = False


class Range(Node):
    """A loop of the user: begin <= index < end."""

    index: str
    ctype: str
    begin: Expr
    end: Expr
    step: Expr
    unsigned: bool
    body: tuple[Node, ...]


class While(Node):
    """A loop that ends by its condition or by Jump("break")."""

    condition: Expr
    body: tuple[Node, ...]


class Print(Node):
    """printf of a text, which stands in front of the kernel, and values."""

    text: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Kernel:
    """Parameters, the functions in front, the body; `items` of a work-group, of which sub-groups or all share a row."""

    name: str
    fields: tuple[Field, ...]
    body: tuple[Node, ...]
    before: str = ""
    items: int = LANES
    together: bool = True  # the items of a work-group share the rows; else each sub-group has its own
    across: bool = True  # lanes share a result; else each has one of its own
    slots: bool = False  # an accumulator per vector of columns, none to join
    # Operands that step through memory along the row, by pointer and place: their block's copy and its pitch.
    copies: Mapping[tuple[str, str, bool], tuple[str, int]] = field(default_factory=dict, compare=False)
    program: bool = False  # of blocks: p.grid0 to p.grid2 say how many there are
    local: int = 0  # bytes of memory that the arrays of a program share
