"""The C++ of kernels that are made at run time: the argument struct, the head, statements and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xpu_ops.block import ir
from xpu_ops.block.parameters import Field
from xpu_ops.block.types import LANES


def struct(name: str, fields: Sequence[Field], before: Sequence[str] = ()) -> list[str]:
    """The argument struct of a kernel; `before` are members in front of the fields."""
    return [f"struct {name}_args {{", *(f"  {b}" for b in before), *(f"  {f.declaration}" for f in fields), "};"]


def head(name: str, lanes: int | None = LANES, mark: str = "") -> str:
    """The first line of a kernel: of sub-groups of `lanes` items, or of items that exchange nothing."""
    attribute = "XPU_KERNEL(1)" if lanes is None else f"XPU_KERNEL_SG(1, {lanes})"
    return f"{attribute} {mark}{name}({name}_args p) {{"


def kernel(
    name: str,
    fields: Sequence[Field],
    body: Iterable[str],
    *,
    lanes: int | None = LANES,
    before: Sequence[str] = (),
    mark: str = "",
) -> str:
    """The argument struct and the kernel around `body`, which reads the fields as p.NAME."""
    lines = [*struct(name, fields, before), head(name, lanes, mark), *(f"  {line}" for line in body), "}", ""]
    return "\n".join(lines)


def preface(preamble: str, type: str) -> str:
    """In front of the user's expressions: T is the type that they are computed in."""
    return f"using namespace xpu::gen;\n{preamble}\nusing T = {type};\n"


def function(result: str, name: str, parameters: str, expression: str, convert: str = "static_cast") -> str:
    """A function around an expression of the user, whose lines count from 1."""
    return f"GEN_FN {result} {name}({parameters}) {{\n  return {convert}<{result}>(\n#line 1\n{expression}\n  );\n}}\n"


def functor(name: str, type: str, expression: str) -> str:
    """A type whose call joins two partial results a and b by an expression of the user."""
    call = function(type, "operator()", f"{type} a, {type} b", expression).replace(") {", ") const {", 1)
    return f"struct {name} {{\n{call}}};\n"


# ---- statements and loops


def _loop(node: ir.Lanes, kernel: ir.Kernel) -> list[str]:
    """The lanes of a sub-group, or the items of a work-group, side by side in memory."""
    begin, end = node.begin.text, node.end.text
    slot = ", auto slot" if node.ways else ""
    function = f"[&](long {node.column}{slot}) GEN_INLINE {{"
    if kernel.items > LANES and kernel.together:
        call = f"{'team_ways' if node.ways else 'team'}<{kernel.items}>({begin}, {end}, item, {function}"
    else:
        call = f"lanes_by4({end}, lane, {function}" if node.ways else f"lanes({begin}, {end}, lane, {function}"
    way = ["constexpr int j = decltype(slot)::value; (void)j;"] if node.ways else []
    return [call, *_indented([*way, *lines(node.body, kernel)]), "});"]


def _rows(node: ir.Rows, kernel: ir.Kernel) -> list[str]:
    begin, step = node.begin.text, f"++{node.row}"
    if node.apart:
        begin, step = f"{begin} + part_of_group", f"{node.row} += {kernel.items // LANES}"
    head = f"for (long {node.row} = {begin}; {node.row} < {node.end.text}; {step}) {{"
    return [head, *_indented(lines(node.body, kernel)), "}"]


def _store(node: ir.Store, kernel: ir.Kernel) -> list[str]:
    """One lane's result is stored by all of them on a CPU device, where the store of one lane is a scatter for which the next
    row's loads wait; by the first item of those that share it on a GPU."""
    place = f"{node.pointer.text}, {node.at.text}, {node.value.text}"
    if not node.first:
        return [f"st({place});"]
    if kernel.items == LANES:
        return [f"st_first({place});"]
    return [f"if ({'leader' if kernel.together else 'first'}) st({place});"]


def _joined(node: ir.Joined, kernel: ir.Kernel) -> list[str]:
    inside = f"join<{node.op}>({node.accumulator})"
    if kernel.items > LANES and kernel.together:
        return [f"const {node.ctype} {node.name} = across_team<{node.op}, {kernel.items}>({inside});"]
    return [f"const {node.ctype} {node.name} = across<{node.op}>({inside});"]


def _let(node: ir.Let, kernel: ir.Kernel) -> list[str]:
    if node.ctype == "long":
        return [f"const long {node.name} = {node.value.text};"]
    value = f"static_cast<{node.ctype}>({node.value.text})" if node.cast else node.value.text
    return [f"{node.ctype} {node.name} = {value};"]


def _accumulator(node: ir.Accumulator, kernel: ir.Kernel) -> list[str]:
    first = f"{node.ctype} {node.name}[ACC]; for (int i = 0; i < ACC; ++i) "
    return [f"{first}{node.name}[i] = {node.ctype}{{{node.initial}}};"]


def _either(node: ir.Either, kernel: ir.Kernel) -> list[str]:
    sides = (_indented(lines(side, kernel)) for side in (node.then, node.otherwise))
    return [f"if ({node.condition.text}) {{", *next(sides), "} else {", *next(sides), "}"]


_WRITERS: dict[type, Callable[[Any, ir.Kernel], list[str]]] = {
    ir.Let: _let,
    ir.Span: lambda n, k: [f"const Span s = part({n.count.text}, {n.each.text});"],
    ir.Store: _store,
    ir.Accumulator: _accumulator,
    ir.Accumulate: lambda n, k: [f"{n.accumulator}[j] = {n.op}{{}}({n.accumulator}[j], {n.element.text});"],
    ir.Joined: _joined,
    ir.Rows: _rows,
    ir.Lanes: _loop,
    ir.Either: _either,
}


def _indented(text: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in text)


def lines(nodes: Iterable[ir.Node], kernel: ir.Kernel) -> list[str]:
    """The statements of a kernel."""
    return [line for node in nodes for line in _WRITERS[type(node)](node, kernel)]


def places(items: int) -> list[str]:
    """Where an item is: in its sub-group, in a GPU's work-group of several."""
    if items == LANES:
        return ["const long lane = xpu_local_id(0);", "const bool first = xpu::is_first_lane();"]
    return [
        "const long item = xpu_local_id(0), lane = xpu::sub_group_lane(), part_of_group = xpu::sub_group_number();",
        "const bool first = xpu::is_first_lane(), leader = first && part_of_group == 0;",
        "(void)item, (void)leader;",
    ]


def source(k: ir.Kernel) -> str:
    """The text of a kernel, after what stands in front of it."""
    ways = 1 if k.items > LANES and k.together else 4
    head = [*places(k.items), f"constexpr int ACC = {ways};", "(void)lane, (void)first, (void)ACC;"]
    return k.before + kernel(k.name, k.fields, [*head, *lines(k.body, k)])
