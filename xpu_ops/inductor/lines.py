"""Statements of a loop's body that need not run for every element: what is the same in a whole row is taken out of the
loop, and what an earlier loop over the row computed at some cost is kept in memory of the work-group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch.utils._ordered_set import OrderedSet

_NAME = re.compile(r"@?[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"(?:(?:const )?(?P<type>\w+) )?(?P<name>[A-Za-z_]\w*) = (?P<value>.*);")
_CHECK = re.compile(r"const bool (\w+) = check\((.*), error, (\w+)\);")
_STORE = re.compile(r"\bst\((\w+),")
_COSTLY = re.compile(r"::(exp|log|tanh|erf|pow|sin|cos|sigmoid|lgamma|erfinv)\w*\(")
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


def keep(bodies: Sequence[IndentedBuffer], length: int) -> tuple[list[str], list[IndentedBuffer]]:
    """Declarations of memory and the bodies of loops over one row, changed: costly values that a later loop computes
    again are stored by the first that does and read by the others, each lane its own."""
    if length > _LONGEST_KEPT:
        return [], list(bodies)
    numbers: dict[str, str] = {}  # variable: the name of its value, the same in all loops
    values: dict[str, str] = {}
    where: dict[str, list[tuple[int, int]]] = {}  # value: loop and line of each computation
    for loop, body in enumerate(bodies):
        for at, (line, (text, match, inside)) in enumerate(zip(body._lines, list(_statements(body)), strict=True)):
            stored = _STORE.search(line.line) if isinstance(line, DeferredLine) else None
            if stored:  # what is loaded from there later is another value
                numbers[stored[1]] = f"{stored[1]}_{loop}_{at}"
            if text is None or match is None or inside or match["type"] is None or "check(" in text:
                continue
            value = _NAME.sub(lambda m: numbers.get(m[0], m[0]), match["value"])
            number = values.setdefault(f"{match['type']} {value}", f"value{len(values)}")
            numbers[match["name"]] = number
            if _COSTLY.search(match["value"]) and match["type"] == "float":
                where.setdefault(number, []).append((loop, at))
    kept = [w for w in where.values() if w[0][0] != w[-1][0]][:_MOST_KEPT]
    changes: dict[tuple[int, int], list[str]] = {}
    for k, places in enumerate(kept):
        for n, (loop, at) in enumerate(places):
            text = str(bodies[loop]._lines[at]).strip()
            match = _ASSIGNMENT.fullmatch(text)
            assert match is not None
            if n == 0:
                changes[loop, at] = [text, f"keep{k}[rc] = {match['name']};"]
            elif loop != places[0][0]:
                changes[loop, at] = [f"float {match['name']} = keep{k}[rc];"]
    changed = []
    for loop, body in enumerate(bodies):
        new = IndentedBuffer()
        for at, line in enumerate(body._lines):
            new._lines.extend(changes.get((loop, at), [line]))
        changed.append(new)
    declarations = [
        f"syclexp::work_group_static<float[{length}]> kept{k}; float* const keep{k} = kept{k};"
        for k in range(len(kept))
    ]
    return declarations, changed
