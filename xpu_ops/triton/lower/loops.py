"""Elementwise operations, loads and stores of one shape are collected and become one loop over the block."""

from __future__ import annotations

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr
from xpu_ops.triton.lower import again
from xpu_ops.triton.lower.loop import WRITES, Keep, Loop
from xpu_ops.triton.lower.scalar import CHEAP, expression
from xpu_ops.triton.lower.state import Shape, State, Value
from xpu_ops.triton.lower.types import SMALL_FLOATS
from xpu_ops.triton.ttir import Op, Ty


def add(k: State, op: Op, shape: Shape) -> None:
    """Put an operation into the pending loop of its shape."""
    flush_operands(k, op, shape)
    k.pending.setdefault(shape, []).append(op)
    for r, t in zip(op.results, op.types, strict=True):
        k.values[r] = Value(t, "pending", op=op)


def flush_operands(k: State, op: Op, shape: Shape | None = None) -> None:
    """Write the loops that compute operands, but for one of this shape."""
    for o in op.operands:
        if k.values[o].kind == "pending" and k.values[o].ty.dims != shape:
            flush(k, k.values[o].ty.dims)


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
    flush_operands(k, op)
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
    Loop(k, shape, ops, keep).run()
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
        flush(k, v.ty.dims)
        v = k.values[name]
    if v.kind != "array":
        array = copy(k, name, k.array(v.ty))
        k.set_array(name, v.ty, array)
        return array
    return v.code


def copy(k: State, name: str, array: Expr) -> Expr:
    """Write a value into an array."""
    v = k.values[name]
    Loop(k, v.ty.dims, [], [(name, array, v.ty.elem)]).run()
    return array
