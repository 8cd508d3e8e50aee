"""Regions over scalars, written in place: what a reduction or a scan combines with."""

from __future__ import annotations

import copy

from xpu_ops.block import ir
from xpu_ops.block.ir import Assign, Expr, Let, Node
from xpu_ops.triton.lower.scalar import ELEMENTWISE, constant, expression
from xpu_ops.triton.lower.state import State
from xpu_ops.triton.lower.types import SMALL_FLOATS, cpp, is_float
from xpu_ops.triton.ttir import Block, Op, Ty, Unsupported

_NEUTRAL = {
    "arith.addf": "-0.0f",
    "arith.mulf": "1.0f",
    "arith.maxnumf": '__builtin_nanf("")',
    "arith.minnumf": '__builtin_nanf("")',
    "arith.maximumf": "-__builtin_inff()",
    "arith.minimumf": "__builtin_inff()",
    "arith.addi": "0",
    "arith.ori": "0",
    "arith.xori": "0",
    "arith.maxui": "0",
    "arith.muli": "1",
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
    return ir.call(cpp(elem), ir.name(value)) if is_float(elem) or elem != "i1" else None


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
    names = {n: a for (n, _), a in zip(blocks[0].args, arguments, strict=True)}
    types = {n: t for b in blocks for n, t in b.args}
    if len(blocks) == 1:
        return _ops(k, blocks[0].ops, names, types, into)
    end = next(op for b in blocks for op in b.ops if op.name.endswith(".return"))
    made = {r: t for b in blocks for op in b.ops for r, t in zip(op.results, op.types, strict=True)}
    out = [k.variable((made.get(o) or types.get(o) or k.values[o].ty).elem, into=into) for o in end.operands]
    _graph(k, {b.label: b for b in blocks}, blocks[0], names, types, into, out)
    return out


def _graph(
    k: State,
    blocks: dict[str, Block],
    block: Block,
    names: dict[str, Expr],
    types: dict[str, Ty],
    into: list[Node],
    out: list[Expr],
) -> None:
    """A block and what it leads to."""
    results = _ops(k, block.ops, names, types, into)
    end = block.ops[-1]
    if not end.targets:
        into += assigned(out, results)
        return
    sides: list[list[Node]] = []
    for label, values in end.targets:
        sides.append(into if len(end.targets) == 1 else [])
        target = blocks[label]
        inner = {**names, **{n: names.get(v) or k.scalar(v) for (n, _), v in zip(target.args, values, strict=True)}}
        _graph(k, blocks, target, inner, dict(types), sides[-1], out)
    if len(sides) == 2:
        into.append(ir.Either(results[0], tuple(sides[0]), tuple(sides[1])))


def assigned(out: list[Expr], values: list[Expr]) -> list[Node]:
    """Variables get these values."""
    return [Assign(a.text, b) for a, b in zip(out, values, strict=True)]


def _ops(k: State, ops: list[Op], names: dict[str, Expr], types: dict[str, Ty], into: list[Node]) -> list[Expr]:
    def value(name: str) -> Expr:
        return names[name] if name in names else k.scalar(name)

    for op in ops:
        if op.name.endswith(".return") or op.name in ("scf.yield", "cf.br", "cf.cond_br"):
            out = []
            for o in op.operands:  # copies: what returns an argument must not see it change
                out.append(ir.name(k.fresh()))
                into.append(Let(out[-1].text, "const auto", value(o), cast=False))
            return out
        if op.name == "arith.constant":
            names[op.results[0]] = constant(op)
        elif op.name == "scf.if":
            _if(k, op, value(op.operands[0]), names, types, into)
        elif op.name in ELEMENTWISE:
            arg_types = [types[o] if o in types else k.values[o].ty for o in op.operands]
            code = expression(op, [value(o) for o in op.operands], arg_types, op.types[0])
            names[op.results[0]] = k.let(op.types[0].elem, code, into=into)
        else:
            raise op.fail("in the region of a reduction")
        types.update(zip(op.results, op.types, strict=True))
    raise Unsupported("a region that returns nothing")


def _if(k: State, op: Op, condition: Expr, names: dict[str, Expr], types: dict[str, Ty], into: list[Node]) -> None:
    out = [k.variable(t.elem, into=into) for t in op.types]
    sides: list[list[Node]] = []
    for region in op.regions:
        sides.append([])
        results = _ops(k, region[0].ops, dict(names), dict(types), sides[-1]) if out else []
        sides[-1] += assigned(out, results)
    into.append(ir.Either(condition, *map(tuple, [*sides, []][:2])))
    names.update(zip(op.results, out, strict=True))
