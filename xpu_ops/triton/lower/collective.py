"""Operations in which elements meet: reduce, scan, dot, histogram."""

from __future__ import annotations

import re

from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import element, loops, regions
from xpu_ops.triton.lower.element import Index
from xpu_ops.triton.lower.nest import Nest
from xpu_ops.triton.lower.state import State, Value
from xpu_ops.triton.lower.types import cpp
from xpu_ops.triton.ttir import Op, Ty


def visit_reduce(k: State, op: Op) -> None:
    t = k.values[op.operands[0]].ty
    shape, axis = t.shape or (), op.integer("axis")
    if loops.is_flat(shape):
        _reduce_short(k, op, axis)
        return
    for o in op.operands:
        v = k.values[o]
        if v.kind == "pending" and v.ty.shape != shape:
            loops.flush(k, v.ty.shape or ())
    k.pending.setdefault(shape, []).append(op)
    loops.flush(k, shape)


def _reduce_short(k: State, op: Op, axis: int) -> None:
    """Rows shorter than a vector: every lane has a result of its own and walks along the axis."""
    for o in op.operands:
        if k.values[o].kind == "pending":
            loops.flush(k, k.values[o].ty.shape or ())
    shape = k.values[op.operands[0]].ty.shape or ()
    results, op = op, regions.accumulating(op)
    out = op.types[0].shape or ()
    n = op.types[0].numel
    arrays = [k.array(t) for t in results.types]
    accumulators = [k.fresh("acc") for _ in arrays]
    at = k.fresh("i")
    k.put("{", f"for (size_t c = 0; c < {n}; c += {LANES}) {{")
    if n % LANES:
        k.put(f"if (c + item < {n}) {{")
    k.put(*(f"{cpp(t.elem)} {a}{{}};" for a, t in zip(accumulators, op.types, strict=True)))
    k.put(f"for (size_t {at} = 0; {at} < {shape[axis]}; ++{at}) {{")
    last = min(n, LANES) - 1
    outer = element.positions(Index("c", 1, LANES), out, last)
    nest = Nest(k, shape, (*outer[:axis], Index(at), *outer[axis:]), None, last)
    values = [nest.code(nest.get(o)) for o in op.operands]
    k.put(*nest.before, *nest.lines)
    k.put(f"if ({at} == 0) {{", *(f"{a} = {v};" for a, v in zip(accumulators, values, strict=True)), "} else {")
    combined = regions.inline(k, op.regions[0], accumulators + values, k.lines)
    k.put(*(f"{a} = {x};" for a, x in zip(accumulators, combined, strict=True)), "}}")
    k.put(*(f"({b} + c)[lane] = {a};" for a, b in zip(accumulators, arrays, strict=True)))
    k.put("}}" if n % LANES else "}", "}", "tri::sync();")
    for r, t, array in zip(op.results, results.types, arrays, strict=True):
        if t.shape is None:
            name = k.fresh("r")
            k.put(f"{cpp(t.elem)} const {name} = {array}[0];")
            k.values[r] = Value(t, "scalar", name)
        else:
            k.set_array(r, t, array)


def visit_scan(k: State, op: Op) -> None:
    """tt.scan: 16 elements at a time (Hillis, Steele 1986) with a carry, or a column per lane."""
    sources = [loops.materialise(k, o) for o in op.operands]
    arrays = [k.array(t) for t in op.types]
    shape, axis = op.types[0].shape or (), op.integer("axis")
    n = shape[axis]
    inner = 1
    for s in shape[axis + 1 :]:
        inner *= s
    outer = op.types[0].numel // n // inner
    reverse = op.attrs.get("reverse", "false").startswith("true")
    wide = regions.accumulating(op)
    (_scan_rows if inner == 1 else _scan_columns)(k, wide, sources, arrays, n, inner, outer, reverse)
    k.put("tri::sync();")
    for r, t, array in zip(op.results, op.types, arrays, strict=True):
        k.set_array(r, t, array)


def _scan_rows(
    k: State, op: Op, sources: list[str], arrays: list[str], n: int, inner: int, outer: int, reverse: bool
) -> None:
    block = op.regions[0]
    types = [cpp(t.elem) for t in op.types]
    carry, x, y = ([k.fresh(p) for _ in sources] for p in ("carry", "x", "y"))
    k.put(f"for (size_t o = 0; o < {outer}; ++o) {{")
    k.put(*(f"{T} {c}{{}};" for T, c in zip(types, carry, strict=True)))
    k.put(f"for (size_t c = 0; c < {n}; c += {LANES}) {{")
    at = f"o * {n} + {n - 1} - c - lane" if reverse else f"o * {n} + c + lane"
    live = f"item < {n}" if n < LANES else "true"
    for T, a, s in zip(types, x, sources, strict=True):
        k.put(f"{T} {a}{{}};", f"if ({live}) {a} = {s}[{at}];")
    step = 1
    while step < min(n, LANES):
        k.put("{", *(f"{T} const {b} = tri::below({a}, {step});" for T, a, b in zip(types, x, y, strict=True)))
        k.put(f"if (lane >= {step}) {{")
        combined = regions.inline(k, block, y + x, k.lines)
        k.put(*(f"{a} = {v};" for a, v in zip(x, combined, strict=True)), "}}")
        step *= 2
    if n > LANES:
        k.put("if (c != 0) {")
        combined = regions.inline(k, block, carry + x, k.lines)
        k.put(*(f"{a} = {v};" for a, v in zip(x, combined, strict=True)), "}")
        k.put(*(f"{c} = tri::of_lane({a}, {LANES - 1});" for c, a in zip(carry, x, strict=True)))
    k.put(*(f"if ({live}) {b}[{at}] = {a};" for a, b in zip(x, arrays, strict=True)), "}}")


def _scan_columns(
    k: State, op: Op, sources: list[str], arrays: list[str], n: int, inner: int, outer: int, reverse: bool
) -> None:
    count = outer * inner
    accumulators = [k.fresh("acc") for _ in sources]
    k.put(f"for (size_t c = 0; c < {count}; c += {LANES}) if (c + item < {count}) {{")
    k.put(f"const size_t column = (c + lane) / {inner} * {inner * n} + (c + lane) % {inner};")
    k.put(*(f"{cpp(t.elem)} {a}{{}};" for a, t in zip(accumulators, op.types, strict=True)))
    k.put(f"for (size_t i = 0; i < {n}; ++i) {{")
    k.put(f"const size_t at = column + {f'({n - 1} - i)' if reverse else 'i'} * {inner};")
    values = [f"{s}[at]" for s in sources]
    k.put("if (i == 0) {", *(f"{a} = {v};" for a, v in zip(accumulators, values, strict=True)), "} else {")
    combined = regions.inline(k, op.regions[0], accumulators + values, k.lines)
    k.put(*(f"{a} = {v};" for a, v in zip(accumulators, combined, strict=True)), "}")
    k.put(*(f"{b}[at] = {a};" for a, b in zip(accumulators, arrays, strict=True)), "}}")


def visit_histogram(k: State, op: Op) -> None:
    """tt.histogram: one lane counts. Values out of range and masked ones do not count."""
    source, t = loops.materialise(k, op.operands[0]), op.types[0]
    mask = loops.materialise(k, op.operands[1]) if len(op.operands) > 1 else None
    n, bins = k.values[op.operands[0]].ty.numel, t.numel
    array = k.array(t)
    k.put(f"for (size_t c = 0; c < {bins}; c += {LANES}) if (c + item < {bins}) {array}[c + lane] = 0;")
    k.put("tri::sync();", f"if (item == 0) for (size_t i = 0; i < {n}; ++i) {{")
    inside = f"size_t({source}[i]) < {bins}" + (f" && {mask}[i]" if mask else "")
    k.put(f"if ({inside}) {array}[size_t({source}[i])] += 1;", "}", "tri::sync();")
    k.set_array(op.results[0], t, array)


_FORMATS = {
    "e4m3": "tri::Plain<xpu::f8e4m3fn>",
    "e5m2": "tri::Plain<xpu::f8e5m2>",
    "bf16": "tri::Plain<xpu::bf16>",
    "fp16": "tri::Plain<xpu::half>",
    "e2m1": "tri::E2M1",
}


def visit_dot(k: State, op: Op) -> None:
    """tt.dot: c += a b on arrays, in place of c where nothing else reads it."""
    a, b, c = op.operands[:3]
    left, right = loops.materialise(k, a), loops.materialise(k, b)
    shape = k.values[a].ty.shape or ()
    _multiply(k, op, left, right, c, shape[-1])


def visit_dot_scaled(k: State, op: Op) -> None:
    """tt.dot_scaled: a dot of operands that are widened to float first."""
    m = re.search(r"dot_scaled %[^ ,]+( scale %[^ ,]+)?, %[^ ,]+( scale %[^ ,]+)?,", op.text)
    if m is None:
        raise op.fail(op.text)
    rest = list(op.operands)
    wide = []
    out = op.types[0].shape or ()
    for side, has_scale in enumerate((m[1], m[2])):
        name = rest.pop(0)
        scale = loops.materialise(k, rest.pop(0)) if has_scale else "nullptr"
        kind = op.attrs[("lhs", "rhs")[side]]
        if kind not in _FORMATS:
            raise op.fail(f"format {kind}")
        k_pack = op.attrs.get(f"{('lhs', 'rhs')[side]}_k_pack", "true") != "false"
        source = loops.materialise(k, name)
        shape = k.values[name].ty.shape or ()
        if len(shape) != 2:
            raise op.fail("a batch")
        depth = shape[1 - side] * (2 if kind == "e2m1" and k_pack else 1)
        rows, columns = (out[0], depth) if side == 0 else (depth, out[1])
        group = depth // (k.values[op.operands[1 if side == 0 else -2]].ty.shape or (1,))[-1] if has_scale else 32
        packed = 1 - side if k_pack else side
        array = k.array(Ty("f32", (rows, columns)))
        call = f"tri::scaled<{_FORMATS[kind]}>({array}, {source}, {scale}, {rows}, {columns}, {1 - side}, {group}, {packed}, lane);"
        k.put(call)
        wide.append((array, depth))
    k.put("tri::sync();")
    _multiply(k, op, wide[0][0], wide[1][0], rest[0], wide[0][1])


def _multiply(k: State, op: Op, left: str, right: str, c: str, depth: int) -> None:
    t = op.types[0]
    if k.values[c].kind == "pending":
        loops.flush(k, t.shape or ())
    v = k.values[c]
    if v.kind == "array" and v.region == k.region and all(u is op for u in k.uses.get(c, [])):
        out = v.code
    else:
        out = loops.copy(k, c, k.array(t))
    shape = t.shape or ()
    batch = shape[0] if len(shape) == 3 else 1
    m, n = shape[-2], shape[-1]
    for i in range(batch):
        offsets = f"{out} + {i * m * n}, {left} + {i * m * depth}, {right} + {i * depth * n}"
        k.put(f"tri::dot<{m}, {n}, {depth}>({offsets}, lane);")
    k.put("tri::sync();")
    k.set_array(op.results[0], t, out)
