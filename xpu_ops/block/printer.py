"""The C++ of kernels that are made at run time: the argument struct, the head, statements and loops."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xpu_ops.block import ir
from xpu_ops.block.parameters import REPORTS, Field, values
from xpu_ops.block.types import LANES


def kernel(
    name: str,
    fields: Sequence[Field],
    body: Iterable[str],
    *,
    lanes: int | None = LANES,
    before: Sequence[str] = (),
    inlined: bool = False,
) -> str:
    """The argument struct and the kernel around `body`, which reads the fields as p.NAME. Sub-groups have `lanes` items, or the
    items exchange nothing; `before` are members in front of the fields."""
    attribute = "XPU_KERNEL(1)" if lanes is None else f"XPU_KERNEL_SG(1, {lanes})"
    lines = [
        *(f"struct {name}_args {{", *_indented([*before, *(f.declaration for f in fields)]), "};"),
        *(f"{attribute} {'GEN_INLINE ' if inlined else ''}{name}({name}_args p) {{", *_indented(body), "}", ""),
    ]
    return "\n".join(lines)


def opening(header: str = "", names: str = "xpu::gen") -> str:
    """In front of a source: one header beside those that the compiler knows, and the names that it uses."""
    return (f'#include "kernels/sycl/{header}"\n' if header else "") + f"using namespace {names};\n"


def call(function: str, arguments: Iterable[str]) -> str:
    """A call as a statement."""
    return f"{function}({', '.join(arguments)});"


def member(name: str, type: str, size: int) -> list[str]:
    """A struct in the argument struct, of as many bytes as its caller writes."""
    return [f"static_assert(sizeof({type}) == {size});", f"{type} {name};"]


def carried(name: str, fields: Sequence[tuple[str, str]]) -> list[str]:
    """A struct of values that a scan carries, by type and name, and the same values of another lane."""
    others = ", ".join(f"other_lane({field}, m)" for _, field in fields)
    other = f"GEN_FN {name} other(uint32_t m) const {{ return {{{others}}}; }}"
    return [f"struct {name} {{", *(f"{ctype} {field};" for ctype, field in fields), other, "};"]


# A kernel for which the compiler reads its prelude ahead.
WARM_UP = "XPU_KERNEL(1) xpu_ops_warm_up(int* p) { p[0] = 0; }\n"


def preface(preamble: str, type: str) -> str:
    """In front of the user's expressions: T is the type that they are computed in."""
    return f"{opening()}{preamble}\nusing T = {type};\n"


def function(head: str, result: str, expression: str, convert: str = "static_cast") -> str:
    """A function around an expression of the user, whose lines count from 1. `head`: its name, its parameters and what follows."""
    return f"GEN_FN {result} {head} {{\n  return {convert}<{result}>(\n#line 1\n{expression}\n  );\n}}\n"


def functor(name: str, type: str, expression: str) -> str:
    """A type whose call joins two partial results a and b by an expression of the user."""
    return f"struct {name} {{\n{function(f'operator()({type} a, {type} b) const', type, expression)}}};\n"


# ---- statements and loops


def _loop(node: ir.Lanes, kernel: ir.Kernel) -> list[str]:
    """The lanes of a sub-group, or the items of a work-group, side by side in memory."""
    begin, end = node.begin.text, node.end.text
    slot = ", auto slot" if node.ways else ""
    function = f"[&](long {node.column}{', bool in' if node.in_order else ''}{slot}) GEN_INLINE {{"
    if node.in_order:
        call = f"lanes_in_order({end}, lane, {function}"
    elif kernel.items > LANES and kernel.together:
        call = f"{'team_by4' if node.ways else 'team'}<{kernel.items}>({begin}, {end}, item, {function}"
    else:
        call = f"lanes_by4({end}, lane, {function}" if node.ways else f"lanes({begin}, {end}, lane, {function}"
    way = [_WAY] if node.ways else []
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
    to, at = _place(node.pointer.text, node.at.text, True, kernel)
    place = f"{to}, {at}, {node.value.text}"
    if node.first and not node.when and kernel.items == LANES:
        return [f"st_first({place});"]
    one = ["leader" if kernel.items > LANES and kernel.together else "first"] if node.first else []
    return [f"{_when((*one, *node.when))}st({place});"]


def _when(conditions: Sequence[str]) -> str:
    return f"if ({' && '.join(conditions)}) " if conditions else ""


def _place(pointer: str, at: str, stored: bool, kernel: ir.Kernel) -> tuple[str, str]:
    """In memory, or in the block's copy."""
    copy = kernel.copies.get((pointer, at, stored))
    return (pointer, at) if copy is None else (f"{copy[0]} + (xn - n0) * {copy[1]} - c0", "xc")


def _text(value: ir.Expr, kernel: ir.Kernel) -> str:
    """The C++ of a value, some of which hang on the loop."""
    if value.op == "step":
        pointer, at = (a for a in value.args if isinstance(a, ir.Expr))
        return f"ld({', '.join(_place(pointer.text, at.text, False, kernel))})"
    if value.op == "result":
        accumulator, op, field = map(str, value.args)
        return _result(accumulator, op, field, kernel)
    return value.text


def _result(accumulator: str, op: str, field: str, kernel: ir.Kernel) -> str:
    if kernel.slots:
        return f"{accumulator}[j]{field}"
    joined = f"join<{op}>({accumulator})"
    if kernel.across and kernel.items > LANES and kernel.together:
        joined = f"across_team<{op}, {kernel.items}>({joined})"
    elif kernel.across:
        joined = f"across<{op}>({joined})"
    return joined + field


def _let(node: ir.Let, kernel: ir.Kernel) -> list[str]:
    if node.ctype == "long":
        return [f"const long {node.name} = {node.value.text};"]
    value = _text(node.value, kernel)
    return [f"{node.ctype} {node.name} = {f'static_cast<{node.ctype}>({value})' if node.cast else value};"]


def _accumulator(node: ir.Accumulator, kernel: ir.Kernel) -> list[str]:
    text = f"{node.ctype} {node.name}[ACC];"
    first = f" for (int i = 0; i < ACC; ++i) {node.name}[i] = {node.ctype}{{{node.initial}}};" if node.initial else ""
    return [text + first]


def _if(node: ir.If, kernel: ir.Kernel) -> list[str]:
    then, otherwise = (_indented(lines(side, kernel)) for side in (node.body, node.otherwise))
    return [f"if ({node.condition.text}) {{", *then, *(["} else {", *otherwise] if node.otherwise else []), "}"]


def _accumulate(node: ir.Accumulate, kernel: ir.Kernel) -> list[str]:
    a, element = f"{node.accumulator}[j]", node.element.text
    text = f"add_sample({a}, {element});" if node.op == "add_sample" else f"{a} = {node.op}{{}}({a}, {element});"
    return [f"{_when(node.when)}{text}"]


def _scan(node: ir.ScanStep, kernel: ir.Kernel) -> list[str]:
    step, lane = ("scan_lanes", "lane, ") if kernel.across else ("scan_next", "")
    carried = f"{node.carried}[{'j' if kernel.slots else '0'}]"
    return [f"const auto {node.name} = {step}({carried}, {node.element.text}, {lane}{node.function});"]


def _function(node: ir.Function, kernel: ir.Kernel) -> list[str]:
    inlined = " GEN_INLINE" if node.inlined else ""
    head = f"const auto {node.name} = [&]({', '.join(node.parameters)}){inlined} {{"
    return [head, *_indented([*lines(node.body, kernel), f"return {node.result.text};"]), "};"]


def _steps(node: ir.Steps, kernel: ir.Kernel) -> list[str]:
    head = f"steps_by2({node.end.text}, [&](long {node.index}, auto slot) GEN_INLINE {{"
    return [head, *_indented([_WAY, *lines(node.body, kernel)]), "});"]


def _columns(node: ir.Columns, kernel: ir.Kernel) -> list[str]:
    """One loop over the rows in which several vectors of columns go side by side."""
    each = "each([&](long xc, auto slot) GEN_INLINE {"
    inside = [
        *lines(node.before, kernel),
        f"for (long {node.row} = 0; {node.row} < {node.rows.text}; ++{node.row})",
        *_indented([each, *_indented([_WAY, *lines(node.body, kernel)]), "});"]),
        *[each, *_indented([_WAY, *lines(node.after, kernel)]), "});"],
    ]
    head = f"columns_by4({node.begin.text}, {node.end.text}, lane, [&](auto count, auto each) GEN_INLINE {{"
    return [head, *_indented(inside), "});"]


def _block(node: ir.Block, kernel: ir.Kernel) -> list[str]:
    place = "long xc, long xn"
    head = f"{node.function}<{', '.join(map(str, node.constants))}>({', '.join((node.copy, *node.ranges))}, lane, "
    result = f" -> {node.result}" if node.result else ""
    inside = [*lines(node.definitions, kernel), f"return {node.pointer}[{node.at.text}];"]
    return [f"{head}[&]({place}) GEN_INLINE{result} {{", *_indented(inside), "});"]


def _memory(node: ir.Memory, kernel: ir.Kernel) -> list[str]:
    declared = f"syclexp::work_group_static<{node.ctype}[{node.count}]> {node.name};"
    return [f"{declared} {node.ctype}* const {node.pointer} = {node.name};"]


# ---- programs of blocks


def _parts(kernel: ir.Kernel) -> int:
    return kernel.items // LANES


def _start(step: int, shared: bool, kernel: ir.Kernel) -> tuple[str, int]:
    """The first step of a sub-group, and how far its next one is: those of a work-group go by turns."""
    return (f"part * {step}", step * _parts(kernel)) if shared and _parts(kernel) > 1 else ("0", step)


def _count(node: ir.Count, kernel: ir.Kernel) -> list[str]:
    begin, step = _start(node.step, node.shared, kernel)
    on = f"++{node.index}" if step == 1 else f"{node.index} += {step}"
    head = f"for (size_t {node.index} = {begin}; {node.index} < {node.end}; {on}) {{"
    return [*(["#pragma unroll"] if node.unroll else []), head, *_indented(lines(node.body, kernel)), "}"]


def _vectors(node: ir.Vectors, kernel: ir.Kernel) -> list[str]:
    also = "" if node.condition is ir.TRUE else f" && {node.condition.text}"
    _, step = _start(node.step, node.shared, kernel)
    head = f"for (; {node.index} < {node.end}{also}; {node.index} += {step}) {{"
    return [head, *_indented(lines(node.body, kernel)), "}"]


def _range(node: ir.Range, kernel: ir.Kernel) -> list[str]:
    """The counter wraps, as the user's integers do."""
    i, end = node.index, node.end.text
    below = f"uint64_t({i}) < uint64_t({end})" if node.unsigned else f"{i} < {end}"
    on = f"{i} = tri::add<{node.ctype}>({i}, {node.step.text})"
    head = f"for ({node.ctype} {i} = {node.begin.text}; {below}; {on}) {{"
    return [head, *_indented(lines(node.body, kernel)), "}"]


def _put(node: ir.Put, kernel: ir.Kernel) -> list[str]:
    """One value is stored by all lanes on a CPU device, as in _store: they know already that it is the same."""
    one = {"": [], "sub_group": ["item == 0"], "program": [_one(kernel)]}[node.by]
    conditions = [*(one if _parts(kernel) > 1 else []), *([] if node.when is ir.TRUE else [node.when.text])]
    return [f"{_when(conditions)}{node.place.text} = {node.value.text};"]


def _one(kernel: ir.Kernel) -> str:
    return "item == 0" if _parts(kernel) == 1 else "item == 0 && part == 0"


def _variable(node: ir.Variable, kernel: ir.Kernel) -> list[str]:
    count = f"[{node.count}]" if node.count else ""
    first = "" if node.initial is None else f"{{{', '.join(v.text for v in node.initial)}}}"
    return [f"{node.ctype} {node.name}{count}{first};"]


def _scope(node: ir.Scope, kernel: ir.Kernel) -> list[str]:
    return [
        "do {" if node.once else "{",
        *_indented(lines(node.body, kernel)),
        "} while (false);" if node.once else "}",
    ]


def _text_name(node: ir.Print) -> str:
    return f"text_{hashlib.sha256(node.text.encode()).hexdigest()[:12]}"


def _print(node: ir.Print, kernel: ir.Kernel) -> list[str]:
    return [f"__spirv_ocl_printf({', '.join([_text_name(node), *(v.text for v in node.values)])});"]


def text_of(node: ir.Print) -> str:
    """The constant in front of a kernel that prints it."""
    return f'const __attribute__((opencl_constant)) char {_text_name(node)}[] = "{node.text}\\n";\n'


def _program(k: ir.Kernel) -> list[str]:
    """Where an item of a program is, which program it is, the memory of its arrays."""
    several = _parts(k) > 1
    return [
        "#pragma clang fp contract(fast)",
        f"const size_t lane = {'xpu::sub_group_lane()' if several else 'xpu_local_id(0)'}, item = xpu::sub_group_lane();",
        *(["const size_t part = xpu::sub_group_number();"] if several else []),
        "const int64_t group = int64_t(__spirv_BuiltInWorkgroupId(0));",
        "(void)lane, (void)item;",
        *([f"syclexp::work_group_static<tri::Pool<{k.local}>> memory;"] if k.local else []),
        f"char* const pool = {'reinterpret_cast<char*>(&memory)' if k.local else 'nullptr'};",
        "(void)pool;",
        *(["xpu::DeviceError* const error = p.error;"] if any(f.name == REPORTS for f in k.fields) else []),
        "const int32_t pid0 = int32_t(group % p.grid0), pid1 = int32_t(group / p.grid0 % p.grid1);",
        "const int32_t pid2 = int32_t(group / p.grid0 / p.grid1);",
        "(void)pid0, (void)pid1, (void)pid2;",
    ]


_WAY = "constexpr int j = decltype(slot)::value; (void)j;"
_WRITERS: dict[type, Callable[[Any, ir.Kernel], list[str]]] = {
    ir.Let: _let,
    ir.Span: lambda n, k: [f"const Span s = part({n.count.text}, {n.each.text});"],
    ir.Assign: lambda n, k: [f"{n.name} = {n.value.text};"],
    ir.Check: lambda n, k: [f"const bool {n.name} = check({n.condition.text}, error, text{n.number});"],
    ir.Report: lambda n, k: [f"check({n.name}, error, text{n.number});"],
    ir.Leave: lambda n, k: [f"if (!{n.unless}) return;"],
    ir.If: _if,
    ir.Store: _store,
    ir.Accumulator: _accumulator,
    ir.Accumulate: _accumulate,
    ir.Function: _function,
    ir.ScanStep: _scan,
    ir.Memory: _memory,
    ir.Steps: _steps,
    ir.Columns: _columns,
    ir.Block: _block,
    ir.Rows: _rows,
    ir.Lanes: _loop,
    ir.Variable: _variable,
    ir.Put: _put,
    ir.Do: lambda n, k: [f"{n.call.text};"],
    ir.Sync: lambda n, k: ["tri::sync();" if _parts(k) == 1 else "tri::sync_parts();"],
    ir.One: lambda n, k: [f"if ({_one(k)}) {{", *_indented(lines(n.body, k)), "}"],
    ir.Scope: _scope,
    ir.Jump: lambda n, k: [f"{n.word};"],
    ir.Count: _count,
    ir.Vectors: _vectors,
    ir.Range: _range,
    ir.While: lambda n, k: [f"while ({n.condition.text}) {{", *_indented(lines(n.body, k)), "}"],
    ir.Print: _print,
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


def source(k: ir.Kernel, named: bool = False) -> str:
    """The text of a kernel, after what stands in front of it. `named`: the body knows its parameters by their names."""
    begin = _program(k) if k.program else [*(values(k.fields) if named else ()), *places(k.items)]
    return k.before + kernel(k.name, k.fields, [*begin, *lines(k.body, k)])
