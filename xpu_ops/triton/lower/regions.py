"""Blocks of operations, and regions over scalars, written in place: what a reduction or a scan combines with."""

from __future__ import annotations

import copy
import math

from xpu_ops.block import ir
from xpu_ops.block.ir import Assign, Expr, Let, Node
from xpu_ops.block.types import ELEMENTS, literal
from xpu_ops.triton.lower.scalar import ELEMENTWISE
from xpu_ops.triton.lower.state import State, Value
from xpu_ops.triton.lower.types import SMALL_FLOATS, cpp
from xpu_ops.triton.ttir import Block, Op, Ty

_CONTROL = ("arith.constant", "scf.", "cf.")
_NEUTRAL = {
    **{"arith.addf": -0.0, "arith.mulf": 1.0, "arith.maximumf": -math.inf, "arith.minimumf": math.inf},
    **dict.fromkeys(("arith.maxnumf", "arith.minnumf"), math.nan),
    **dict.fromkeys(("arith.addi", "arith.ori", "arith.xori", "arith.maxui"), 0),
    "arith.muli": 1,
}


def neutral(op: Op) -> Expr | None:
    """The neutral element of a reduction by one operation of both arguments, where it has one."""
    body = op.regions[0][0].ops
    if len(body) != 2 or body[0].name not in _NEUTRAL or len(op.results) != 1:
        return None
    if sorted(body[0].operands) != sorted(n for n, _ in op.regions[0][0].args) or body[1].operands != body[0].results:
        return None
    elem = op.types[0].elem
    value = _NEUTRAL[body[0].name]
    text = literal(value, ELEMENTS["f32"]) if isinstance(value, float) else str(value)
    return None if elem == "i1" else ir.call(cpp(elem), ir.name(text))


def accumulating(op: Op) -> Op:
    """The reduction or scan with 16-bit floats kept in float between its steps, where it adds or multiplies."""
    body = op.regions[0][0].ops
    if op.types[0].elem not in SMALL_FLOATS or len(body) != 2 or body[0].name not in ("arith.addf", "arith.mulf"):
        return op
    wide = copy.deepcopy(op)
    wide.types = [t.of("f32") for t in op.types]
    block = wide.regions[0][0]
    block.args = [(n, Ty("f32")) for n, _ in block.args]
    block.ops[0].types = [Ty("f32")]
    return wide


def inline(k: State, blocks: list[Block], arguments: list[Expr], into: list[Node]) -> list[Expr]:
    """Write the operations of a region for these arguments; what it returns."""
    for inner in (x for b in blocks for op in b.ops for x in op.walk()):
        if inner.name not in ELEMENTWISE and not inner.name.startswith(_CONTROL) and not inner.name.endswith(".return"):
            raise inner.fail("in the region of a reduction")
    several, out = len(blocks) > 1, list[Expr]()

    def leave(end: Op) -> None:
        copies = [ir.name(k.fresh()) for _ in end.operands]  # what returns an argument must not see it change
        k.put(*(Let(c.text, "const auto", k.scalar(o)) for c, o in zip(copies, end.operands, strict=True)))
        if several:
            k.put(*assigned(out, copies))
        else:
            out.extend(copies)

    with k.scalars(into), k.graph({b.label: b for b in blocks}, leave):
        k.bind(blocks[0].args, [Value(t, "scalar", a) for (_, t), a in zip(blocks[0].args, arguments, strict=True)])
        if several:
            types = {n: t for b in blocks for n, t in b.args}
            types |= {r: t for b in blocks for op in b.ops for r, t in zip(op.results, op.types, strict=True)}
            end = next(b.ops[-1] for b in blocks if not b.ops[-1].targets)
            out += [k.variable((types.get(o) or k.values[o].ty).elem) for o in end.operands]
        run(k, blocks[0])
    return out


def body(k: State, block: Block) -> Op | None:
    """Write the operations of a block; its end, None where it branches."""
    k.done -= {id(inner) for op in block.ops for inner in op.walk()}
    with k.block(block.ops):
        for op in block.ops:
            if op.name.endswith((".return", ".yield", ".condition")):
                return op
            k.visit(op)
    return None


def run(k: State, block: Block) -> None:
    """A block and all that it leads to. A block with two predecessors is written twice."""
    if (end := body(k, block)) is not None:
        k.leave(end)


def assigned(out: list[Expr], values: list[Expr]) -> list[Node]:
    """Variables get these values."""
    return [Assign(a.text, b) for a, b in zip(out, values, strict=True)]
