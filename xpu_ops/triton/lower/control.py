"""Control flow as that of C++, and the values that it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr
from xpu_ops.triton.lower import loops, regions
from xpu_ops.triton.lower.nest import VIEWS
from xpu_ops.triton.lower.scalar import constant
from xpu_ops.triton.lower.state import State, Value
from xpu_ops.triton.lower.stride import takes_rows_of_all
from xpu_ops.triton.lower.types import cpp
from xpu_ops.triton.ttir import Op, Ty, instance

# ---- branches


def visit_branch(k: State, op: Op) -> None:
    """cf.br, cf.cond_br: what a block leads to, in its place."""
    loops.flush_all(k)
    if op.name == "cf.br":
        _jump(k, *op.targets[0])
        return
    sides = []
    for target in op.targets:
        with k.inner(), k.nested() as side:
            _jump(k, *target)
        sides.append(tuple(side))
    k.put(ir.If(k.scalar(op.operands[0]), *sides))


def _jump(k: State, label: str, arguments: list[str]) -> None:
    block = next(blocks[label] for blocks in reversed(k.blocks) if label in blocks)
    if k.size > 200_000:
        raise block.ops[0].fail("too many ways through the function")
    values = [k.values[a] for a in arguments]
    for v in values:
        v.own = False
    k.bind(block.args, values)
    regions.run(k, block)


# ---- carried values


def _added(k: State, op: Op, position: int) -> list[str] | None:
    """The tensors that a loop adds to one that it carries, each the same scalar everywhere; None where it does more to it."""
    yielded = op.regions[0][0].ops[-1].operands[position]
    carried = op.regions[0][0].args[position + 1][0]
    makers = {r: o for o in op.regions[0][0].ops for r in o.results}
    out: list[str] = []
    while yielded != carried:
        maker = makers.get(yielded)
        if maker is None or maker.name not in ("tt.addptr", "arith.addi"):
            return None
        a, b = maker.operands
        if maker.name == "arith.addi" and not _same_everywhere(k, b, makers):
            a, b = b, a
        if not _same_everywhere(k, b, makers):
            return None
        yielded = a
        out.append(b)
    return out


def _same_everywhere(k: State, name: str, makers: dict[str, Op]) -> bool:
    op = makers.get(name) or (k.values[name].op if name in k.values else None)
    if op is not None and op.name in ("tt.broadcast", "tt.expand_dims", "arith.extsi"):
        return _same_everywhere(k, op.operands[0], makers)
    return op is not None and op.name in ("tt.splat", "arith.constant")


def _by(k: State, name: str) -> Expr:
    """The scalar that all elements of a tensor are."""
    v = k.values[name]
    if v.kind == "scalar" or v.op is None:
        return v.code
    if not v.op.operands:
        return constant(v.op)
    by = _by(k, v.op.operands[0])
    return ir.call("int64_t", by) if v.op.name == "arith.extsi" else by


def _enter(
    k: State, args: list[tuple[str, Ty]], inits: list[str], added: Sequence[list[str] | None] = ()
) -> list[Value]:
    """Storage for carried values, with the first ones in it. `added`: as _added says of each."""
    out = []
    for (_, t), init, steps in zip(args, inits, added or [None] * len(args), strict=True):
        if t.shape is None:
            out.append(Value(t, "scalar", k.variable(t.elem, "m", k.scalar(init))))
            continue
        v = k.values[init]
        if steps is not None and v.kind in ("lazy", "moved"):
            by = k.variable("i64" if t.pointer else t.elem, "by", ir.value(0))
            out.append(Value(t, "moved", by, init=init, steps=tuple(steps)))
            continue
        if v.kind == "pending":
            loops.flush(k, t.shape)
        out.append(Value(t, "array", loops.copy(k, init, k.array(t)), region=k.region))
    return out


def _bind(k: State, names: list[str], places: list[Value]) -> None:
    """Inside a region: an array that is carried belongs to the region, which may change it."""
    for n, p in zip(names, places, strict=True):
        k.values[n] = replace(p, region=k.region)


def _settled(k: State, name: str, inside: set[int], op: Op) -> bool:
    """Whether nothing reads an array any more but the operations `inside`, each at the place that they write."""
    for user in k.uses.get(name, []):
        if user is op:
            return False
        if id(user) in k.done or id(user) in inside:
            continue
        if user.name in VIEWS or all(k.values[r].kind == "lazy" for r in user.results if r in k.values):
            if not user.results or not all(_settled(k, r, set(), op) for r in user.results):
                return False
        else:
            return False
    return True


def _leave(k: State, op: Op, values: list[str], places: list[Value], names: Sequence[str] = ()) -> None:
    """Write what a region yields to where it is carried; all values are read before the first is written. `names` have the
    carried values in the region, where it may still read them."""
    names = names or [""] * len(places)
    targets: dict[str, Expr] = {}
    for v, n, p in zip(values, names, places, strict=True):
        x = k.values[v]
        if p.kind != "array" or x.kind != "pending" or v in targets or values.count(v) > 1:
            continue
        inside = {id(o) for o in k.pending.get(x.ty.dims, [])}
        if not n or _settled(k, n, inside, op):
            targets[v] = p.code
    for shape in list(k.pending):
        if not any(k.values[v].ty.shape == shape for v in targets):
            loops.flush(k, shape)
    for shape in list(k.pending):
        loops.flush(k, shape, targets)
    variables: list[Expr] = []
    after: list[Expr] = []
    copies: list[tuple[str, Expr]] = []
    codes = {p.code for p in places}
    for v, n, p in zip(values, names, places, strict=True):
        x = k.values[v]
        if p.kind == "scalar":
            variables.append(p.code)
            after.append(k.let(p.ty.elem, k.scalar(v), "y"))
        elif p.kind == "moved":
            code = p.code
            for s in p.steps:
                code = ir.call(f"tri::add<{'int64_t' if p.ty.pointer else cpp(p.ty.elem)}>", code, _by(k, s))
            if p.steps:
                variables.append(p.code)
                after.append(code)
        elif x.kind == "array" and x.code == p.code:
            continue
        elif n and (x.kind != "array" or x.code in codes):
            temporary = f"{v}.{len(copies)}"
            k.set_array(temporary, x.ty, loops.copy(k, v, k.array(x.ty)))
            copies.append((temporary, p.code))
        else:
            copies.append((v, p.code))
    for v, code in copies:
        loops.copy(k, v, code)
    k.put(*regions.assigned(variables, after))


# ---- operations


def visit_for(k: State, op: Op) -> None:
    loops.flush_all(k)
    low, high, step = (k.scalar(o) for o in op.operands[:3])
    block = op.regions[0][0]
    (counter, t), carried = block.args[0], block.args[1:]
    added = [_added(k, op, i) if ty.pointer or ty.elem in ("i32", "i64") else None for i, (_, ty) in enumerate(carried)]
    places = _enter(k, carried, op.operands[3:], added)
    i, T = k.fresh("n"), cpp(t.elem)
    if k.policy.single_items and takes_rows_of_all(k, op):
        rows = k.fresh("rows")
        k.put(ir.Let(rows, f"const tri::Rows<{T}>", ir.call(f"tri::Rows<{T}>", low, high, step)))
        low, high, step = ir.name(f"{rows}.first"), ir.name(f"{rows}.last"), ir.call(T, 1)
    with k.inner(), k.nested() as inside:
        names = [n for n, _ in carried]
        k.values[counter] = Value(t, "scalar", ir.name(i))
        _bind(k, names, places)
        end = regions.body(k, block)
        if end is not None:
            _leave(k, end, end.operands, places, names)
        loops.flush_all(k)
    k.put(ir.Range(i, T, low, high, step, "unsigned" in op.attrs, tuple(inside)))
    _bind(k, op.results, places)


def visit_while(k: State, op: Op) -> None:
    loops.flush_all(k)
    before, after = op.regions[0][0], op.regions[1][0]
    places = _enter(k, before.args, op.operands)
    results = [k.storage(t) for t in op.types]
    names = [n for n, _ in before.args]
    with k.inner(), k.nested() as inside:
        _bind(k, names, places)
        end = regions.body(k, before)
        assert end is not None
        loops.flush_all(k)
        condition = k.let("i1", k.scalar(end.operands[0]), "go")
        _leave(k, end, end.operands[1:], results)
        k.put(ir.If(ir.call("!", condition), (ir.Jump("break"),)))
        _bind(k, [n for n, _ in after.args], results)
        end = regions.body(k, after)
        assert end is not None
        loops.flush_all(k)
        _leave(k, end, end.operands, places)
    k.put(ir.While(ir.TRUE, tuple(inside)))
    _bind(k, op.results, results)


def visit_if(k: State, op: Op) -> None:
    loops.flush_all(k)
    places = [k.storage(t) for t in op.types]
    sides: list[tuple[ir.Node, ...]] = []
    for region in op.regions:
        with k.inner(), k.nested() as side:
            end = regions.body(k, region[0])
            if end is not None:
                _leave(k, end, end.operands, places)
            loops.flush_all(k)
        sides.append(tuple(side))
    k.put(ir.If(k.scalar(op.operands[0]), *[*sides, ()][:2]))
    _bind(k, op.results, places)


def visit_call(k: State, op: Op) -> None:
    """A function that is not inlined by Triton: written in place."""
    callee = k.functions.get(op.attrs["callee"])
    if callee is None or not callee.blocks:
        raise op.fail(f"no function {op.attrs['callee']}")
    loops.flush_all(k)
    k.calls += 1
    callee = instance(callee, f"{k.calls}.")
    k.note_uses(callee.walk())
    places = [k.storage(t) for t in op.types]

    def leave(end: Op) -> None:
        _leave(k, end, end.operands, places)
        loops.flush_all(k)
        k.put(ir.Jump("break"))

    with k.inner(), k.nested() as inside, k.graph({b.label: b for b in callee.blocks}, leave):
        k.bind(callee.args, [k.values[value] for value in op.operands])
        regions.run(k, callee.blocks[0])
    k.put(ir.Scope(tuple(inside), once=True))
    _bind(k, op.results, places)
