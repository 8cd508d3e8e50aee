"""Elementwise operations, loads and stores of one shape are collected and become one loop over the block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xpu_ops.block import ir
from xpu_ops.block.ir import FALSE, TRUE, Expr, Node
from xpu_ops.block.nests import Form, Problem, choose
from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import again, element, regions
from xpu_ops.triton.lower.element import LANE, Element, Index
from xpu_ops.triton.lower.nest import Nest
from xpu_ops.triton.lower.scalar import CHEAP, expression
from xpu_ops.triton.lower.state import Shape, State, Value
from xpu_ops.triton.lower.types import SMALL_FLOATS, cpp
from xpu_ops.triton.ttir import Op, Ty

WRITES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert")
ITEM, PART = ir.name("item"), ir.name("part")  # the place in the sub-group, the sub-group in the work-group
Keep = tuple[str, Expr, str]  # value, array, element type of the array


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
            k.define(op, ir.at(array, i), i)
        k.sync_parts()
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


def flush(k: State, shape: Shape, targets: dict[str, Expr] | None = None) -> None:
    """Write the pending loop of a shape. `targets` names arrays that take a result in place of a new one."""
    ops = k.pending.pop(shape, None)
    if not ops:
        return
    inside = {id(op) for op in ops}
    keep: list[Keep] = []
    own: set[Expr] = set()
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


def _read_last(k: State, ops: list[Op], inside: set[int], ty: Ty, taken: set[Expr]) -> Expr | None:
    """An array of this type that the loop reads, at the place where it writes, and that nothing reads afterwards."""
    for name in dict.fromkeys(o for op in ops for o in op.operands):
        v = k.values[name]
        if v.kind != "array" or not v.own or v.region != k.region or v.ty != ty or v.code in taken:
            continue
        if all(id(user) in inside or id(user) in k.done for user in k.uses.get(name, [])):
            return v.code
    return None


def materialise(k: State, name: str) -> Expr:
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


def copy(k: State, name: str, array: Expr) -> Expr:
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
    results: list[tuple[Expr, Shape | None]]  # scalar variable or array, shape of the array
    accumulators: list[Expr] = field(default_factory=list)
    first: Expr = FALSE  # where an accumulator takes the element; TRUE for always

    @property
    def types(self) -> list[str]:
        return [t.elem for t in self.op.types]


def _reduction(k: State, op: Op) -> _Reduction:
    results: list[tuple[Expr, Shape | None]] = []
    for r, t in zip(op.results, op.types, strict=True):
        if t.shape is None:
            name = k.variable(t.elem, "r")
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
    lane = lane_dimension(shape)
    axis = reduction.axis if reduction is not None else lane
    other = None if is_flat(shape) else _turned_dimension(k, shape, ops, keep)
    rows = max((s for d, s in enumerate(shape) if d not in (lane, axis)), default=1)
    length = shape[lane] if shape else 1
    form = choose(
        Problem(rows, length, reduction is not None, strided=other is not None, outer=axis != lane, block=True),
        k.policy,
    )
    with k.nested() as body:
        if form.name == "flat":
            _flat(k, shape, ops, keep)
        elif other is not None:
            _turned(k, shape, ops, keep, other)
        else:
            _rows(k, shape, ops, keep, reduction, form)
    k.put(ir.Scope(tuple(body)))
    if keep or any(op.name in WRITES or op.name == "tt.reduce" for op in ops):
        k.put(ir.Sync())


def below(n: int, body: Sequence[Node], at: Expr = ITEM) -> Sequence[Node]:
    """For the items that have one of n elements."""
    return body if n % LANES == 0 else (ir.If(ir.infix("<", at, n), tuple(body)),)


def _flat(k: State, shape: Shape, ops: list[Op], keep: list[Keep]) -> None:
    n = Ty("i32", shape).numel
    flat, last = Index(ir.name("c"), 1, LANES), min(n, LANES) - 1
    with k.nested() as body:
        _body(k, Nest(k, shape, element.positions(flat, shape, last), flat, last), ops, keep, None)
    k.put(ir.Count("c", n, tuple(below(n, body)), LANES, shared=True))


def _rows(k: State, shape: Shape, ops: list[Op], keep: list[Keep], reduction: _Reduction | None, form: Form) -> None:
    lane = lane_dimension(shape)
    inner = reduction.axis if reduction is not None and reduction.axis != lane else None
    ident = [element.const(0)] * len(shape)
    rows: list[tuple[str, int]] = []
    for d, s in enumerate(shape):
        if s > 1 and d not in (lane, inner):
            rows.append((k.fresh("i"), s))
            ident[d] = Index(ir.name(rows[-1][0]))
    with k.nested() as body:
        _row(k, shape, ident, ops, keep, reduction, form)
    most = max(rows, key=lambda r: r[1], default=None) if form.name in ("rows", "row_reduce") else None
    for row in reversed(rows):
        body = [ir.Count(*row, tuple(body), shared=row is most)]
    k.put(*body)


def _row(
    k: State,
    shape: Shape,
    ident: list[Index],
    ops: list[Op],
    keep: list[Keep],
    reduction: _Reduction | None,
    form: Form,
) -> None:
    """Where all dimensions but the lanes' and that of a reduction have their index."""
    lane = lane_dimension(shape)
    n, c, ways = shape[lane] if shape else 1, k.fresh("c"), 1
    across, team = reduction is not None and reduction.axis == lane, form.name in ("tiles", "team_reduce")
    if reduction is not None and across:
        ways = 4 if n >= 8 * LANES and regions.neutral(reduction.op) else 1
        begin = PART * LANES if team and k.parts > 1 else ir.value(0)
        _declare(k, reduction, ir.infix("==", ir.name(c), begin) if n > LANES else TRUE, ways)
    if n > 1:
        ident[lane] = Index(ir.name(c) if n > LANES else ir.value(0), 1, LANES if n > LANES else 1 << 40)
    last = min(n, LANES) - 1
    if reduction is None or across:
        _lanes(k, c, n, ways, Nest(k, shape, tuple(ident), None, last), ops, keep, reduction, team)
        if reduction is not None:
            if ways > 1:
                _join_ways(k, reduction, ways)
            _across_lanes(k, reduction, min(n, LANES))
            if team:
                _across_parts(k, reduction, min(k.parts, max(n // (ways * LANES), 1)))
            _store(k, reduction, tuple(i for d, i in enumerate(ident) if d != lane), "program" if team else "sub_group")
        return
    with k.nested() as columns:
        name = k.fresh("i")
        _declare(k, reduction, ir.infix("==", ir.name(name), 0))
        ident[reduction.axis] = Index(ir.name(name))
        with k.nested() as body:
            _body(k, Nest(k, shape, tuple(ident), None, last), ops, keep, reduction)
        k.put(ir.Count(name, shape[reduction.axis], tuple(body)))
        _store(k, reduction, tuple(i for d, i in enumerate(ident) if d != reduction.axis), "")
    k.put(ir.Count(c, n, tuple(below(n, columns)), LANES, shared=True))


def _turned_dimension(k: State, shape: Shape, ops: list[Op], keep: list[Keep]) -> int | None:
    """The dimension along which more of what is read are neighbours in memory than along the last one, None without."""
    lane = lane_dimension(shape)
    others = [d for d, s in enumerate(shape) if d != lane and s % LANES == 0]
    if not others or shape[lane] % LANES or any(op.name == "tt.reduce" or op.name in WRITES for op in ops):
        return None

    def scattered(along: int) -> int:
        ident = [element.const(0)] * len(shape)
        ident[along] = Index(ir.value(0), 1, LANES)
        nest = Nest(k, shape, tuple(ident), None, LANES - 1)
        _version(k, nest, ops, [], None, None, True)
        for name, _, _ in keep:
            nest.get(name)
        return nest.scattered

    best = min((lane, *others), key=scattered)  # the last one where no other is better
    return None if best == lane else best


def _turned(k: State, shape: Shape, ops: list[Op], keep: list[Keep], along: int) -> None:
    """A loop with the lanes along another dimension than the last; its results are turned, 16 rows of 16 at a time."""
    lane, row = lane_dimension(shape), k.fresh("row")
    first = [Index(ir.name(k.fresh("i")), 0, LANES if d in (lane, along) else 1) for d in range(len(shape))]
    tiles = [ir.name(k.fresh("x")) for _ in keep]

    def inside(lanes: int, other: int) -> tuple[Index, ...]:
        ident = list(first)
        ident[lanes], ident[other] = Index(first[lanes].code, 1, LANES), Index(first[other].code + ir.name(row))
        return tuple(ident)

    def each(body: Sequence[Node]) -> Node:
        return ir.Count(row, LANES, tuple(body), unroll=True)

    body: list[Node] = [
        ir.Variable(x.text, cpp(elem), None, LANES) for x, (_, _, elem) in zip(tiles, keep, strict=True)
    ]
    nest = Nest(k, shape, inside(along, lane), None, LANES - 1)
    nest.results = {array: ir.at(x, ir.name(row)) for (_, array, _), x in zip(keep, tiles, strict=True)}
    with k.nested() as read:
        _body(k, nest, ops, keep, None)
    body.append(each(read))
    body += [ir.Do(ir.call("tri::transpose", x, LANE)) for x in tiles]
    results = Nest(k, shape, inside(lane, along), None, LANES - 1)
    places = [results.array_place(array, results.ident, shape)[0] for _, array, _ in keep]
    body.append(each([ir.Put(p, ir.at(x, ir.name(row))) for p, x in zip(places, tiles, strict=True)]))
    steps = [LANES if d in (lane, along) else 1 for d in range(len(shape))]
    most = max(range(len(shape)), key=lambda d: shape[d] // steps[d])
    for d in reversed(range(len(shape))):
        body = [ir.Count(first[d].code.text, shape[d], tuple(body), steps[d], shared=d == most)]
    k.put(*body)


def _declare(k: State, r: _Reduction, first: Expr, ways: int = 1) -> None:
    """The accumulators, `ways` of them per lane; with the neutral element in them where the operation has one."""
    neutral = regions.neutral(r.op) if first != TRUE else None
    r.accumulators = [ir.name(k.fresh("acc")) for _ in r.types]
    initial = (neutral,) * ways if neutral else ()
    k.put(*(ir.Variable(a.text, cpp(t), initial, ways if ways > 1 else 0)
            for a, t in zip(r.accumulators, r.types, strict=True)))  # fmt: skip
    r.first = first if neutral is None else FALSE


def _join_ways(k: State, r: _Reduction, ways: int) -> None:
    """One accumulator per lane of several."""
    values = [[ir.at(a, w) for a in r.accumulators] for w in range(ways)]
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [regions.inline(k, r.op.regions[0], a + b, k.body) for a, b in pairs]
    r.accumulators = [ir.name(k.fresh("acc")) for _ in r.accumulators]
    k.put(*(ir.Let(a.text, "auto", v, cast=False) for a, v in zip(r.accumulators, values[0], strict=True)))


def _accumulate(k: State, nest: Nest, r: _Reduction, way: Expr | None) -> None:
    values = [nest.code(nest.get(o)) for o in r.op.operands]
    accumulators = [a if way is None else ir.at(a, way) for a in r.accumulators]
    if r.first == TRUE:
        nest.body += regions.assigned(accumulators, values)
        return
    combined = regions.inline(k, r.op.regions[0], accumulators + values, nest.body)
    if r.first != FALSE:
        combined = [ir.choice(r.first, v, x) for v, x in zip(values, combined, strict=True)]
    nest.body += regions.assigned(accumulators, combined)


def _across_lanes(k: State, r: _Reduction, lanes: int) -> None:
    step = lanes // 2
    while step:
        _combine(k, r, [ir.call("tri::exchange", a, step) for a in r.accumulators])
        step //= 2
    k.put(*(ir.Assign(a.text, ir.call("tri::uniform", a)) for a in r.accumulators))


def _across_parts(k: State, r: _Reduction, parts: int) -> None:
    """The values of sub-groups meet in local memory; those past `parts` had no elements."""
    rooms = [k.array(Ty(t, (k.parts,))) for t in r.types]
    k.put(ir.Sync())  # an earlier result has been read
    k.put(*(ir.Put(ir.at(room, PART), a, by="sub_group") for room, a in zip(rooms, r.accumulators, strict=True)))
    k.put(ir.Sync())
    k.put(*regions.assigned(r.accumulators, [ir.at(room, ITEM % parts) for room in rooms]))
    _across_lanes(k, r, parts)


def _combine(k: State, r: _Reduction, others: list[Expr]) -> None:
    """The accumulators of other items join those of this one."""
    names = [ir.name(k.fresh("x")) for _ in others]
    k.put(*(ir.Let(n.text, "const auto", o, cast=False) for n, o in zip(names, others, strict=True)))
    k.put(*regions.assigned(r.accumulators, regions.inline(k, r.op.regions[0], r.accumulators + names, k.body)))


def _store(k: State, r: _Reduction, idx: tuple[Index, ...], by: str) -> None:
    for a, (place, shape) in zip(r.accumulators, r.results, strict=True):
        if shape is None:
            k.put(ir.Put(place, a))
        else:
            k.put(ir.Put(ir.at(place, element.offset(idx, shape).value), a, by=by))


# ---- its body, in two versions


_TOGETHER = 128  # elements of a row that take one version


@dataclass
class _Versions:
    """A body where the conditions hold, and where they do not; without conditions there is one version."""

    conditions: Expr
    before: list[Node]
    first: list[Node]
    second: list[Node]


def _versions(
    k: State, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None, way: Expr | None = None
) -> _Versions:
    first = _version(k, nest, ops, keep, reduction, way, True)
    conditions = ir.every(nest.conditions)
    second = _version(k, nest, ops, keep, reduction, way, False) if conditions != TRUE else []
    return _Versions(conditions, nest.before, first, second)


def _lanes(
    k: State,
    c: str,
    n: int,
    ways: int,
    nest: Nest,
    ops: list[Op],
    keep: list[Keep],
    reduction: _Reduction | None,
    shared: bool,
) -> None:
    """The loop along the lanes. Each version has loops of its own: in one loop the compiler joins them to one body with
    a mask, which computes both."""
    start = f"{c}_0"
    index, step = ir.name(start), ways * LANES
    v = _versions(k, nest, ops, keep, reduction, ir.name("way") if ways > 1 else None)

    def loop(body: list[Node], condition: Expr = TRUE) -> Node:
        at = index + ir.name("way") * LANES if ways > 1 else index
        inside: list[Node] = [ir.Let(c, "const size_t", at, cast=False), *v.before, *(below(n, body) if body else ())]
        if ways > 1:
            inside = [ir.Count("way", ways, tuple(inside), unroll=True)]
        return ir.Vectors(start, n, step, tuple(inside), condition, shared)

    k.put(ir.Begin(start, step, shared))
    if v.conditions == TRUE:
        k.put(loop(v.first))
        return
    holds, all_hold = k.fresh("holds"), k.fresh("holds")
    k.put(ir.Holds(holds, c, tuple(v.before), v.conditions))
    together = max(step, n if n <= _TOGETHER else 0)
    each = ir.every(ir.call(holds, ir.name(c) + at) for at in range(0, together, LANES))
    k.put(ir.Holds(all_hold, c, (), each))
    if n <= together:
        k.put(ir.Either(ir.call(all_hold, 0), (loop(v.first),), (loop(v.second),)))
        return
    # The compiler copies no broadcast, so that each loop leads to the other by way of this test. Without it the driver
    # gives up on vectors in some nests.
    more = ir.infix("<", ir.call("tri::uniform", ir.call("uint32_t", index)), n)
    here = ir.call(all_hold, index)
    k.put(ir.While(more, (loop(v.first, here), loop(v.second, ir.call("!", here)))))


def _body(k: State, nest: Nest, ops: list[Op], keep: list[Keep], reduction: _Reduction | None) -> None:
    v = _versions(k, nest, ops, keep, reduction)
    k.put(*v.before)
    k.put(*(v.first if v.conditions == TRUE else [ir.Either(v.conditions, tuple(v.first), tuple(v.second))]))


def _version(
    k: State,
    nest: Nest,
    ops: list[Op],
    keep: list[Keep],
    reduction: _Reduction | None,
    way: Expr | None,
    assume: bool,
) -> list[Node]:
    nest.version(assume)
    for op in ops:
        if reduction is not None and op.name == "tt.reduce":
            _accumulate(k, nest, reduction, way)
        elif op.name in _IN_LOOP:
            _IN_LOOP[op.name](k, nest, op)
        else:
            nest.define(op.results[0], nest.apply(op, [nest.get(o) for o in op.operands]))
    for name, array, elem in keep:
        value = nest.code(nest.get(name))
        place = nest.results.get(array) or nest.array_place(array, nest.ident, nest.shape)[0]
        source = k.values[name].ty.elem
        nest.body.append(ir.Put(place, value if source == elem else ir.call(cpp(elem), value)))
    return nest.body


def _load(k: State, nest: Nest, op: Op) -> None:
    nest.define(op.results[0], nest.load(op, copy=k.values[op.results[0]].copy))


def _write(k: State, nest: Nest, op: Op) -> None:
    pointer = nest.get(op.operands[0])
    mask = nest.mask(nest.get(op.operands[2]) if len(op.operands) > 2 else None)
    value = nest.code(nest.get(op.operands[1]))
    if mask != FALSE:
        nest.body.append(ir.Put(nest.place(pointer), value, when=mask))


def _atomic(k: State, nest: Nest, op: Op) -> None:
    pointer = nest.code(nest.get(op.operands[0]))
    values = [nest.code(nest.get(o)) for o in op.operands[1:]]
    mask = TRUE
    if op.name == "tt.atomic_rmw" and len(values) > 1:
        mask = nest.mask(nest.get(op.operands[2]))
        values = values[:1]
    call = atomic_call(op, pointer, values)
    if op.results and k.uses.get(op.results[0]):
        elem = op.types[0].elem
        out = k.variable(elem, into=nest.body)
        nest.body.append(ir.If(mask, (ir.Put(out, call),)))
        nest.define(op.results[0], Element(out, elem, None))
    else:
        nest.body.append(ir.If(mask, (ir.Do(call),)))


def atomic_call(op: Op, pointer: Expr, values: list[Expr]) -> Expr:
    """An atomic operation at one place."""
    name = "cas" if op.name == "tt.atomic_cas" else f"rmw_{op.words[0]}"
    return ir.call(f"tri::{name}", pointer, *values)


def _map(k: State, nest: Nest, op: Op) -> None:
    args = [nest.code(nest.get(o)) for o in op.operands]
    if op.integer("pack", 1) != 1:
        raise op.fail("pack other than 1")
    for r, t, code in zip(op.results, op.types, regions.inline(k, op.regions[0], args, nest.body), strict=True):
        nest.define(r, Element(code, t.elem, None))


def _assert(k: State, nest: Nest, op: Op) -> None:
    nest.body.append(assertion(k, op, nest.code(nest.get(op.operands[0]))))


def assertion(k: State, op: Op, condition: Expr) -> Node:
    """Reports a text at the next synchronisation where the condition does not hold."""
    where = f"{op.where}: " if op.where else ""
    number = k.message(f"{where}device assertion: {op.attrs.get('text', '')}")
    return ir.Do(ir.call("xpu::gen::check", condition, "error", f"p.text{number}"))


def _print(k: State, nest: Nest, op: Op) -> None:
    elements = [nest.get(o) for o in op.operands]
    flat = nest.flat if nest.flat is not None else element.offset(nest.ident, nest.shape)
    nest.body += printed(k, op, [(nest.code(e), e.elem) for e in elements], ir.call("int", flat.value))


def _shown(value: Expr, elem: str, signed: bool, as_hex: bool) -> tuple[str, Expr]:
    """The form of printf for a value, and its argument."""
    if elem.startswith("ptr<"):
        return "0x%016lx", ir.call("uint64_t", value)
    if as_hex or (elem[0] == "i" and not signed):
        return "0x%lx" if as_hex else "%lu", ir.call("uint64_t", ir.call("tri::to_bits", value))
    if elem[0] == "i":
        return "%ld", ir.call("int64_t", value)
    return "%f", value if elem == "f64" else ir.call("double", ir.call("float", value))


def printed(k: State, op: Op, values: list[tuple[Expr, str]], index: Expr) -> list[Node]:
    """printf of each value, in the form of Triton's GPU backends."""
    text = "pid (%d, %d, %d) idx (%d)" + op.attrs.get("text", "").replace("%", "%%")
    signed = [x.strip() == "1" for x in op.attrs.get("isSigned", "").split(":")[-1].rstrip("> ").split(",")]
    as_hex = op.attrs.get("hex", "false").startswith("true")
    place = (*(ir.name(f"pid{d}") for d in range(3)), index)
    out = [] if values else [ir.Print(text, place)]
    for i, (value, elem) in enumerate(values):
        form, argument = _shown(value, elem, any(signed[i : i + 1]), as_hex)
        operand = f"(operand {i}) " if len(values) > 1 else ""
        out.append(ir.Print(text + operand + form, (*place, argument)))
    k.texts |= {p.text: p for p in out}
    return list(out)


_IN_LOOP: dict[str, Callable[[State, Nest, Op], None]] = {
    "tt.load": _load,
    "tt.store": _write,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.map_elementwise": _map,
    "tt.assert": _assert,
    "tt.print": _print,
}
