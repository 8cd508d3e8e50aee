"""Statements of a loop's body that need not run for every element: what is the same in a whole row is taken out of the
loop, and what an earlier loop over the row computed at some cost is kept in memory of the work-group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch.utils._ordered_set import OrderedSet

_NAME = re.compile(r"@?[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"(?:(?:const )?(?P<type>\w+) )?(?P<name>[A-Za-z_]\w*) = (?P<value>.*);")
_CHECK = re.compile(r"const bool (\w+) = check\((.*), error, (\w+)\);")
_STORE = re.compile(r"\bst\((\w+),")
_ASSIGNED = re.compile(r"\b(\w+) = ")
_GATHER = re.compile(r"\bld\(\w+, .*(\btmp\d|[/%])")  # no neighbours in memory: the place was loaded, or divided
_COSTLY = re.compile(r"::(exp|log|tanh|erf|pow|sin|cos|sigmoid|lgamma|erfinv|sqrt)\w*\(| / static_cast<float>")
_INDEX = "long"  # index variables, which operands that are written last (`@step0@`) use as well
_MOST_KEPT = 3  # rows that fit beside the operands in the first cache
_LONGEST_KEPT = 2048


def _statements(body: IndentedBuffer) -> Iterator[tuple[str | None, re.Match[str] | None, bool]]:
    """For each line its text (None: a store), the assignment that it is, and whether it stands in a branch."""
    depth = 0
    for line in body._lines:
        if not isinstance(line, str):
            yield None, None, depth > 0
            continue
        text = line.strip()
        inside = depth > 0
        depth += text.count("{") - text.count("}")
        yield text, _ASSIGNMENT.fullmatch(text), inside


def _names(text: str) -> OrderedSet[str]:
    return OrderedSet(_NAME.findall(text))


def _varying(body: IndentedBuffer, varying: set[str]) -> set[str]:
    """All variables that hang on those of `varying`, or are assigned in a branch."""
    found, size = set(varying), -1
    while size != len(found):
        size = len(found)
        for text, match, inside in _statements(body):
            if text is None or match is None:
                continue
            value = match["value"]
            if inside or "@" in value or not found.isdisjoint(_names(value)):
                found.add(match["name"])
    return found


def split(body: IndentedBuffer, varying: set[str]) -> tuple[list[str], IndentedBuffer, list[str]]:
    """The statements that give every lane of a row the same, which may run before its loop, the others, and the reports of
    the first that wait until after the loop: behind their atomic operations the compiler takes no value for the same."""
    found = _varying(body, varying)
    uniform, rest, reports = [], IndentedBuffer(), []
    for line, (text, match, inside) in zip(body._lines, list(_statements(body)), strict=True):
        if text is None or match is None or inside or match["name"] in found:
            rest._lines.append(line)
        elif check := _CHECK.fullmatch(text):
            ok, condition, number = check.groups()
            uniform.append(f"const bool {ok} = {condition};")
            reports.append(f"check({ok}, error, {number});")
        else:
            uniform.append(text)
    return uniform, rest, reports


@dataclass
class _Line:
    """One line of a loop's body: what it defines and uses."""

    line: Any
    text: str
    names: OrderedSet[str]  # on its right side, or anywhere where it assigns nothing
    defines: str | None = None  # a typed constant outside of branches
    again: str | None = None  # a variable that is corrected
    check: str | None = None  # the variable that a check defines
    kind: str = ""  # the type of `defines`
    number: str = ""  # of the value or of the condition, the same in all loops


def _parse(body: IndentedBuffer) -> list[_Line]:
    out = []
    for line, (text, match, inside) in zip(body._lines, list(_statements(body)), strict=True):
        if text is None or match is None or inside:
            text = text if text is not None else getattr(line, "line", "")
            out.append(_Line(line, text, _names(text)))
            continue
        parsed = _Line(line, text, _names(match["value"]))
        if check := _CHECK.fullmatch(text):
            parsed.check = check[1]
        elif match["type"] is None:
            parsed.again = match["name"]
        else:
            parsed.defines, parsed.kind = match["name"], match["type"]
        out.append(parsed)
    branches = OrderedSet(
        m[1] for x in out if not (x.defines or x.again or x.check) for m in _ASSIGNED.finditer(x.text)
    )
    for x in out:  # what a branch changes is no constant
        if x.defines in branches:
            x.names.add(x.defines or "")
            x.defines = None
    return out


def _number(bodies: Sequence[list[_Line]]) -> None:
    """Equal numbers for equal values in all loops."""
    numbers: dict[str, str] = {}
    values: dict[str, str] = {}
    for loop, body in enumerate(bodies):
        for at, x in enumerate(body):
            if isinstance(x.line, DeferredLine) and (stored := _STORE.search(x.text)):
                numbers[stored[1]] = f"{stored[1]}_{loop}_{at}"  # what is loaded from there later is another value
            if x.defines is None and x.check is None:
                continue
            value = x.text.split(" = ", 1)[1] if x.defines else _CHECK.fullmatch(x.text)[2]  # type: ignore[index]
            value = _NAME.sub(lambda m: numbers.get(m[0], m[0]), value)
            x.number = values.setdefault(f"{x.kind} {value}", f"value{len(values)}")
            if x.defines is not None:
                numbers[x.defines] = x.number


@dataclass
class _Row:
    """Values that the loops so far have computed for each element of the row."""

    most: int  # how many values memory has room for
    kept: dict[str, int] = field(default_factory=dict)  # number: which memory
    first: dict[str, _Line] = field(default_factory=dict)  # number: the line that has the value
    checked: OrderedSet[str] = field(default_factory=OrderedSet)

    def holds(self, line: _Line) -> bool:
        """Whether the value is in memory, or can be put there."""
        return line.number in self.kept or (line.number in self.first and len(self.kept) < self.most)


def _costly(body: list[_Line]) -> OrderedSet[str]:
    """The float variables that take, or hang on, a function or a load from a loaded place."""
    found: OrderedSet[str] = OrderedSet()
    for x in body:
        if x.defines and (_COSTLY.search(x.text) or _GATHER.search(x.text) or not found.isdisjoint(x.names)):
            found.add(x.defines)
    corrected = OrderedSet(x.again for x in body)
    return OrderedSet(
        x.defines for x in body if x.kind == "float" and x.defines in found and x.defines not in corrected
    )


def _needs(body: list[_Line], row: _Row) -> tuple[OrderedSet[str], dict[str, int]]:
    """The variables that a loop needs, and those of them that are read from memory, with its number."""
    defined: dict[str, list[_Line]] = {}
    for x in body:
        for name in filter(None, (x.defines, x.again, x.check)):
            defined.setdefault(name, []).append(x)
    costly = _costly(body)
    roots = (x for x in body if not (x.defines or x.again or (x.check and x.number in row.checked)))
    todo = [name for x in roots for name in x.names]
    needed: OrderedSet[str] = OrderedSet()
    reads: dict[str, int] = {}
    while todo:
        name = todo.pop()
        if name in needed:
            continue
        needed.add(name)
        own = defined.get(name, [])
        if name in costly and row.holds(own[0]):
            reads[name] = row.kept.setdefault(own[0].number, len(row.kept))
        else:
            todo += [n for x in own for n in x.names]
    return needed, reads


def _left(body: list[_Line], row: _Row, memory: str) -> tuple[OrderedSet[str], list[tuple[_Line, Any]]]:
    """The variables that a loop needs where `row` is known, and its lines with their text; `memory` reads a value."""
    needed, reads = _needs(body, row)
    lines: list[tuple[_Line, Any]] = []
    for x in body:
        if x.check and x.number in row.checked and x.check not in needed:
            continue
        if (x.defines or x.again) and (x.defines or x.again) not in needed and x.kind != _INDEX:
            continue
        read = reads.get(x.defines or "")
        lines.append((x, x.line if read is None else f"float {x.defines} = {memory.format(read)};"))
    return needed, lines


def _buffer(texts: Iterable[Any]) -> IndentedBuffer:
    new = IndentedBuffer()
    new._lines.extend(texts)
    return new


def _memory(count: int, length: int) -> list[str]:
    return [
        f"syclexp::work_group_static<float[{length}]> kept{k}; float* const keep{k} = kept{k};" for k in range(count)
    ]


def keep(bodies: Sequence[IndentedBuffer], length: int) -> tuple[list[str], list[IndentedBuffer]]:
    """Declarations of memory and the bodies of loops over one row, changed: values that a later loop computes again at
    some cost are stored by the first that does and read by the others, each lane its own. What only they needed goes,
    and so do the checks that an earlier loop has made."""
    parsed = [_parse(body) for body in bodies]
    _number(parsed)
    row = _Row(_MOST_KEPT if length <= _LONGEST_KEPT else 0)
    loops = []
    for body in parsed:
        needed, lines = _left(body, row, "keep{}[rc]")
        loops.append(lines)
        for x in body:
            if x.check:
                row.checked.add(x.number)
            elif x.defines in needed:
                row.first.setdefault(x.number, x)
    stored = {id(row.first[number]): k for number, k in row.kept.items()}
    changed = []
    for lines in loops:
        put = ([f"keep{stored[id(x)]}[rc] = {x.defines};"] if id(x) in stored else [] for x, _ in lines)
        changed.append(_buffer(t for (_, text), more in zip(lines, put, strict=True) for t in (text, *more)))
    return _memory(len(row.kept), length), changed


def fixed(uniform: Sequence[str], rows: set[str]) -> tuple[list[str], list[str]]:
    """The statements that are the same in all rows, and the others. `rows` are the names that say which row it is."""
    varying = _varying(_buffer(uniform), rows)
    same: list[str] = []
    others: list[str] = []
    for text in uniform:
        match = _ASSIGNMENT.fullmatch(text)
        (same if match and match["name"] not in varying else others).append(text)
    return same, others


def columns(
    uniform: Sequence[str], body: IndentedBuffer, rows: set[str], length: int, base: str
) -> tuple[list[str], IndentedBuffer, IndentedBuffer]:
    """For a loop over rows and columns: declarations of memory, a loop over the columns to run first, and the body, which
    reads from memory what the columns have computed at some cost. `uniform` and `rows` as for fixed(); columns begin at
    `base`."""
    parsed = _parse(body)
    _number([parsed])
    written = {m[1] for x in parsed if isinstance(x.line, DeferredLine) and (m := _STORE.search(x.text))}
    corrected = {x.again for x in parsed if x.again}  # by a check, which stays in the row
    varying = _varying(_buffer([*uniform, *body._lines]), rows | written | corrected)
    own = [x for x in parsed if x.defines and x.defines not in varying]
    row = _Row(_MOST_KEPT, first={x.number: x for x in own})
    _, lines = _left(parsed, row, f"keep{{}}[xc - {base}]")
    needed = OrderedSet(row.first[number].defines for number in row.kept)
    for x in reversed(own):
        if x.defines in needed:
            needed.update(x.names)
    texts = [x.line for x in own if x.defines in needed]
    texts += [f"keep{k}[xc - {base}] = {row.first[number].defines};" for number, k in row.kept.items()]
    return _memory(len(row.kept), length), _buffer(texts), _buffer(text for _, text in lines)
