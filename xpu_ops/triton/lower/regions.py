"""Regions over scalars, written in place: what a reduction or a scan combines with."""

from __future__ import annotations

import copy

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


def neutral(op: Op) -> str | None:
    """The neutral element of a reduction by one operation of both arguments, where it has one."""
    body = op.regions[0][0].ops
    if len(body) != 2 or body[0].name not in _NEUTRAL or len(op.results) != 1:
        return None
    if sorted(body[0].operands) != sorted(n for n, _ in op.regions[0][0].args) or body[1].operands != body[0].results:
        return None
    elem = op.types[0].elem
    value = _NEUTRAL[body[0].name]
    return f"{cpp(elem)}({value})" if is_float(elem) or elem != "i1" else None


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


def inline(k: State, blocks: list[Block], arguments: list[str], lines: list[str]) -> list[str]:
    """Write the operations of a region for these arguments; the expressions of what it returns."""
    names = {n: a for (n, _), a in zip(blocks[0].args, arguments, strict=True)}
    types = {n: t for b in blocks for n, t in b.args}
    if len(blocks) == 1:
        return _ops(k, blocks[0].ops, names, types, lines)
    end = next(op for b in blocks for op in b.ops if op.name.endswith(".return"))
    made = {r: t for b in blocks for op in b.ops for r, t in zip(op.results, op.types, strict=True)}
    out = [k.fresh() for _ in end.operands]
    for name, o in zip(out, end.operands, strict=True):
        elem = (made.get(o) or types.get(o) or k.values[o].ty).elem
        lines.append(f"{cpp(elem)} {name}{{}};")
    _graph(k, {b.label: b for b in blocks}, blocks[0], names, types, lines, out)
    return out


def _graph(
    k: State,
    blocks: dict[str, Block],
    block: Block,
    names: dict[str, str],
    types: dict[str, Ty],
    lines: list[str],
    out: list[str],
) -> None:
    """A block and what it leads to."""
    results = _ops(k, block.ops, names, types, lines)
    end = block.ops[-1]
    if not end.targets:
        lines += [f"{a} = {b};" for a, b in zip(out, results, strict=True)]
        return
    for i, (label, values) in enumerate(end.targets):
        if len(end.targets) == 2:
            lines.append(f"if ({results[0]}) {{" if i == 0 else "} else {")
        target = blocks[label]
        inner = {**names, **{n: names.get(v) or k.scalar(v) for (n, _), v in zip(target.args, values, strict=True)}}
        _graph(k, blocks, target, inner, dict(types), lines, out)
    if len(end.targets) == 2:
        lines.append("}")


def _ops(k: State, ops: list[Op], names: dict[str, str], types: dict[str, Ty], lines: list[str]) -> list[str]:
    def value(name: str) -> str:
        return names[name] if name in names else k.scalar(name)

    for op in ops:
        if op.name.endswith(".return") or op.name in ("scf.yield", "cf.br", "cf.cond_br"):
            out = []
            for o in op.operands:  # copies: what returns an argument must not see it change
                name = k.fresh()
                lines.append(f"const auto {name} = {value(o)};")
                out.append(name)
            return out
        if op.name == "arith.constant":
            names[op.results[0]] = constant(op)
        elif op.name == "scf.if":
            _if(k, op, value(op.operands[0]), names, types, lines)
        elif op.name in ELEMENTWISE:
            args = [value(o) for o in op.operands]
            arg_types = [types[o] if o in types else k.values[o].ty for o in op.operands]
            name = k.fresh()
            code = expression(op, args, arg_types, op.types[0])
            lines.append(f"{cpp(op.types[0].elem)} const {name} = {code};")
            names[op.results[0]] = name
        else:
            raise op.fail("in the region of a reduction")
        types.update(zip(op.results, op.types, strict=True))
    raise Unsupported("a region that returns nothing")


def _if(k: State, op: Op, condition: str, names: dict[str, str], types: dict[str, Ty], lines: list[str]) -> None:
    out = [k.fresh() for _ in op.results]
    lines += [f"{cpp(t.elem)} {n}{{}};" for n, t in zip(out, op.types, strict=True)]
    for i, region in enumerate(op.regions):
        lines.append(f"if ({condition}) {{" if i == 0 else "} else {")
        results = _ops(k, region[0].ops, dict(names), dict(types), lines) if out else []
        lines += [f"{a} = {b};" for a, b in zip(out, results, strict=True)]
    lines.append("}")
    names.update(zip(op.results, out, strict=True))
