"""A function of Triton IR as a SYCL kernel: one work-group of one sub-group per program."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xpu_ops.block import ir, parameters, printer
from xpu_ops.block.device import CPU, Policy
from xpu_ops.triton.lower import collective, control, loops, regions
from xpu_ops.triton.lower.loop import assertion, atomic_call, printed
from xpu_ops.triton.lower.nest import VIEWS
from xpu_ops.triton.lower.scalar import ELEMENTWISE, constant
from xpu_ops.triton.lower.state import State, Value
from xpu_ops.triton.lower.types import cpp
from xpu_ops.triton.ttir import Function, Op, Ty, Unsupported


@dataclass(frozen=True)
class Lowered:
    """A kernel's source and name, bytes of local memory, texts that it may report."""

    source: str
    name: str
    local_bytes: int
    messages: tuple[str, ...]


# ---- operations on scalars


def _constant(k: State, op: Op) -> None:
    t = op.types[0]
    scalar = t.shape is None
    k.values[op.results[0]] = Value(t, "scalar", constant(op)) if scalar else Value(t, "lazy", op=op)


def _poison(k: State, op: Op) -> None:
    op.attrs["value"] = "0" if op.types[0].elem[0] == "i" else "0.0"
    _constant(k, op)


def _program(k: State, op: Op) -> None:
    axis = "xyz".index(op.words[0])
    code = ir.name(f"pid{axis}") if op.name == "tt.get_program_id" else ir.call("int32_t", f"p.grid{axis}")
    k.values[op.results[0]] = Value(op.types[0], "scalar", code)


def _barrier(k: State, op: Op) -> None:
    loops.flush_all(k)
    k.put(ir.Sync())


def _load(k: State, op: Op) -> None:
    loops.flush_writes(k)
    t = op.types[0]
    if t.shape is not None:
        loops.add(k, op, t.shape)
        return
    args = [k.scalar(o) for o in op.operands]
    found = ir.pointed(args[0])
    if len(args) > 1:
        found = ir.choice(args[1], found, args[2] if len(args) > 2 else ir.call(cpp(t.elem), 0))
    k.define(op, found)
    k.sync_parts()


def _store(k: State, op: Op) -> None:
    t = k.values[op.operands[0]].ty
    if t.shape is not None:
        for shape in list(k.pending):
            if shape != t.shape:
                loops.flush(k, shape)
        loops.add(k, op, t.shape)
        return
    loops.flush_all(k)
    args = [k.scalar(o) for o in op.operands]
    k.put(ir.Put(ir.pointed(args[0]), args[1], args[2] if len(args) > 2 else ir.TRUE, "program"), ir.Sync())


def _atomic(k: State, op: Op) -> None:
    t = k.values[op.operands[0]].ty
    loops.flush_all(k)
    if t.shape is not None:
        loops.add(k, op, t.shape)
        return
    args = [k.scalar(o) for o in op.operands]
    mask = ir.TRUE
    if op.name == "tt.atomic_rmw" and len(args) > 2:
        mask, args = args[2], args[:2]
    call = atomic_call(op, args[0], args[1:])
    if k.parts > 1:
        place = ir.at(k.array(Ty(t.pointee, (1,))), 0)
        k.put(ir.One((ir.Put(place, call, mask),)), ir.Sync())
        found = k.let(t.pointee, place)
    else:
        found = k.variable(t.pointee)
        k.put(ir.One((ir.Put(found, call, mask),)))
    if op.results:
        k.put(*([ir.Put(found, ir.call("tri::of_lane", found, 0))] if k.parts == 1 else []))
        k.values[op.results[0]] = Value(op.types[0], "scalar", found)
    k.put(ir.Sync())


def _in_order(k: State, op: Op) -> None:
    """tt.print and tt.assert: one item speaks for a scalar."""
    tensor = next((k.values[o].ty for o in op.operands if k.values[o].ty.shape is not None), None)
    if tensor is not None:
        loops.add(k, op, tensor.dims)  # of several shapes: scalars go with the tensors
        return
    loops.flush_all(k)
    args = [k.scalar(o) for o in op.operands]
    if op.name == "tt.assert":
        nodes = [assertion(k, op, args[0])]
    else:
        values = [(a, k.values[o].ty.elem) for a, o in zip(args, op.operands, strict=True)]
        nodes = printed(k, op, values, ir.value(0))
    k.put(ir.One(tuple(nodes)))


def _extended(k: State, op: Op) -> None:
    """arith.mului_extended: the low and the high half of a product."""
    low = Op("arith.muli", op.results[:1], op.operands, types=op.types[:1], where=op.where)
    high = Op("tt.mulhiui", op.results[1:], op.operands, types=op.types[1:], where=op.where)
    for o in op.operands:
        k.uses[o] += [low, high]
    loops.visit_elementwise(k, low)
    loops.visit_elementwise(k, high)


_VISIT: dict[str, Callable[[State, Op], None]] = {
    **dict.fromkeys(ELEMENTWISE, loops.visit_elementwise),
    **dict.fromkeys(VIEWS, loops.visit_view),
    "arith.constant": _constant,
    "ub.poison": _poison,
    **dict.fromkeys(("tt.get_program_id", "tt.get_num_programs"), _program),
    **dict.fromkeys(("gpu.barrier", "ttg.barrier", "tt.debug_barrier"), _barrier),
    "tt.load": _load,
    "tt.store": _store,
    **dict.fromkeys(("tt.atomic_rmw", "tt.atomic_cas"), _atomic),
    **dict.fromkeys(("tt.print", "tt.assert"), _in_order),
    "tt.unsplat": loops.visit_view,
    "tt.map_elementwise": lambda k, op: loops.add(k, op, op.types[0].dims),
    "arith.mului_extended": _extended,
    "tt.reduce": collective.visit_reduce,
    "tt.scan": collective.visit_scan,
    "tt.histogram": collective.visit_histogram,
    "tt.dot": collective.visit_dot,
    "tt.dot_scaled": collective.visit_dot_scaled,
    "scf.for": control.visit_for,
    "scf.while": control.visit_while,
    "scf.if": control.visit_if,
    "tt.call": control.visit_call,
    **dict.fromkeys(("cf.br", "cf.cond_br"), control.visit_branch),
    "llvm.intr.assume": lambda k, op: None,  # a hint to other compilers
}


# ---- the kernel


def lower(functions: dict[str, Function], policy: Policy = CPU) -> Lowered:
    """The SYCL source of a module's public function. `policy` is a program's (nests.program).

    Raises:
        Unsupported: names the operation and the line of the user's source.
    """
    f = next(f for f in functions.values() if f.public)
    k = State(f, functions, policy=policy)
    k.note_uses(f.walk())

    def visit(op: Op) -> None:
        handler = _VISIT.get(op.name)
        if handler is None:
            raise op.fail("is not lowered")
        try:
            handler(k, op)
        except Unsupported as error:
            if error.where:
                raise
            raise Unsupported(f"{op.name}: {error}", op.where) from error

    def leave(end: Op) -> None:
        loops.flush_all(k)
        k.put(ir.Jump("return"))

    k.visit = visit
    fields = []
    for i, (name, t) in enumerate(f.args):
        T = cpp(t.elem)
        fields.append(parameters.Field(f"arg{i}", T, "p") if t.pointer else parameters.number(f"arg{i}", T))
        k.values[name] = Value(t, "scalar", ir.name(f"arg{i}"))
    k.put(*(ir.Let(f.name, f"{f.ctype} const", ir.name(f.value)) for f in fields))
    with k.graph({b.label: b for b in f.blocks}, leave):
        regions.run(k, f.blocks[0])
    fields += [*(parameters.number(f"grid{i}") for i in range(3)), *parameters.reports(len(k.messages))]
    name = re.sub(r"\W", "_", f.name)[:100]
    before = printer.opening("source/triton.hpp", "xpu") + "".join(map(printer.text_of, k.texts.values()))
    items = policy.team_items
    written = ir.Kernel(name, tuple(fields), tuple(k.body), before, items=items, program=True, local=k.peak)
    return Lowered(printer.source(written), name, k.peak, tuple(k.messages))
