"""Operations in which elements meet: reduce, scan, dot, histogram."""

from __future__ import annotations

import math
import re

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr, Node
from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import loops, regions
from xpu_ops.triton.lower.element import LANE
from xpu_ops.triton.lower.loop import ITEM, PART, below, is_flat
from xpu_ops.triton.lower.state import State
from xpu_ops.triton.ttir import Op, Ty


def visit_reduce(k: State, op: Op) -> None:
    t = k.values[op.operands[0]].ty
    loops.flush_operands(k, op, None if is_flat(t.dims) else t.dims)
    k.pending.setdefault(t.dims, []).append(op)
    loops.flush(k, t.dims)


def _columns(n: int, body: list[Node]) -> Node:
    """A loop over n elements in which each lane has one of its own."""
    inside = below(n, body, ir.name("c") + ITEM)
    return ir.Count("c", n, tuple(inside), LANES, shared=True)


def _join(k: State, op: Op, index: str, accumulators: list[Expr], values: list[Expr]) -> None:
    """The elements of a step join the accumulators, which take the first ones."""
    with k.nested() as later:
        k.put(*regions.assigned(accumulators, regions.inline(k, op.regions[0], accumulators + values, later)))
    first = regions.assigned(accumulators, values)
    k.put(ir.If(ir.infix("==", ir.name(index), 0), tuple(first), tuple(later)))


def visit_scan(k: State, op: Op) -> None:
    """tt.scan: 16 elements at a time (Hillis, Steele 1986) with a carry, or a column per lane."""
    sources = [loops.materialise(k, o) for o in op.operands]
    arrays = [k.array(t) for t in op.types]
    shape, axis = op.types[0].dims, op.integer("axis")
    n = shape[axis]
    inner, outer = math.prod(shape[axis + 1 :]), math.prod(shape[:axis])
    reverse = op.attrs.get("reverse", "false").startswith("true")
    wide = regions.accumulating(op)
    if inner == 1:
        _scan_rows(k, wide, sources, arrays, n, outer, reverse)
    else:
        _scan_columns(k, wide, sources, arrays, n, inner, outer, reverse)
    k.put(ir.Sync())
    for r, t, array in zip(op.results, op.types, arrays, strict=True):
        k.set_array(r, t, array)


def _scan_rows(k: State, op: Op, sources: list[Expr], arrays: list[Expr], n: int, outer: int, reverse: bool) -> None:
    block, row, c = op.regions[0], ir.name("o") * n, ir.name("c")
    at = row + (n - 1) - c - LANE if reverse else row + c + LANE
    live = ir.infix("<", ITEM, n) if n < LANES else ir.TRUE
    with k.nested() as rows:
        carry = [k.variable(t.elem, "carry") for t in op.types]
        with k.nested() as body:
            x = [k.variable(t.elem, "x") for t in op.types]
            k.put(*(ir.Put(a, ir.at(s, at), live) for a, s in zip(x, sources, strict=True)))
            step = 1
            while step < min(n, LANES):
                y = [k.let(t.elem, ir.call("tri::below", a, step), "y") for t, a in zip(op.types, x, strict=True)]
                with k.nested() as joined:
                    k.put(*regions.assigned(x, regions.inline(k, block, y + x, joined)))
                k.put(ir.If(ir.infix(">=", LANE, step), tuple(joined)))
                step *= 2
            if n > LANES:
                with k.nested() as joined:
                    k.put(*regions.assigned(x, regions.inline(k, block, carry + x, joined)))
                k.put(ir.If(ir.infix("!=", c, 0), tuple(joined)))
                k.put(*regions.assigned(carry, [ir.call("tri::of_lane", a, LANES - 1) for a in x]))
            k.put(*(ir.Put(ir.at(b, at), a, live) for a, b in zip(x, arrays, strict=True)))
        k.put(ir.Count("c", n, tuple(body), LANES))
    k.put(ir.Count("o", outer, tuple(rows), shared=True))


def _scan_columns(
    k: State, op: Op, sources: list[Expr], arrays: list[Expr], n: int, inner: int, outer: int, reverse: bool
) -> None:
    column, at, i, place = ir.name("column"), ir.name("at"), ir.name("i"), ir.name("c") + LANE
    with k.nested() as body:
        k.put(ir.Let("column", "const size_t", place // inner * (inner * n) + place % inner))
        accumulators = [k.variable(t.elem, "acc") for t in op.types]
        with k.nested() as each:
            step = ir.value(n - 1) - i if reverse else i
            k.put(ir.Let("at", "const size_t", column + step * inner))
            _join(k, op, "i", accumulators, [ir.at(s, at) for s in sources])
            k.put(*(ir.Put(ir.at(b, at), a) for a, b in zip(accumulators, arrays, strict=True)))
        k.put(ir.Count("i", n, tuple(each)))
    k.put(_columns(outer * inner, body))


def visit_histogram(k: State, op: Op) -> None:
    """tt.histogram: one lane counts. Values out of range and masked ones do not count."""
    source, t = loops.materialise(k, op.operands[0]), op.types[0]
    mask = [loops.materialise(k, o) for o in op.operands[1:]]
    n, bins, i = k.values[op.operands[0]].ty.numel, t.numel, ir.name("i")
    array = k.array(t)
    value = ir.call("size_t", ir.at(source, i))
    inside = ir.every([ir.infix("<", value, bins), *(ir.at(m, i) for m in mask)])
    place = ir.at(array, value)
    count = ir.Count("i", n, (ir.Put(place, place + 1, inside),))
    k.put(_columns(bins, [ir.Put(ir.at(array + "c", LANE), ir.value(0))]), ir.Sync(), ir.One((count,)), ir.Sync())
    k.set_array(op.results[0], t, array)


_PLAIN = {"e4m3": "f8e4m3fn", "e5m2": "f8e5m2", "bf16": "bf16", "fp16": "half"}
_FORMATS = {"e2m1": "tri::E2M1", **{name: f"tri::Plain<xpu::{element}>" for name, element in _PLAIN.items()}}


def visit_dot(k: State, op: Op) -> None:
    """tt.dot: c += a b on arrays, in place of c where nothing else reads it."""
    a, b, c = op.operands[:3]
    _multiply(k, op, loops.materialise(k, a), loops.materialise(k, b), c, k.values[a].ty.dims[-1])


def visit_dot_scaled(k: State, op: Op) -> None:
    """tt.dot_scaled: a dot of operands that are widened to float first."""
    m = re.search(r"dot_scaled %[^ ,]+( scale %[^ ,]+)?, %[^ ,]+( scale %[^ ,]+)?,", op.text)
    if m is None:
        raise op.fail(op.text)
    rest = list(op.operands)
    wide = []
    out = op.types[0].dims
    for side, has_scale in enumerate((m[1], m[2])):
        name = rest.pop(0)
        scale = loops.materialise(k, rest.pop(0)) if has_scale else ir.name("nullptr")
        kind = op.attrs[("lhs", "rhs")[side]]
        if kind not in _FORMATS:
            raise op.fail(f"format {kind}")
        k_pack = op.attrs.get(f"{('lhs', 'rhs')[side]}_k_pack", "true") != "false"
        source = loops.materialise(k, name)
        shape = k.values[name].ty.dims
        if len(shape) != 2:
            raise op.fail("a batch")
        depth = shape[1 - side] * (2 if kind == "e2m1" and k_pack else 1)
        rows, columns = (out[0], depth) if side == 0 else (depth, out[1])
        group = depth // (k.values[op.operands[1 if side == 0 else -2]].ty.shape or (1,))[-1] if has_scale else 32
        packed = 1 - side if k_pack else side
        array = k.array(Ty("f32", (rows, columns)))
        sizes = (rows, columns, 1 - side, group, packed)
        item = (LANE,) if k.parts == 1 else (LANE + PART * LANES, k.parts * LANES)
        k.put(ir.Do(ir.call(f"tri::scaled<{_FORMATS[kind]}>", array, source, scale, *sizes, *item)))
        wide.append((array, depth))
    k.put(ir.Sync())
    _multiply(k, op, wide[0][0], wide[1][0], rest[0], wide[0][1])


def _multiply(k: State, op: Op, left: Expr, right: Expr, c: str, depth: int) -> None:
    t = op.types[0]
    if k.values[c].kind == "pending":
        loops.flush(k, t.dims)
    v = k.values[c]
    if v.kind == "array" and v.region == k.region and all(u is op for u in k.uses.get(c, [])):
        out = v.code
    else:
        out = loops.copy(k, c, k.array(t))
    shape = t.dims
    batch = shape[0] if len(shape) == 3 else 1
    m, n = shape[-2], shape[-1]
    for i in range(batch):
        blocks = (out + i * m * n, left + i * m * depth, right + i * depth * n)
        item = (LANE,) if k.parts == 1 else (LANE, PART, k.parts)
        k.put(ir.Do(ir.call(f"tri::dot<{m}, {n}, {depth}>", *blocks, *item)))
    k.put(ir.Sync())
    k.set_array(op.results[0], t, out)
