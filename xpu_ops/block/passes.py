"""Statements of a loop's body that need not run for every element: what is the same in a whole row is taken out of the
loop, and what an earlier loop over the row computed at some cost is kept in memory of the work-group."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from xpu_ops.block import ir
from xpu_ops.block.ir import Accumulate, Assign, Check, Expr, If, Leave, Let, Node, Report, ScanStep, Store, name
from xpu_ops.block.ops import COSTLY, GATHER

INDEX = "long"  # the type of index variables, which every loop keeps: operands find their places by them
_MOST_KEPT = 3  # rows that fit beside the operands in the first cache
_LONGEST_KEPT = 2048
_BY_LOOP = ("step", "result")  # values whose text the loop's form decides


def uses(node: Node) -> Iterator[str]:
    """The variables that a statement reads, and those that its branch assigns."""
    match node:
        case Let(value=value) | Assign(value=value):
            yield from value.names()
        case Check(condition=condition):
            yield from condition.names()
        case Store(at=at, value=value, when=when):
            yield from (*when, *at.names(), *value.names())
        case Accumulate(element=element, when=when):
            yield from (*when, *element.names())
        case ScanStep(element=element):
            yield from element.names()
        case Leave(unless=unless) | Report(name=unless):
            yield unless
        case If(condition=condition, body=body, otherwise=otherwise):
            yield from condition.names()
            for inner in (*body, *otherwise):
                yield from uses(inner)
            yield from assigned((node,))


def assigned(nodes: Sequence[Node]) -> Iterator[str]:
    """The variables that statements of a branch give a value."""
    for node in nodes:
        if isinstance(node, Let | Assign | Check):
            yield node.name
        elif isinstance(node, If):
            yield from assigned((*node.body, *node.otherwise))


def _varying(body: Sequence[Node], varying: set[str]) -> set[str]:
    """All variables that hang on those of `varying`, or are assigned in a branch."""
    found, size = set(varying), -1
    while size != len(found):
        size = len(found)
        for node in body:
            match node:
                case If():
                    found.update(assigned((node,)))
                case ScanStep():
                    found.add(node.name)
                case Let(value=value) if value.op in _BY_LOOP:
                    found.add(node.name)
                case Let() | Assign() | Check():
                    if not found.isdisjoint(uses(node)):
                        found.add(node.name)
    return found


def split(body: Sequence[Node], varying: set[str]) -> tuple[list[Node], list[Node], list[Node]]:
    """The statements that give every lane of a row the same, which may run before its loop, the others, and the reports of
    the first that wait until after the loop: behind their atomic operations the compiler takes no value for the same."""
    found = _varying(body, varying)
    uniform: list[Node] = []
    rest: list[Node] = []
    reports: list[Node] = []
    for node in body:
        if not isinstance(node, Let | Assign | Check) or node.name in found:
            rest.append(node)
        elif isinstance(node, Check):
            uniform.append(Let(node.name, "const bool", node.condition))
            reports.append(Report(node.name, node.number))
        else:
            uniform.append(node)
    return uniform, rest, reports


@dataclass
class _Line:
    """One statement of a loop's body."""

    node: Node
    constant: bool  # it defines a typed constant: what a branch changes is none
    number: Hashable = None  # of the value or of the condition, the same in all loops

    def __post_init__(self) -> None:
        node = self.node
        self.gives = node.name if isinstance(node, Let | Assign | Check) else ""
        self.corrects, self.checks = isinstance(node, Assign), isinstance(node, Check)
        self.names = dict.fromkeys(uses(node))  # in their order
        if isinstance(node, Let) and not self.constant:
            self.names[node.name] = None

    @property
    def left_out(self) -> bool:
        """Whether it goes where nothing needs what it gives. Index variables stay in every loop."""
        return self.corrects or (self.constant and isinstance(self.node, Let) and self.node.ctype != INDEX)


def _parse(body: Sequence[Node]) -> list[_Line]:
    branches = set(assigned([node for node in body if isinstance(node, If)]))
    return [_Line(node, isinstance(node, Let) and node.name not in branches) for node in body]


def _key(value: Expr, numbers: dict[str, Hashable]) -> Hashable:
    """Equal for equal values in all loops."""
    if value.op == "name":
        return numbers.get(str(value.args[0]), value.args[0])
    return value.op, tuple(_key(a, numbers) if isinstance(a, Expr) else a for a in value.args)


def _number(bodies: Sequence[list[_Line]]) -> None:
    """Equal numbers for equal values in all loops."""
    numbers: dict[str, Hashable] = {}
    values: dict[Hashable, str] = {}
    for loop, body in enumerate(bodies):
        for at, x in enumerate(body):
            if isinstance(x.node, Store):
                numbers[x.node.pointer.text] = (loop, at)  # what is loaded from there later is another value
            if isinstance(x.node, Check):
                kind, value = "", x.node.condition
            elif isinstance(x.node, Let) and x.constant:
                kind, value = x.node.ctype, x.node.value
            else:
                continue
            x.number = values.setdefault((kind, _key(value, numbers)), f"value{len(values)}")
            if x.constant:
                numbers[x.gives] = x.number


@dataclass
class _Row:
    """Values that the loops so far have computed for each element of the row."""

    most: int  # how many values memory has room for
    kept: dict[Hashable, int] = field(default_factory=dict)  # number: which memory
    first: dict[Hashable, _Line] = field(default_factory=dict)  # number: the line that has the value
    checked: set[Hashable] = field(default_factory=set)

    def holds(self, line: _Line) -> bool:
        """Whether the value is in memory, or can be put there."""
        return line.number in self.kept or (line.number in self.first and len(self.kept) < self.most)


def _costly(body: list[_Line]) -> set[str]:
    """The float variables that take, or hang on, a function or a load from a loaded place."""
    found: set[str] = set()
    floats: set[str] = set()
    for x in body:
        if x.constant and isinstance(x.node, Let):
            op = x.node.value.op
            if op in COSTLY or op == GATHER or not found.isdisjoint(x.names):
                found.add(x.gives)
                floats |= {x.gives} if x.node.ctype == "float" else set()
    return floats - {x.gives for x in body if x.corrects}


def _needs(body: list[_Line], row: _Row) -> tuple[set[str], dict[str, int]]:
    """The variables that a loop needs, and those of them that are read from memory, with its number."""
    defined: dict[str, list[_Line]] = {}
    for x in body:
        if x.constant or x.corrects or x.checks:
            defined.setdefault(x.gives, []).append(x)
    costly = _costly(body)
    roots = [x for x in body if not (x.constant or x.corrects or (x.checks and x.number in row.checked))]
    todo = [n for x in roots for n in x.names]
    needed: set[str] = set()
    reads: dict[str, int] = {}
    while todo:
        n = todo.pop()
        if n in needed:
            continue
        needed.add(n)
        own = defined.get(n, [])
        if n in costly and row.holds(own[0]):
            reads[n] = row.kept.setdefault(own[0].number, len(row.kept))
        else:
            todo += [m for x in own for m in x.names]
    return needed, reads


def _left(body: list[_Line], row: _Row, index: Expr) -> tuple[set[str], list[tuple[_Line, Node]]]:
    """The variables that a loop needs where `row` is known, and its statements; `index` is the place in memory."""
    needed, reads = _needs(body, row)
    out: list[tuple[_Line, Node]] = []
    for x in body:
        known = x.left_out or (x.checks and x.number in row.checked)
        if known and x.gives not in needed:
            continue
        kept = x.constant and x.gives in reads
        out.append((x, Let(x.gives, "float", _element(reads[x.gives], index)) if kept else x.node))
    return needed, out


def _element(memory: int, index: Expr) -> Expr:
    return Expr(f"keep{memory}[{index.text}]", "kept", (memory, index), True)


def _put(memory: int, index: Expr, value: str) -> Node:
    return Assign(_element(memory, index).text, name(value))


def _memory(count: int, length: int) -> list[Node]:
    return [ir.Memory(f"kept{k}", f"keep{k}", "float", length) for k in range(count)]


def keep(bodies: Sequence[Sequence[Node]], length: int, index: str) -> tuple[list[Node], list[list[Node]]]:
    """Declarations of memory and the bodies of loops over one row, changed: values that a later loop computes again at
    some cost are stored by the first that does and read by the others, each lane its own. What only they needed goes,
    and so do the checks that an earlier loop has made."""
    parsed = [_parse(body) for body in bodies]
    _number(parsed)
    row, place = _Row(_MOST_KEPT if length <= _LONGEST_KEPT else 0), name(index)
    loops = []
    for body in parsed:
        needed, left = _left(body, row, place)
        loops.append(left)
        for x in body:
            if x.checks:
                row.checked.add(x.number)
            elif x.constant and x.gives in needed:
                row.first.setdefault(x.number, x)
    stored = {id(row.first[number]): k for number, k in row.kept.items()}
    changed: list[list[Node]] = []
    for left in loops:
        changed.append([])
        for x, node in left:
            changed[-1].append(node)
            if id(x) in stored:
                changed[-1].append(_put(stored[id(x)], place, x.gives))
    return _memory(len(row.kept), length), changed


def fixed(uniform: Sequence[Node], rows: set[str]) -> tuple[list[Node], list[Node]]:
    """The statements that are the same in all rows, and the others. `rows` are the names that say which row it is."""
    varying = _varying(uniform, rows)
    same: list[Node] = []
    others: list[Node] = []
    for node in uniform:
        (others if getattr(node, "name", None) in varying else same).append(node)
    return same, others


def columns(
    uniform: Sequence[Node], body: Sequence[Node], rows: set[str], length: int, index: Expr
) -> tuple[list[Node], list[Node], list[Node]]:
    """For a loop over rows and columns: declarations of memory, a loop over the columns to run first, and the body, which
    reads from memory what the columns have computed at some cost. `uniform` and `rows` as for fixed(); `index` is the
    column's place."""
    parsed = _parse(body)
    _number([parsed])
    written = {x.node.pointer.text for x in parsed if isinstance(x.node, Store)}
    corrected = {x.gives for x in parsed if x.corrects}  # by a check, which stays in the row
    varying = _varying([*uniform, *body], rows | written | corrected)
    own = [x for x in parsed if x.constant and x.gives not in varying]
    row = _Row(_MOST_KEPT, first={x.number: x for x in own})
    _, left = _left(parsed, row, index)
    needed = {row.first[number].gives for number in row.kept}
    for x in reversed(own):
        if x.gives in needed:
            needed.update(x.names)
    first = [x.node for x in own if x.gives in needed]
    first += [_put(k, index, row.first[number].gives) for number, k in row.kept.items()]
    return _memory(len(row.kept), length), first, [node for _, node in left]
