"""The kernel while it is being written: its values, arrays and statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xpu_ops.block import ir
from xpu_ops.block.device import CPU, Policy
from xpu_ops.block.ir import Expr, Let, Node
from xpu_ops.block.types import LANES
from xpu_ops.triton.lower.types import cpp, size_of
from xpu_ops.triton.ttir import Block, Function, Op, Ty, Unsupported

LOCAL_BYTES = 256 << 10

Shape = tuple[int, ...]


@dataclass
class Value:
    """Where a value is.

    kind: `scalar`, the same in all lanes; `array`, a block in local memory; `lazy`, computed where it is used; `pending`,
    waits for its loop; `moved`, the block `init` plus the same scalar everywhere, as pointers carried by a loop are: in
    each step it grows by the `steps`.
    own: no other name can stand for the array.
    reads: it is lazy and reads memory.
    copy: a condition, and the array that has what was loaded where it does not hold.
    """

    ty: Ty
    kind: str
    code: Expr = ir.FALSE
    op: Op | None = None
    init: str = ""
    steps: tuple[str, ...] = ()
    region: int = 0
    own: bool = False
    reads: bool = False
    copy: tuple[Expr, Expr] | None = None


@dataclass
class State:
    """The `parts` of a work-group, its sub-groups, run a program together and share its loops."""

    function: Function
    functions: dict[str, Function]
    values: dict[str, Value] = field(default_factory=dict)
    policy: Policy = CPU
    body: list[Node] = field(default_factory=list)
    pending: dict[Shape, list[Op]] = field(default_factory=dict)
    uses: dict[str, list[Op]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    scope: set[int] = field(default_factory=set)  # operations of the block that is being written
    again: dict[str, str] = field(default_factory=dict)  # values that are computed again, and what they load
    messages: list[str] = field(default_factory=list)
    texts: dict[str, ir.Print] = field(default_factory=dict)
    region: int = 0
    calls: int = 0
    blocks: list[dict[str, Block]] = field(default_factory=list)
    visit: Callable[[Op], None] = field(default=lambda op: None)
    leave: Callable[[Op], None] = field(default=lambda op: None)  # writes what the end of a function or region does
    _count: int = 0
    _regions: int = 0
    _top: int = 0
    peak: int = 0
    size: int = 0  # statements so far

    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, *nodes: Node) -> None:
        self.body.extend(nodes)
        self.size += len(nodes)

    @contextmanager
    def nested(self) -> Iterator[list[Node]]:
        """Collects the nodes that are put meanwhile."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def let(self, elem: str, value: Expr, prefix: str = "v", into: list[Node] | None = None) -> Expr:
        """A constant of an element's type."""
        name = self.fresh(prefix)
        (self.body if into is None else into).append(Let(name, f"{cpp(elem)} const", value))
        return ir.name(name)

    def variable(self, elem: str, prefix: str = "v", value: Expr | None = None, into: list[Node] | None = None) -> Expr:
        """A variable of an element's type, zero without a value."""
        name, T = self.fresh(prefix), cpp(elem)
        node = ir.Variable(name, T) if value is None else Let(name, T, value)
        (self.body if into is None else into).append(node)
        return ir.name(name)

    def note_uses(self, ops: Iterator[Op]) -> None:
        for op in ops:
            for o in (*op.operands, *(v for _, values in op.targets for v in values)):
                self.uses.setdefault(o, []).append(op)

    # ---- sub-groups of a program
    @property
    def parts(self) -> int:
        return self.policy.team_items // LANES

    def sync_parts(self) -> None:
        """All sub-groups have read: what they read may change."""
        if self.parts > 1:
            self.put(ir.Sync())

    # ---- values
    def scalar(self, name: str) -> Expr:
        v = self.values[name]
        if v.kind != "scalar":
            raise Unsupported("a tensor where a scalar is expected")
        return v.code

    def define(self, op: Op, value: Expr, index: int = 0) -> None:
        """The scalar result of an operation, as a constant."""
        t = op.types[index]
        self.values[op.results[index]] = Value(t, "scalar", self.let(t.elem, value))

    def bind(self, args: list[tuple[str, Ty]], values: list[Value]) -> None:
        """The arguments of a block have these values."""
        self.values.update(zip((name for name, _ in args), values, strict=True))

    def set_array(self, name: str, ty: Ty, array: Expr, own: bool = False) -> None:
        self.values[name] = Value(ty, "array", array, region=self.region, own=own)

    # ---- local memory: a stack, a region gives back what was made in it
    def array(self, ty: Ty, elem: str | None = None) -> Expr:
        elem = elem or ty.elem
        place = ir.cast(f"{cpp(elem)}*", ir.name("pool") + self._top, "reinterpret")
        name = self.let(f"ptr<{elem}>", place, "s")
        self._top += (max(ty.numel, LANES) * size_of(elem) + 63) // 64 * 64
        self.peak = max(self.peak, self._top)
        return name

    def storage(self, t: Ty, prefix: str = "m") -> Value:
        """A place for a value that is written later."""
        if t.shape is None:
            return Value(t, "scalar", self.variable(t.elem, prefix))
        return Value(t, "array", self.array(t), region=self.region)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A region of the program with variables and arrays of its own."""
        outer, top = self.region, self._top
        self._regions += 1
        self.region = self._regions
        values = dict(self.values)
        try:
            yield
        finally:
            self.region, self._top, self.values = outer, top, values

    @contextmanager
    def scalars(self, into: list[Node]) -> Iterator[None]:
        """Statements over scalars, put into this list: the loops that are still to be written stay."""
        outer = self.body, self.pending, self.again
        self.body, self.pending, self.again = into, {}, {}
        with self.inner():
            yield
        self.body, self.pending, self.again = outer

    @contextmanager
    def graph(self, blocks: dict[str, Block], leave: Callable[[Op], None]) -> Iterator[None]:
        """The blocks of a function or region, and what its end does."""
        outer, self.leave = self.leave, leave
        self.blocks.append(blocks)
        yield
        self.blocks.pop()
        self.leave = outer

    @contextmanager
    def block(self, ops: list[Op]) -> Iterator[None]:
        """The operations of a block are in scope."""
        outer, self.scope = self.scope, {id(op) for op in ops}
        try:
            yield
        finally:
            self.scope = outer

    def message(self, text: str) -> int:
        """The number of an assertion's text."""
        if text not in self.messages:
            self.messages.append(text)
        return self.messages.index(text)
