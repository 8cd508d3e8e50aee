"""Elementwise operations, loads and stores of one shape are collected and become one loop over the block."""

from __future__ import annotations

from dataclasses import dataclass, field

from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import again, element, regions
from xpu_ops.triton.lower.element import Element, Index
from xpu_ops.triton.lower.nest import Nest
from xpu_ops.triton.lower.scalar import CHEAP, expression
from xpu_ops.triton.lower.state import Shape, State, Value
from xpu_ops.triton.lower.types import SMALL_FLOATS, cpp
from xpu_ops.triton.ttir import Op, Ty

WRITES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert")
Keep = tuple[str, str, str]  # value, array, element type of the array


# ---- collecting


def add(k: State, op: Op, shape: Shape) -> None:
    """Put an operation into the pending loop of its shape."""
    for o in op.operands:
        v = k.values[o]
        if v.kind == "pending" and v.ty.shape != shape:
            flush(k, v.ty.shape or ())
    k.pending.setdefault(shape, []).append(op)
    for r, t in zip(op.results, op.types, strict=True):
        k.values[r] = Value(t, "pending", op=op)


def visit_elementwise(k: State, op: Op) -> None:
    """An operation of ELEMENTWISE: at once where it is scalar, where it is used if it is cheap, else in a loop."""
    shape = op.types[0].shape
    if shape is None:
        args = [k.scalar(o) for o in op.operands]
        k.define(op, expression(op, args, [k.values[o].ty for o in op.operands], op.types[0]))
    elif op.name in CHEAP and all(
        k.values[o].kind in ("scalar", "lazy", "moved") and not k.values[o].reads for o in op.operands
    ):
        k.values[op.results[0]] = Value(op.types[0], "lazy", op=op)
    else:
        add(k, op, shape)


def visit_view(k: State, op: Op) -> None:
    """An operation that only moves elements: computed where it is used, from operands that are in memory."""
    for o in op.operands:
        if k.values[o].kind == "pending":
            flush(k, k.values[o].ty.shape or ())
    if op.name == "tt.gather":
        materialise(k, op.operands[0])
    if op.types[0].shape is None:  # of a block with two elements, or one
        array = materialise(k, op.operands[0])
        for i in range(len(op.results)):
            k.define(op, f"{array}[{i}]", i)
        return
    for r, t in zip(op.results, op.types, strict=True):
        k.values[r] = Value(t, "lazy", op=op)


def flush_all(k: State) -> None:
    for shape in list(k.pending):
        flush(k, shape)
    again.settle(k)


def flush_writes(k: State) -> None:
    """Results written so far are in memory afterwards."""
    for shape, ops in list(k.pending.items()):
        if any(op.name in WRITES for op in ops):
            flush(k, shape)


def flush(k: State, shape: Shape, targets: dict[str, str] | None = None) -> None:
    """Write the pending loop of a shape. `targets` names arrays that take a result in place of a new one."""
    ops = k.pending.pop(shape, None)
    if not ops:
        return
    inside = {id(op) for op in ops}
    keep: list[Keep] = []
    own: set[str] = set()
    results = {r: t for op in ops if op.name != "tt.reduce" for r, t in zip(op.results, op.types, strict=True)}
    outside = [r for r in results if any(id(u) not in inside for u in k.uses.get(r, []))]
    repeated: dict[str, dict[str, Op]] = {}
    if any(op.name in WRITES for op in ops):
        ops = again.before_writes(k, ops, shape) + ops
    elif not targets:
        repeated = again.choose(k, ops, outside, shape)
    for r, t in results.items():
        if targets and r in targets:
            keep.append((r, targets[r], t.elem))
        elif r in outside and r not in repeated:
            wide = t.elem in SMALL_FLOATS and all(u.name == "tt.dot" for u in k.uses[r])
            elem = "f32" if wide else t.elem
            array = _read_last(k, ops, inside, t.of(elem), own) or k.array(t, elem)
            keep.append((r, array, elem))
            own.add(array)
    run(k, shape, ops, keep)
    k.done |= inside
    for r, array, elem in keep:
        k.set_array(r, k.values[r].ty.of(elem), array, own=array in own)
    again.note(k, repeated)


def _read_last(k: State, ops: list[Op], inside: set[int], ty: Ty, taken: set[str]) -> str | None:
    """An array of this type that the loop reads, at the place where it writes, and that nothing reads afterwards."""
    for name in dict.fromkeys(o for op in ops for o in op.operands):
        v = k.values[name]
        if v.kind != "array" or not v.own or v.region != k.region or v.ty != ty or v.code in taken:
            continue
        if all(id(user) in inside or id(user) in k.done for user in k.uses.get(name, [])):
            return v.code
    return None


def materialise(k: State, name: str) -> str:
    """The array of a value, which is one afterwards."""
    v = k.values[name]
    if v.kind == "pending":
        flush(k, v.ty.shape or ())
        v = k.values[name]
    if v.kind != "array":
        array = copy(k, name, k.array(v.ty))
        k.set_array(name, v.ty, array)
        return array
    return v.code


def copy(k: State, name: str, array: str) -> str:
    """Write a value into an array."""
    v = k.values[name]
    run(k, v.ty.shape or (), [], [(name, array, v.ty.elem)])
    return array


# ---- one loop


@dataclass
class _Reduction:
    """A tt.reduce at the end of a loop: accumulators per lane, and where the results go."""

    op: Op
    axis: int
    results: list[tuple[str, Shape | None]]  # scalar variable or array, shape of the array
    accumulators: list[str] = field(default_factory=list)
    first: str = ""  # the condition under which an accumulator takes the element, "" for always

    @property
    def types(self) -> list[str]:
        return [t.elem for t in self.op.types]


def _reduction(k: State, op: Op) -> _Reduction:
    results: list[tuple[str, Shape | None]] = []
    for r, t in zip(op.results, op.types, strict=True):
        if t.shape is None:
            name = k.fresh("r")
            k.put(f"{cpp(t.elem)} {name}{{}};")
            k.values[r] = Value(t, "scalar", name)
            results.append((name, None))
        else:
            array = k.array(t)
            k.set_array(r, t, array)
            results.append((array, t.shape))
    return _Reduction(regions.accumulating(op), op.integer("axis"), results)


def lane_dimension(shape: Shape) -> int:
    """The dimension along which the lanes go: the last one with more than one element."""
    large = [d for d, s in enumerate(shape) if s > 1]
    return large[-1] if large else len(shape) - 1


def is_flat(shape: Shape) -> bool:
    """Whether a row is shorter than a vector, so that 16 neighbours are in several rows."""
    lane = lane_dimension(shape)
    return sum(s > 1 for s in shape) > 1 and shape[lane] < LANES


def run(k: State, shape: Shape, ops: list[Op], keep: list[Keep]) -> None:
    """A loop over a block that does `ops` and stores the values of `keep` in arrays."""
    reduction = next((_reduction(k, op) for op in ops if op.name == "tt.reduce"), None)
    k.put("{")
    if is_flat(shape):
        _flat(k, shape, ops, keep)
    elif (other := _turned_dimension(k, shape, ops, keep)) is not None:
        _turned(k, shape, ops, keep, other)
    else:
        _rows(k, shape, ops, keep, reduction)
    k.put("}")
    if keep or any(op.name in WRITES or op.name == "tt.reduce" for op in ops):
        k.put("tri::sync();")


def _flat(k: State, shape: Shape, ops: list[Op], keep: list[Keep]) -> None:
    n = Ty("i32", shape).numel
    k.put(f"for (size_t c = 0; c < {n}; c += {LANES}) {{")
    flat = Index("c", 1, LANES)
    last = min(n, LANES) - 1
    if n < LANES:
        k.put(f"if (item < {n}) {{")
    _body(k, Nest(k, shape, element.positions(flat, shape, last), flat, last), ops, keep, None)
    k.put("}}" if n < LANES else "}")


def _rows(k: State, shape: Shape, ops: list[Op], keep: list[Keep], reduction: _Reduction | None) -> None:
    lane = lane_dimension(shape)
    across = reduction is not None and reduction.axis == lane
    inner = reduction.axis if reduction is not None and not across else None
    ident = [element.const(0)] * len(shape)
    closing = 0
    for d, s in enumerate(shape):
        if s > 1 and d not in (lane, inner):
            name = k.fresh("i")
            k.put(f"for (size_t {name} = 0; {name} < {s}; ++{name}) {{")
            ident[d] = Index(name)
            closing += 1
    n = shape[lane] if shape else 1
    c = k.fresh("c")
    ways = 1
    if reduction is not None and across:
        ways = 4 if n >= 8 * LANES and regions.neutral(reduction.op) else 1
        _declare(k, reduction, f"{c} == 0" if n > LANES else "", ways)
    if n > 1:
        ident[lane] = Index(c if n > LANES else "0", 1, LANES if n > LANES else 1 << 40)
    last = min(n, LANES) - 1
    if reduction is not None and inner is not None:
        k.put(f"for (size_t {c} = 0; {c} < {n}; {c} += {LANES}) {{")
        k.put(*([f"if (item < {n}) {{"] if n < LANES else []))
        name = k.fresh("i")
        _declare(k, reduction, f"{name} == 0")
        k.put(f"for (size_t {name} = 0; {name} < {shape[inner]}; ++{name}) {{")
        ident[inner] = Index(name)
        _body(k, Nest(k, shape, tuple(ident), None, last), ops, keep, reduction)
        k.put("}")
    else:
        _lanes(k, c, n, ways, Nest(k, shape, tuple(ident), None, last), ops, keep, reduction)
    rest = tuple(i for d, i in enumerate(ident) if reduction is None or d != reduction.axis)
    if reduction is not None and inner is not None:
        _store(k, reduction, rest, by_lane=True)
        k.put("}}" if n < LANES else "}")
    if reduction is not None and across:
        if ways > 1:
            _join_ways(k, reduction, ways)
        _across_lanes(k, reduction, min(n, LANES))
        _store(k, reduction, rest, by_lane=False)
    k.put("}" * closing)


def _turned_dimension(k: State, shape: Shape, ops: list[Op], keep: list[Keep]) -> int | None:
    """The dimension along which more of what is read are neighbours in memory than along the last one, None without."""
    lane = lane_dimension(shape)
    others = [d for d, s in enumerate(shape) if d != lane and s % LANES == 0]
    if not others or shape[lane] % LANES or any(op.name == "tt.reduce" or op.name in WRITES for op in ops):
        return None

    def scattered(along: int) -> int:
        ident = [element.const(0)] * len(shape)
        ident[along] = Index("0", 1, LANES)
        nest = Nest(k, shape, tuple(ident), None, LANES - 1)
        _version(k, nest, ops, [], None, True)
        for name, _, _ in keep:
            nest.get(name)
        return nest.scattered

    best = min((lane, *others), key=scattered)  # the last one where no other is better
    return None if best == lane else best


def _turned(k: State, shape: Shape, ops: list[Op], keep: list[Keep], along: int) -> None:
    """A loop with the lanes along another dimension than the last; its results are turned, 16 rows of 16 at a time."""
    lane, row = lane_dimension(shape), k.fresh("row")
    first: list[Index] = []
    for d, s in enumerate(shape):
        name = k.fresh("i")
        k.put(f"for (size_t {name} = 0; {name} < {s}; {name} += {LANES if d in (lane, along) else 1}) {{")
        first.append(Index(name, 0, LANES if d in (lane, along) else 1))
    tiles = [k.fresh("x") for _ in keep]
    k.put(*(f"{cpp(elem)} {x}[{LANES}];" for x, (_, _, elem) in zip(tiles, keep, strict=True)))
    loop = ("#pragma unroll", f"for (size_t {row} = 0; {row} < {LANES}; ++{row}) {{")
    k.put(*loop)
    ident = list(first)
    ident[along] = Index(first[along].code, 1, LANES)
    ident[lane] = Index(f"({first[lane].code} + {row})")
    nest = Nest(k, shape, tuple(ident), None, LANES - 1)
    nest.results = {array: f"{x}[{row}]" for (_, array, _), x in zip(keep, tiles, strict=True)}
    _body(k, nest, ops, keep, None)
    k.put("}", *(f"tri::transpose({x}, lane);" for x in tiles), *loop)
    ident[along] = Index(f"({first[along].code} + {row})")
    ident[lane] = Index(first[lane].code, 1, LANES)
    results = Nest(k, shape, tuple(ident), None, LANES - 1)
    for x, (_, array, _) in zip(tiles, keep, strict=True):
        k.put(f"{results.array_place(array, results.ident, shape)[0]} = {x}[{row}];")
    k.put("}" * (1 + len(shape)))


def _declare(k: State, r: _Reduction, first: str, ways: int = 1) -> None:
    """The accumulators, `ways` of them per lane; with the neutral element in them where the operation has one."""
    neutral = regions.neutral(r.op) if first else None
    r.accumulators = [k.fresh("acc") for _ in r.types]
    for a, t in zip(r.accumulators, r.types, strict=True):
        count = f"[{ways}]" if ways > 1 else ""
        k.put(f"{cpp(t)} {a}{count}{{{', '.join([neutral or ''] * ways)}}};")
    r.first = first if neutral is None else "never"
    if ways > 1:
        r.accumulators = [f"{a}[way]" for a in r.accumulators]


def _join_ways(k: State, r: _Reduction, ways: int) -> None:
    """One accumulator per lane of several."""
    names = [a.removesuffix("[way]") for a in r.accumulators]
    values = [[f"{a}[{w}]" for a in names] for w in range(ways)]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [regions.inline(k, r.op.regions[0], a + b, k.lines) for a, b in pairs]
    r.accumulators = [k.fresh("acc") for _ in names]
    k.put(*(f"auto {a} = {v};" for a, v in zip(r.accumulators, values[0], strict=True)))


def _accumulate(k: State, nest: Nest, r: _Reduction) -> None:
    values = [nest.code(nest.get(o)) for o in r.op.operands]
    if not r.first:
        nest.lines += [f"{a} = {v};" for a, v in zip(r.accumulators, values, strict=True)]
        return
    combined = regions.inline(k, r.op.regions[0], r.accumulators + values, nest.lines)
    for a, v, x in zip(r.accumulators, values, combined, strict=True):
        nest.lines.append(f"{a} = {x};" if r.first == "never" else f"{a} = {r.first} ? {v} : {x};")


def _across_lanes(k: State, r: _Reduction, lanes: int) -> None:
    step = lanes // 2
    while step:
        other = [k.fresh("x") for _ in r.accumulators]
        k.put(*(f"const auto {o} = tri::exchange({a}, {step});" for o, a in zip(other, r.accumulators, strict=True)))
        combined = regions.inline(k, r.op.regions[0], r.accumulators + other, k.lines)
        k.put(*(f"{a} = {x};" for a, x in zip(r.accumulators, combined, strict=True)))
        step //= 2
    k.put(*(f"{a} = tri::uniform({a});" for a in r.accumulators))


def _store(k: State, r: _Reduction, idx: tuple[Index, ...], by_lane: bool) -> None:
    for a, (place, shape) in zip(r.accumulators, r.results, strict=True):
        if shape is None:
            k.put(f"{place} = {a};")
        else:
            at = element.offset(idx, shape)
            k.put(f"{'' if by_lane else 'if (item == 0) '}{place}[{at.value}] = {a};")


# ---- its body, in two versions


_TOGETHER = 128  # elements of a row that take one version


def _versions(
    k: State, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None
) -> tuple[list[str], list[str], list[str]]:
    """The conditions of the first version, its lines and those of the second; without conditions there is one version."""
    first = _version(k, nest, ops, keep, reduction, True)
    conditions = list(dict.fromkeys(nest.conditions))
    return conditions, first, _version(k, nest, ops, keep, reduction, False) if conditions else []


def _lanes(
    k: State, c: str, n: int, ways: int, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None
) -> None:
    """The loop along the lanes. Each version has loops of its own: in one loop the compiler joins them to one body with
    a mask, which computes both."""
    conditions, first, second = _versions(k, nest, ops, keep, reduction)
    if n < LANES:
        first, second = [[f"if (item < {n}) {{", *v, "}"] if v else [] for v in (first, second)]
    first, second = [*nest.before, *first], [*nest.before, *second]
    k.put(f"size_t {c}_0 = 0;")
    if not conditions:
        _version_loop(k, c, n, ways, first)
        return
    holds, all_hold = k.fresh("holds"), k.fresh("holds")
    k.put(f"const auto {holds} = [&](size_t {c}) {{", *nest.before, f"return {' && '.join(conditions)};", "};")
    together = max(ways * LANES, n if n <= _TOGETHER else 0)
    each = " && ".join(f"{holds}({c} + {at})" for at in range(0, together, LANES))
    k.put(f"const auto {all_hold} = [&](size_t {c}) {{ return {each}; }};")
    if n <= together:
        k.put(f"if ({all_hold}(0)) {{")
        _version_loop(k, c, n, ways, first)
        k.put("} else {")
        _version_loop(k, c, n, ways, second)
        k.put("}")
        return
    # The compiler copies no broadcast, so that each loop leads to the other by way of this test. Without it the driver
    # gives up on vectors in some nests.
    k.put(f"while (tri::uniform(uint32_t({c}_0)) < {n}) {{")
    _version_loop(k, c, n, ways, first, f" && {all_hold}({c}_0)")
    _version_loop(k, c, n, ways, second, f" && !{all_hold}({c}_0)")
    k.put("}")


def _version_loop(k: State, c: str, n: int, ways: int, body: list[str], condition: str = "") -> None:
    k.put(f"for (; {c}_0 < {n}{condition}; {c}_0 += {ways * LANES}) {{")
    if ways > 1:
        k.put("#pragma unroll", f"for (size_t way = 0; way < {ways}; ++way) {{")
        k.put(f"const size_t {c} = {c}_0 + way * {LANES};", *body, "}}")
    else:
        k.put(f"const size_t {c} = {c}_0;", *body, "}")


def _body(k: State, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None) -> None:
    conditions, first, second = _versions(k, nest, ops, keep, reduction)
    if not conditions:
        k.put(*nest.before, *first)
        return
    k.put(*nest.before, f"if ({' && '.join(conditions)}) {{", *first, "} else {", *second, "}")


def _version(
    k: State, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None, assume: bool
) -> list[str]:
    nest.version(assume)
    for op in ops:
        if reduction is not None and op.name == "tt.reduce":
            _accumulate(k, nest, reduction)
        elif op.name in _IN_LOOP:
            _IN_LOOP[op.name](k, nest, op)
        else:
            nest.define(op.results[0], nest.apply(op, [nest.get(o) for o in op.operands]))
    for name, array, elem in keep:
        value = nest.code(nest.get(name))
        place = nest.results.get(array) or nest.array_place(array, nest.ident, nest.shape)[0]
        source = k.values[name].ty.elem
        nest.lines.append(f"{place} = {value if source == elem else f'{cpp(elem)}({value})'};")
    return nest.lines


def _load(k: State, nest: Nest, op: Op) -> None:
    nest.define(op.results[0], nest.load(op, copy=k.values[op.results[0]].copy))


def _write(k: State, nest: Nest, op: Op) -> None:
    pointer = nest.get(op.operands[0])
    mask = nest.mask(nest.get(op.operands[2]) if len(op.operands) > 2 else None)
    value = nest.code(nest.get(op.operands[1]))
    if mask != "false":
        nest.lines.append(f"{'' if mask == 'true' else f'if ({mask}) '}{nest.place(pointer)} = {value};")


def _atomic(k: State, nest: Nest, op: Op) -> None:
    pointer = nest.code(nest.get(op.operands[0]))
    values = [nest.code(nest.get(o)) for o in op.operands[1:]]
    mask = None
    if op.name == "tt.atomic_rmw" and len(values) > 1:
        mask = nest.mask(nest.get(op.operands[2]))
        values = values[:1]
    call = atomic_call(op, pointer, values)
    if op.results and k.uses.get(op.results[0]):
        elem = op.types[0].elem
        name = k.fresh()
        nest.lines.append(f"{cpp(elem)} {name}{{}};")
        nest.lines.append(f"if ({mask or 'true'}) {name} = {call};")
        nest.define(op.results[0], Element(name, elem, None))
    else:
        nest.lines.append(f"if ({mask or 'true'}) {call};")


def atomic_call(op: Op, pointer: str, values: list[str]) -> str:
    """The C++ of an atomic operation at one place."""
    if op.name == "tt.atomic_cas":
        return f"tri::cas({pointer}, {values[0]}, {values[1]})"
    return f"tri::rmw_{op.words[0]}({pointer}, {values[0]})"


def _map(k: State, nest: Nest, op: Op) -> None:
    args = [nest.code(nest.get(o)) for o in op.operands]
    if op.integer("pack", 1) != 1:
        raise op.fail("pack other than 1")
    for r, t, code in zip(op.results, op.types, regions.inline(k, op.regions[0], args, nest.lines), strict=True):
        nest.define(r, Element(code, t.elem, None))


def _assert(k: State, nest: Nest, op: Op) -> None:
    condition = nest.code(nest.get(op.operands[0]))
    nest.lines.append(assertion(k, op, condition))


def assertion(k: State, op: Op, condition: str) -> str:
    """Reports a text at the next synchronisation where the condition does not hold."""
    where = f"{op.where}: " if op.where else ""
    number = k.message(f"{where}device assertion: {op.attrs.get('text', '')}")
    return f"if (!({condition})) xpu::report_error(error, xpu::DeviceErrorCode::assertion, 0, p.text{number}, 0);"


def _print(k: State, nest: Nest, op: Op) -> None:
    elements = [nest.get(o) for o in op.operands]
    flat = nest.flat if nest.flat is not None else element.offset(nest.ident, nest.shape)
    nest.lines += print_lines(k, op, [(nest.code(e), e.elem) for e in elements], f"int({flat.value})")


def print_lines(k: State, op: Op, values: list[tuple[str, str]], index: str) -> list[str]:
    """printf of each value, in the form of Triton's GPU backends."""
    text = op.attrs.get("text", "").replace("%", "%%")
    head = "pid (%d, %d, %d) idx (%d)"
    signed = [x.strip() == "1" for x in op.attrs.get("isSigned", "").split(":")[-1].rstrip("> ").split(",")]
    as_hex = op.attrs.get("hex", "false").startswith("true")
    out = []
    for i, (code, elem) in enumerate(values):
        if elem.startswith("ptr<"):
            form, arg = "0x%016lx", f"uint64_t({code})"
        elif as_hex:
            form, arg = "0x%lx", f"uint64_t(tri::to_bits({code}))"
        elif elem[0] == "i":
            form, arg = (
                ("%ld", f"int64_t({code})") if any(signed[i : i + 1]) else ("%lu", f"uint64_t(tri::to_bits({code}))")
            )
        else:
            form, arg = "%f", f"double(float({code}))" if elem != "f64" else code
        operand = f"(operand {i}) " if len(values) > 1 else ""
        name = k.fresh("text")
        k.notes.append(f'const __attribute__((opencl_constant)) char {name}[] = "{head}{text}{operand}{form}\\n";')
        out.append(f"__spirv_ocl_printf({name}, pid0, pid1, pid2, {index}, {arg});")
    if not values:
        name = k.fresh("text")
        k.notes.append(f'const __attribute__((opencl_constant)) char {name}[] = "{head}{text}\\n";')
        out.append(f"__spirv_ocl_printf({name}, pid0, pid1, pid2, {index});")
    return out


_IN_LOOP = {
    "tt.load": _load,
    "tt.store": _write,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.map_elementwise": _map,
    "tt.assert": _assert,
    "tt.print": _print,
}
