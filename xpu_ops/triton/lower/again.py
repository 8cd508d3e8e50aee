"""Values that a later loop computes again from memory, where that is cheaper than to keep them in local memory.

Such a value is a row that was loaded and a few operations on it. A write in between ends that: the value is kept before
it, or, where the loop that writes reads it too, the loop looks whether the two rows overlap.
"""

from __future__ import annotations

from dataclasses import replace

from xpu_ops.block import ir
from xpu_ops.block.types import LANES
from xpu_ops.triton.lower import element, loops
from xpu_ops.triton.lower.loop import WRITES
from xpu_ops.triton.lower.nest import Nest
from xpu_ops.triton.lower.scalar import CHEAP, ELEMENTWISE
from xpu_ops.triton.lower.state import Shape, State, Value
from xpu_ops.triton.ttir import Op

_MOST = 4  # operations on what was loaded
_USERS = ELEMENTWISE | {"tt.store", "tt.reduce"}


def step(k: State, name: str) -> int | None:
    """By how much a value of one dimension grows from element to element, None where that is not known."""
    v = k.values[name]
    if v.kind == "scalar":
        return 0
    op = v.op
    if v.kind != "lazy" or op is None:
        return None
    if op.name in ("tt.make_range", "arith.constant"):
        return int(op.name == "tt.make_range")
    if op.name in ("tt.splat", "arith.extsi"):
        return step(k, op.operands[0])
    if op.name in ("arith.addi", "tt.addptr"):
        a, b = (step(k, o) for o in op.operands)
        return None if a is None or b is None else a + b
    return None


def _is_row(k: State, op: Op) -> bool:
    """Whether a load or store is of neighbours in memory and not volatile."""
    return not op.volatile and step(k, op.operands[0]) == 1


def _chain(k: State, name: str, inside: dict[str, Op], out: dict[str, Op]) -> bool:
    """Whether a value can be computed again; what is loaded and the operations on it go to `out`."""
    v = k.values[name]
    if v.kind == "scalar" or (v.kind == "lazy" and not (v.op and v.op.operands)):
        return True
    op = inside.get(name) or (v.op if v.kind == "lazy" else None)
    if op is None or len(op.results) != 1 or (op.name != "tt.splat" and op.types[0].shape is None):
        return False
    if op.name == "tt.load":
        if op.types[0].elem == "i1" or not _is_row(k, op):
            return False
    elif op.name != "tt.splat" and op.name not in CHEAP:
        return False
    if not all(_chain(k, o, inside, out) for o in op.operands):
        return False
    if name in inside or op.name == "tt.load" or any(o in out for o in op.operands):
        out[name] = op
    return True


def _operations(k: State, inside: dict[str, Op], name: str) -> dict[str, Op] | None:
    """The operations that compute `name` from memory, where later loops had better do them again."""
    here = {id(op) for op in inside.values()}
    if not all(id(u) in here or (id(u) in k.scope and u.name in _USERS) for u in k.uses.get(name, [])):
        return None
    out: dict[str, Op] = {}
    if not _chain(k, name, inside, out):
        return None
    loads = sum(op.name == "tt.load" for op in out.values())
    return out if loads == 1 and len(out) - loads <= _MOST else None


def choose(k: State, ops: list[Op], outside: list[str], shape: Shape) -> dict[str, dict[str, Op]]:
    """Of the results of a loop that are used `outside`, those to be computed again, each with the operations for it."""
    if len(shape) != 1 or shape[0] < LANES:
        return {}
    inside = {r: op for op in ops for r in op.results}
    found = {r: operations for r in outside if (operations := _operations(k, inside, r)) is not None}
    kept = {r for r in outside if r not in found}
    while more := {r for r, operations in found.items() if kept & operations.keys()}:
        kept |= more
        found = {r: operations for r, operations in found.items() if r not in more}
    return found


def note(k: State, found: dict[str, dict[str, Op]]) -> None:
    """From now on these are computed where they are used."""
    for name, operations in found.items():
        for r, op in operations.items():
            k.values[r] = Value(op.types[0], "lazy", op=op, reads=True)
        k.again[name] = next(r for r, op in operations.items() if op.name == "tt.load")


def _waiting(k: State, name: str) -> list[Op]:
    return [u for u in k.uses.get(name, []) if id(u) not in k.done]


def settle(k: State) -> None:
    """Keep what is still to be used: memory may change."""
    for name in list(k.again):
        if k.values[name].kind == "lazy" and _waiting(k, name):
            loops.materialise(k, name)
    k.again.clear()


def before_writes(k: State, ops: list[Op], shape: Shape) -> list[Op]:
    """Before a loop that writes: keeps what is used after it. The loads that the loop repeats, which come first in it."""
    inside = {id(op) for op in ops}
    writes = [op for op in ops if op.name in WRITES]
    rows = all(op.name == "tt.store" and _is_row(k, op) for op in writes)
    loads: list[str] = []
    for name, load in list(k.again.items()):
        waiting = _waiting(k, name)
        if k.values[name].kind != "lazy" or not waiting:
            continue
        if all(id(u) in inside for u in waiting) and rows:
            loads.append(load)
        else:
            loops.materialise(k, name)
    k.again.clear()
    loads = [load for load in dict.fromkeys(loads) if k.values[load].kind == "lazy"]
    return [_guard(k, load, writes, shape) for load in loads]


def _guard(k: State, load: str, writes: list[Op], shape: Shape) -> Op:
    """Keep what was loaded where one of the stores could change it before it is read. The load itself."""
    v = k.values[load]
    assert v.op is not None
    first = (element.const(0),)
    nest = Nest(k, shape, first, None, 0)
    source = nest.get(v.op.operands[0]).code
    tests = [
        ir.call(f"tri::apart<{'true' if k.parts == 1 else 'false'}>", source, nest.get(op.operands[0]).code, shape[0])
        for op in writes
    ]
    array = k.array(v.ty)
    k.put(*nest.before)
    apart = k.let("i1", ir.every(tests), "apart")
    with k.nested() as copied:
        loops.copy(k, load, array)
    k.put(ir.If(ir.call("!", apart), tuple(copied)))
    k.values[load] = replace(v, copy=(apart, array))
    return v.op
