"""One loop over a block: its form, its body in two versions, a reduction at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xpu_ops.block import ir
from xpu_ops.block.ir import FALSE, TRUE, Expr, Node
from xpu_ops.block.nests import Problem, choose
from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import element, regions
from xpu_ops.triton.lower.element import LANE, Element, Index
from xpu_ops.triton.lower.nest import Nest
from xpu_ops.triton.lower.state import Shape, State
from xpu_ops.triton.lower.types import cpp
from xpu_ops.triton.ttir import Op, Ty

WRITES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert")
ITEM, PART = ir.name("item"), ir.name("part")  # the place in the sub-group, the sub-group in the work-group
Keep = tuple[str, Expr, str]  # value, array, element type of the array
_TOGETHER = 128  # elements of a row that take one version


def lane_dimension(shape: Shape) -> int:
    """The dimension along which the lanes go: the last one with more than one element."""
    large = [d for d, s in enumerate(shape) if s > 1]
    return large[-1] if large else len(shape) - 1


def is_flat(shape: Shape) -> bool:
    """Whether a row is shorter than a vector, so that 16 neighbours are in several rows."""
    return sum(s > 1 for s in shape) > 1 and shape[lane_dimension(shape)] < LANES


def below(n: int, body: Sequence[Node], at: Expr = ITEM) -> Sequence[Node]:
    """For the items that have one of n elements."""
    return body if n % LANES == 0 else (ir.If(ir.infix("<", at, n), tuple(body)),)


class Reduction:
    """A tt.reduce at the end of a loop: accumulators per lane, and where the results go."""

    def __init__(self, k: State, op: Op) -> None:
        self.k, self.op, self.axis = k, regions.accumulating(op), op.integer("axis")
        self.neutral = regions.neutral(self.op)
        self.accumulators: list[Expr] = []
        self.first = FALSE  # where an accumulator takes the element; TRUE for always
        self.places = [k.storage(t, "r") for t in op.types]
        k.values.update(zip(op.results, self.places, strict=True))

    def _join(self, a: list[Expr], b: list[Expr], into: list[Node]) -> list[Expr]:
        return regions.inline(self.k, self.op.regions[0], a + b, into)

    def declare(self, first: Expr, ways: int = 0) -> None:
        """The accumulators, `ways` of them per lane; with the neutral element in them where the operation has one."""
        initial = (self.neutral,) * max(ways, 1) if self.neutral is not None and first != TRUE else ()
        self.first = FALSE if initial else first
        self.accumulators = [ir.name(self.k.fresh("acc")) for _ in self.op.types]
        for a, t in zip(self.accumulators, self.op.types, strict=True):
            self.k.put(ir.Variable(a.text, cpp(t.elem), initial, ways))

    def accumulate(self, nest: Nest, way: Expr | None) -> None:
        """The element of the nest joins."""
        values = [nest.code(nest.get(o)) for o in self.op.operands]
        accumulators = [a if way is None else ir.at(a, way) for a in self.accumulators]
        combined = values
        if self.first != TRUE:
            combined = self._join(accumulators, values, nest.body)
        if self.first not in (TRUE, FALSE):
            combined = [ir.choice(self.first, v, x) for v, x in zip(values, combined, strict=True)]
        nest.body += regions.assigned(accumulators, combined)

    def join_ways(self, ways: int) -> None:
        """One accumulator per lane of several."""
        values = [[ir.at(a, w) for a in self.accumulators] for w in range(ways)]
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=True)
            values = [self._join(a, b, self.k.body) for a, b in pairs]
        self.accumulators = [ir.name(self.k.fresh("acc")) for _ in self.accumulators]
        self.k.put(*(ir.Let(a.text, "auto", v) for a, v in zip(self.accumulators, values[0], strict=True)))

    def across_lanes(self, lanes: int) -> None:
        """One value of all lanes."""
        k, step = self.k, lanes // 2
        while step:
            others = [ir.name(k.fresh("x")) for _ in self.accumulators]
            for o, a in zip(others, self.accumulators, strict=True):
                k.put(ir.Let(o.text, "const auto", ir.call("tri::exchange", a, step)))
            k.put(*regions.assigned(self.accumulators, self._join(self.accumulators, others, k.body)))
            step //= 2
        k.put(*(ir.Assign(a.text, ir.call("tri::uniform", a)) for a in self.accumulators))

    def across_parts(self, parts: int) -> None:
        """One value of all sub-groups, which meet in local memory; those past `parts` had no elements."""
        k = self.k
        rooms = [k.array(Ty(t.elem, (k.parts,))) for t in self.op.types]
        k.put(ir.Sync())  # an earlier result has been read
        k.put(*(ir.Put(ir.at(r, PART), a, by="sub_group") for r, a in zip(rooms, self.accumulators, strict=True)))
        k.put(ir.Sync(), *regions.assigned(self.accumulators, [ir.at(room, ITEM % parts) for room in rooms]))
        self.across_lanes(parts)

    def store(self, ident: Sequence[Index], by: str) -> None:
        """The results, at the indices without that of the axis."""
        idx = tuple(i for d, i in enumerate(ident) if d != self.axis)
        for a, p in zip(self.accumulators, self.places, strict=True):
            at = p.code if p.kind == "scalar" else ir.at(p.code, element.offset(idx, p.ty.dims).value)
            self.k.put(ir.Put(at, a, by="" if p.kind == "scalar" else by))


class _Versions(NamedTuple):
    """A body where the conditions hold, and where they do not; without conditions there is one version."""

    conditions: Expr
    before: list[Node]
    first: list[Node]
    second: list[Node]


@dataclass
class Loop:
    """A loop over a block that does `ops` and stores the values of `keep` in arrays."""

    k: State
    shape: Shape
    ops: list[Op]
    keep: list[Keep]
    reduction: Reduction | None = field(init=False)
    team: bool = False  # the sub-groups of the program share the vectors of a row

    def run(self) -> None:
        """Write it in the form of the problem."""
        k, shape, lane = self.k, self.shape, lane_dimension(self.shape)
        self.reduction = next((Reduction(k, op) for op in self.ops if op.name == "tt.reduce"), None)
        axis = lane if self.reduction is None else self.reduction.axis
        turned = None if is_flat(shape) else self._turned_dimension()
        rows = max((s for d, s in enumerate(shape) if d not in (lane, axis)), default=1)
        reduce, strided = self.reduction is not None, turned is not None
        length = shape[lane] if shape else 1
        form = choose(Problem(rows, length, reduce, strided=strided, outer=axis != lane, block=True), k.policy)
        self.team = form.name in ("tiles", "team_reduce")
        with k.nested() as body:
            if self.reduction is not None and is_flat(shape):
                self._short(self.reduction)
            elif form.name == "flat":
                self._flat()
            elif turned is not None:
                self._turned(turned)
            else:
                self._rows(form.name in ("rows", "row_reduce"))
        k.put(ir.Scope(tuple(body)))
        if self.keep or any(op.name in WRITES or op.name == "tt.reduce" for op in self.ops):
            k.put(ir.Sync())

    def _nest(self, ident: Sequence[Index], last: int, flat: Index | None = None) -> Nest:
        return Nest(self.k, self.shape, tuple(ident), flat, last)

    def _flat(self) -> None:
        n = Ty("i32", self.shape).numel
        flat, last = Index(ir.name("c"), 1, LANES), min(n, LANES) - 1
        body = self._body(self._nest(element.positions(flat, self.shape, last), last, flat))
        self.k.put(ir.Count("c", n, tuple(below(n, body)), LANES, shared=True))

    def _rows(self, shared: bool) -> None:
        lane, ident = lane_dimension(self.shape), [element.const(0)] * len(self.shape)
        rows: list[tuple[str, int]] = []
        for d, s in enumerate(self.shape):
            if s > 1 and d != lane and (self.reduction is None or d != self.reduction.axis):
                rows.append((self.k.fresh("i"), s))
                ident[d] = Index(ir.name(rows[-1][0]))
        with self.k.nested() as body:
            self._row(lane, ident)
        most = max(rows, key=lambda r: r[1], default=None) if shared else None
        for row in reversed(rows):
            body = [ir.Count(*row, tuple(body), shared=row is most)]
        self.k.put(*body)

    def _row(self, lane: int, ident: list[Index]) -> None:
        """Where all dimensions but the lanes' and that of a reduction have their index."""
        k, r, n, c = self.k, self.reduction, self.shape[lane] if self.shape else 1, self.k.fresh("c")
        if n > 1:
            ident[lane] = Index(ir.name(c), 1, LANES) if n > LANES else Index(ir.value(0), 1, element.ANY)
        if r is None:
            self._lanes(c, n, 1, ident)
        elif r.axis == lane:
            ways = 4 if n >= 8 * LANES and r.neutral is not None else 1
            r.declare(ir.infix("==", ir.name(c), self._begin(LANES)) if n > LANES else TRUE, ways if ways > 1 else 0)
            self._lanes(c, n, ways, ident)
            if ways > 1:
                r.join_ways(ways)
            r.across_lanes(min(n, LANES))
            if self.team:
                r.across_parts(min(k.parts, max(n // (ways * LANES), 1)))
            r.store(ident, "program" if self.team else "sub_group")
        else:
            with k.nested() as columns:
                name = k.fresh("i")
                r.declare(ir.infix("==", ir.name(name), 0))
                ident[r.axis] = Index(ir.name(name))
                body = self._body(self._nest(ident, min(n, LANES) - 1))
                k.put(ir.Count(name, self.shape[r.axis], tuple(body)))
                r.store(ident, "")
            k.put(ir.Count(c, n, tuple(below(n, columns)), LANES, shared=True))

    def _short(self, r: Reduction) -> None:
        """Rows shorter than a vector: every lane has a result of its own and walks along the axis."""
        k, n = self.k, r.op.types[0].numel
        place, last, name = Index(ir.name("c"), 1, LANES), min(n, LANES) - 1, self.k.fresh("i")
        ident = list(element.positions(place, r.op.types[0].dims, last))
        ident.insert(r.axis, Index(ir.name(name)))
        with k.nested() as columns:
            r.declare(ir.infix("==", ir.name(name), 0))
            k.put(ir.Count(name, self.shape[r.axis], tuple(self._body(self._nest(ident, last)))))
            k.put(*(ir.Put(ir.at(p.code + place.code, LANE), x) for x, p in zip(r.accumulators, r.places, strict=True)))
        k.put(ir.Count("c", n, tuple(below(n, columns, place.code + ITEM)), LANES, shared=True))

    def _begin(self, step: int) -> Expr:
        """Where a sub-group begins."""
        return PART * step if self.team and self.k.parts > 1 else ir.value(0)

    def _turned_dimension(self) -> int | None:
        """The dimension along which more of what is read are neighbours in memory than along the last one, None without."""
        shape, lane = self.shape, lane_dimension(self.shape)
        others = [d for d, s in enumerate(shape) if d != lane and s % LANES == 0]
        if not others or shape[lane] % LANES or self.reduction or any(op.name in WRITES for op in self.ops):
            return None

        def scattered(along: int) -> int:
            ident = [element.const(0)] * len(shape)
            ident[along] = Index(ir.value(0), 1, LANES)
            nest = self._nest(ident, LANES - 1)
            self._version(nest, None, True, store=False)
            for name, _, _ in self.keep:
                nest.get(name)
            return nest.scattered

        best = min((lane, *others), key=scattered)  # the last one where no other is better
        return None if best == lane else best

    def _turned(self, along: int) -> None:
        """The lanes go along another dimension than the last; results are turned, 16 rows of 16 at a time."""
        k, shape, lane, row = self.k, self.shape, lane_dimension(self.shape), self.k.fresh("row")
        steps = [LANES if d in (lane, along) else 1 for d in range(len(shape))]
        first = [Index(ir.name(k.fresh("i")), 0, step) for step in steps]
        tiles = [ir.name(k.fresh("x")) for _ in self.keep]

        def inside(lanes: int, other: int) -> Nest:
            ident = list(first)
            ident[lanes], ident[other] = Index(first[lanes].code, 1, LANES), Index(first[other].code + ir.name(row))
            return self._nest(ident, LANES - 1)

        def each(body: Sequence[Node]) -> Node:
            return ir.Count(row, LANES, tuple(body), unroll=True)

        nest, results = inside(along, lane), inside(lane, along)
        nest.results = {array: ir.at(x, ir.name(row)) for (_, array, _), x in zip(self.keep, tiles, strict=True)}
        places = [results.array_place(array, results.ident, shape)[0] for _, array, _ in self.keep]
        body: list[Node] = [
            ir.Variable(x.text, cpp(t), None, LANES) for x, (_, _, t) in zip(tiles, self.keep, strict=True)
        ]
        body += [each(self._body(nest)), *(ir.Do(ir.call("tri::transpose", x, LANE)) for x in tiles)]
        body.append(each([ir.Put(p, ir.at(x, ir.name(row))) for p, x in zip(places, tiles, strict=True)]))
        most = max(range(len(shape)), key=lambda d: shape[d] // steps[d])
        for d in reversed(range(len(shape))):
            body = [ir.Count(first[d].code.text, shape[d], tuple(body), steps[d], shared=d == most)]
        k.put(*body)

    def _lanes(self, c: str, n: int, ways: int, ident: Sequence[Index]) -> None:
        """The loop along the lanes. Each version has loops of its own: in one loop the compiler joins them to one body with
        a mask, which computes both."""
        k, start, step, way = self.k, f"{c}_0", ways * LANES, ir.name("way")
        index = ir.name(start)
        v = self._versions(self._nest(ident, min(n, LANES) - 1), way if ways > 1 else None)

        def loop(body: list[Node], condition: Expr = TRUE) -> Node:
            at = index + way * LANES if ways > 1 else index
            inside = (ir.Let(c, "const size_t", at), *v.before, *(below(n, body) if body else ()))
            if ways > 1:
                inside = (ir.Count("way", ways, inside, unroll=True),)
            return ir.Vectors(start, n, step, inside, condition, self.team)

        k.put(ir.Let(start, "size_t", self._begin(step)))
        if v.conditions == TRUE:
            k.put(loop(v.first))
            return
        holds, all_hold = k.fresh("holds"), k.fresh("holds")
        k.put(ir.Function(holds, (f"size_t {c}",), tuple(v.before), v.conditions, False))
        together = max(step, n if n <= _TOGETHER else 0)
        each = ir.every(ir.call(holds, ir.name(c) + at) for at in range(0, together, LANES))
        k.put(ir.Function(all_hold, (f"size_t {c}",), (), each, False))
        if n <= together:
            k.put(ir.If(ir.call(all_hold, 0), (loop(v.first),), (loop(v.second),)))
            return
        # The compiler copies no broadcast, so that each loop leads to the other by way of this test. Without it the driver
        # gives up on vectors in some nests.
        more = ir.infix("<", ir.call("tri::uniform", ir.call("uint32_t", index)), n)
        here = ir.call(all_hold, index)
        k.put(ir.While(more, (loop(v.first, here), loop(v.second, ir.call("!", here)))))

    # ---- its body, in two versions
    def _body(self, nest: Nest) -> list[Node]:
        v = self._versions(nest, None)
        if v.conditions == TRUE:
            return [*v.before, *v.first]
        return [*v.before, ir.If(v.conditions, tuple(v.first), tuple(v.second))]

    def _versions(self, nest: Nest, way: Expr | None) -> _Versions:
        first = self._version(nest, way, True)
        conditions = ir.every(nest.conditions)
        return _Versions(conditions, nest.before, first, [] if conditions == TRUE else self._version(nest, way, False))

    def _version(self, nest: Nest, way: Expr | None, assume: bool, store: bool = True) -> list[Node]:
        nest.version(assume)
        for op in self.ops:
            if self.reduction is not None and op.name == "tt.reduce":
                self.reduction.accumulate(nest, way)
            elif op.name in _IN_LOOP:
                _IN_LOOP[op.name](nest, op)
            else:
                nest.define(op.results[0], nest.apply(op, [nest.get(o) for o in op.operands]))
        for name, array, elem in self.keep if store else ():
            value = nest.code(nest.get(name))
            place = nest.results.get(array) or nest.array_place(array, nest.ident, nest.shape)[0]
            source = self.k.values[name].ty.elem
            nest.body.append(ir.Put(place, value if source == elem else ir.call(cpp(elem), value)))
        return nest.body


# ---- operations in a loop


def _load(nest: Nest, op: Op) -> None:
    nest.define(op.results[0], nest.load(op))


def _write(nest: Nest, op: Op) -> None:
    pointer = nest.get(op.operands[0])
    mask = nest.mask(nest.get(op.operands[2]) if len(op.operands) > 2 else None)
    value = nest.code(nest.get(op.operands[1]))
    if mask != FALSE:
        nest.body.append(ir.Put(nest.place(pointer), value, when=mask))


def _atomic(nest: Nest, op: Op) -> None:
    pointer = nest.code(nest.get(op.operands[0]))
    values = [nest.code(nest.get(o)) for o in op.operands[1:]]
    mask = TRUE
    if op.name == "tt.atomic_rmw" and len(values) > 1:
        mask = nest.mask(nest.get(op.operands[2]))
        values = values[:1]
    call = atomic_call(op, pointer, values)
    if op.results and nest.state.uses.get(op.results[0]):
        elem = op.types[0].elem
        out = nest.state.variable(elem, into=nest.body)
        nest.body.append(ir.If(mask, (ir.Put(out, call),)))
        nest.define(op.results[0], Element(out, elem, None))
    else:
        nest.body.append(ir.If(mask, (ir.Do(call),)))


def atomic_call(op: Op, pointer: Expr, values: list[Expr]) -> Expr:
    """An atomic operation at one place."""
    name = "cas" if op.name == "tt.atomic_cas" else f"rmw_{op.words[0]}"
    return ir.call(f"tri::{name}", pointer, *values)


def _map(nest: Nest, op: Op) -> None:
    args = [nest.code(nest.get(o)) for o in op.operands]
    if op.integer("pack", 1) != 1:
        raise op.fail("pack other than 1")
    for r, t, code in zip(
        op.results, op.types, regions.inline(nest.state, op.regions[0], args, nest.body), strict=True
    ):
        nest.define(r, Element(code, t.elem, None))


def _assert(nest: Nest, op: Op) -> None:
    nest.body.append(assertion(nest.state, op, nest.code(nest.get(op.operands[0]))))


def assertion(k: State, op: Op, condition: Expr) -> Node:
    """Reports a text at the next synchronisation where the condition does not hold."""
    where = f"{op.where}: " if op.where else ""
    number = k.message(f"{where}device assertion: {op.attrs.get('text', '')}")
    return ir.Do(ir.call("xpu::gen::check", condition, "error", f"p.text{number}"))


def _print(nest: Nest, op: Op) -> None:
    elements = [nest.get(o) for o in op.operands]
    flat = nest.flat if nest.flat is not None else element.offset(nest.ident, nest.shape)
    nest.body += printed(nest.state, op, [(nest.code(e), e.elem) for e in elements], ir.call("int", flat.value))


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


_IN_LOOP: dict[str, Callable[[Nest, Op], None]] = {
    "tt.load": _load,
    "tt.store": _write,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.map_elementwise": _map,
    "tt.assert": _assert,
    "tt.print": _print,
}
