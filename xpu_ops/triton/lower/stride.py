"""Loops over rows in steps of the number of programs, as persistent kernels have them.

`for row in range(program_id, rows, num_programs)` gives a processor's core rows that lie far from each other. Where nothing
else asks which program runs, each program takes as many rows that follow each other.
"""

from __future__ import annotations

from xpu_ops.triton.lower.state import State
from xpu_ops.triton.ttir import Op

_PROGRAM = ("tt.get_program_id", "tt.get_num_programs")
# With these in a loop, or a loop in it, its rows may differ in time or be seen in their order.
_NOT_ROWS = ("scf.for", "scf.while", "tt.call", "tt.print", "tt.assert", "tt.atomic_rmw", "tt.atomic_cas")
_OFFSETS = ("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr")


def _base(makers: dict[str, Op], pointer: str) -> str:
    """The value that pointers are offsets from."""
    while (op := makers.get(pointer)) is not None and op.name in _OFFSETS:
        pointer = op.operands[0]
    return pointer


def takes_rows_of_all(k: State, op: Op) -> bool:
    """Whether the loop `op` of the kernel goes over rows that any program may take.

    It carries nothing, only it reads the program's number and their count, and what it reads it does not write: then which
    program takes a row, and when, is nothing that the kernel could tell.
    """
    if len(op.operands) > 3 or "unsigned" in op.attrs or len(k.functions) > 1:
        return False
    if not any(o is op for block in k.function.blocks for o in block.ops):
        return False
    low, high, step = op.operands
    ops = list(k.function.walk())
    makers = {r: o for o in ops for r in o.results}
    if low not in makers or step not in makers or high in (low, step):
        return False
    first, count = makers[low], makers[step]
    if (first.name, count.name) != _PROGRAM or first.words != count.words:
        return False
    axis = first.words[0]
    asked = {r for o in ops if o.name in _PROGRAM and o.words[0] == axis for r in o.results}
    if any(user is not op for name in asked for user in k.uses.get(name, [])):
        return False
    inside = [o for o in op.walk() if o is not op]
    if any(o.name in _NOT_ROWS for o in inside):
        return False
    arguments = {name for name, _ in k.function.args}
    read, written = ({_base(makers, o.operands[0]) for o in inside if o.name == n} for n in ("tt.load", "tt.store"))
    return read | written <= arguments and not read & written
