"""The loop nests of fused kernels: the ranges and stages of a kernel as nodes of the block language, in the form that its policy
chooses (xpu_ops/block/nests.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import sympy
from torch.utils._sympy.functions import FloorDiv

from xpu_ops.block import ir, passes
from xpu_ops.block.device import policy
from xpu_ops.block.ir import Expr, Lanes, Let, Node, Rows, name
from xpu_ops.block.nests import BLOCK, Form, Problem, choose
from xpu_ops.block.parameters import Field
from xpu_ops.block.types import LANES, memory_type
from xpu_ops.inductor.axes import ceil_div, hint

if TYPE_CHECKING:
    from xpu_ops.inductor.kernel import SyclKernel

# Rows of a block are read faster the longer they are: with 64 elements `x.t() + y` takes 1.2 to 1.6 times as long.
LONG_BLOCK, HIGH_BLOCK = 256, 128  # the most columns and rows of a block
MOST_CHANNELS = 12  # whose vectors are cheaper to mix than to gather
LOCAL_BYTES = 32768  # of transposed copies
SHORT_ROW = LANES  # a reduced row of fewer elements leaves lanes idle
MANY_ROWS = 1024
FEW_ROWS = 4  # of which a work-group does not compute what its columns have in common first
_ROW = {"xo", "xn"}  # the names that say which row it is
_INDEX = passes.INDEX


Copies: TypeAlias = dict[tuple[str, str, bool], tuple[str, int]]  # as ir.Kernel has them


@dataclass
class Nest:
    """A kernel's body, how many work-groups run it, and how."""

    form: Form
    groups: sympy.Expr
    body: list[Node]
    outer: bool
    copies: Copies = field(default_factory=dict)

    def kernel(self, named: str, fields: Sequence[Field]) -> ir.Kernel:
        form = self.form
        return ir.Kernel(
            named, tuple(fields), tuple(self.body), items=form.items, together=form.together, across=not self.outer,
            slots=form.name == "column_reduce", copies=self.copies,
        )  # fmt: skip


@dataclass
class _Walk:
    """The part of the range x that a work-group goes through: `rows` is a loop around what follows its definitions, `columns`
    are left to the lanes."""

    groups: sympy.Expr
    head: list[Node]
    columns: tuple[Expr, Expr]
    definitions: list[Node]
    rows: tuple[str, Expr, Expr, list[Node]] | None = None
    tail: list[Node] = field(default_factory=list)
    shared: int = 0  # columns that several rows have in common, 0 where there are few rows
    copies: Copies = field(default_factory=dict)

    def around(self, body: list[Node]) -> list[Node]:
        """The loop over the rows, where there is one."""
        if self.rows is None:
            return [*self.head, *body, *self.tail]
        row, begin, end, first = self.rows
        return [*self.head, Rows(row, begin, end, (*first, *body)), *self.tail]


def nest(kernel: SyclKernel) -> Nest:
    """The loops around the stages of a kernel."""
    reduce, stages = kernel.features.is_reduction(), kernel.stages
    single = sum(s.loop for s in stages) == 1 and stages[0].loop
    leaves = any(isinstance(n, ir.Leave) for s in stages for n in s.body)  # an item that the others would wait for
    length = kernel.x.row_length()
    rows, columns = (kernel.x.numel, kernel.r.numel) if reduce else (FloorDiv(kernel.x.numel, length), length)
    problem = Problem(
        hint(rows), hint(columns), reduce=reduce, flat=not reduce and kernel.x.flat(length), strided=kernel.strided,
        outer=kernel.outer, single=single, ordered=kernel.in_order or leaves,
    )  # fmt: skip
    form = choose(problem, policy(kernel.device))
    if reduce and not kernel.outer:
        body, groups = _inner(kernel, form)
        return Nest(form, groups, body, False)
    walk = _blocks(kernel, length) if form.name == "blocks" else _walk(kernel, form, length)
    write = _pointwise if not reduce else _columns if form.name == "column_reduce" else _steps
    return Nest(form, walk.groups, write(kernel, walk), kernel.outer, walk.copies)


def _walk(kernel: SyclKernel, form: Form, length: sympy.Expr) -> _Walk:
    x, tile = kernel.x, form.tile
    if form.name == "items" or x.flat(length):  # each item finds its own place
        span = ir.Span(x.size(x.numel), ir.value(tile))
        return _Walk(ceil_div(x.numel, tile), [span], (name("s.begin"), name("s.end")), x.whole("xc"))
    rows, definitions = FloorDiv(x.numel, length), x.by_rows(length, "xo", "xc")
    if form.name != "rows":
        blocks = x.size(ceil_div(length, tile))
        head: list[Node] = [
            Let("g", _INDEX, ir.GROUP),
            Let("xo", _INDEX, name("g") // blocks),
            Let("c0", _INDEX, (name("g") - name("xo") * blocks) * tile),
            Let("c1", _INDEX, ir.least(name("c0") + tile, x.size(length))),
        ]
        return _Walk(rows * ceil_div(length, tile), head, (name("c0"), name("c1")), definitions)
    each = form.rows
    shared = int(length) if length.is_Integer and each >= FEW_ROWS else 0
    extra: list[Node] = []
    first: list[Node] = []
    if shared and (together := x.rows_together(length, each)):  # xg says which part of the outer ranges it is
        each, extra = together, [Let("xg", _INDEX, name("s.begin") // together)]
        first.append(Let("xn", _INDEX, name("xo") - "s.begin"))
        definitions = x.by_rows(length, "xo", "xc", sympy.Integer(together))
    span = ir.Span(x.size(rows), ir.value(each))
    loop = ("xo", name("s.begin"), name("s.end"), first)
    columns = (ir.value(0), x.size(length))
    return _Walk(ceil_div(rows, each), [span, *extra], columns, definitions, loop, shared=shared)


def _vectors(size: int) -> int:
    """The largest multiple of a vector in it, one at least."""
    return max(1, size // LANES) * LANES


def _blocks(kernel: SyclKernel, length: sympy.Expr) -> _Walk:
    """Blocks of long rows, which are read faster. Operands that lie along the columns are transposed first, into local memory."""
    x = kernel.x
    rows = FloorDiv(x.numel, length)
    inner = x.inner_rows(length, rows)
    apart = {key: s for key, s in kernel.steps.items() if s.stride_of_rows(kernel, length) == 1}
    if inner.is_Integer and inner < BLOCK:  # such as the channels of an image
        high = int(inner)
        block = min(BLOCK * BLOCK // high, hint(length)) // LANES * LANES
    else:
        area = LOCAL_BYTES // max(sum(s.dtype.itemsize for s in apart.values()), 4)
        block = _vectors(min(LONG_BLOCK, area // BLOCK, hint(length)))
        high = _vectors(min(HIGH_BLOCK, area // block))
    across, down = x.size(ceil_div(length, block)), x.size(ceil_div(inner, high))
    definitions = x.by_rows(length, "xo", "xc", inner)
    head: list[Node] = [
        Let("g", _INDEX, ir.GROUP),
        Let("b0", _INDEX, name("g") // across),
        Let("b1", _INDEX, name("g") - name("b0") * across),
        Let("xg", _INDEX, name("b0") // down),
        Let("n0", _INDEX, (name("b0") - name("xg") * down) * high),
        Let("n1", _INDEX, ir.least(name("n0") + high, x.size(inner))),
        Let("c0", _INDEX, name("b1") * block),
        Let("c1", _INDEX, ir.least(name("c0") + block, x.size(length))),
    ]
    row: Node = Let("xo", _INDEX, name("xg") * x.size(inner) + "xn")
    tail: list[Node] = []
    copies: Copies = {}
    room = LOCAL_BYTES
    for k, (key, step) in enumerate(apart.items()):
        room -= step.dtype.itemsize * high * block
        if room < 0:
            break
        copy, ctype = f"copy{k}", memory_type(step.dtype)
        copies[key] = (copy, block)
        head.append(ir.Memory(f"local{k}", copy, ctype, high * block))
        function, result = "copy_block", ""
        constants: tuple[int, ...] = (block,)
        ranges: tuple[str, ...] = ("c0", "c1", "n0", "n1")
        if step.buffer:
            function, result = "write_block", f"{ctype}&"
        elif inner == high <= MOST_CHANNELS and x.stride_along(step.place, length) == high:
            function, constants, ranges, result = "copy_channels", (block, high), ("c0", "c1"), f"const {ctype}&"
        (tail if step.buffer else head).append(
            ir.Block(function, constants, copy, ranges, (row, *definitions), step.pointer, step.at, result, step.buffer)
        )
    groups = ceil_div(inner, high) * FloorDiv(rows, inner) * ceil_div(length, block)
    loop = ("xn", name("n0"), name("n1"), [row])
    return _Walk(groups, head, (name("c0"), name("c1")), definitions, loop, tail, block, copies)


def _pointwise(kernel: SyclKernel, walk: _Walk) -> list[Node]:
    inner = [*walk.definitions, *(node for stage in kernel.stages for node in stage.body)]
    uniform, inner, reports = passes.split(inner, {"xc"})
    before: list[Node] = []
    begin, end = walk.columns
    if walk.shared:
        same, uniform = passes.fixed(uniform, _ROW)
        column = name("xc") - begin
        memory, first, inner = passes.columns([*same, *uniform], inner, _ROW, walk.shared, column)
        before = [*memory, *same, *([Lanes("xc", begin, end, tuple(first))] if memory else [])]
    walk.head += before
    loop = Lanes("xc", begin, end, tuple(inner))
    return walk.around([*uniform, loop, *reports])


def _columns(kernel: SyclKernel, walk: _Walk) -> list[Node]:
    """One loop over the reduced range, in which several vectors of columns go side by side, and what follows it."""
    stage, *rest = kernel.stages
    after = [*walk.definitions, *stage.after, *(node for outside in rest for node in outside.body)]
    before = (ir.ways("decltype(count)::value"), *stage.declarations)
    each = (*walk.definitions, *kernel.r.whole("rindex"), *stage.body)
    rows = kernel.x.size(kernel.r.numel)
    return walk.around([ir.Columns(*walk.columns, before, "rindex", rows, each, tuple(after))])


def _steps(kernel: SyclKernel, walk: _Walk) -> list[Node]:
    """Loops over the reduced range, one lane per column."""
    body: list[Node] = [ir.ways(2), *walk.definitions]
    count = kernel.x.size(kernel.r.numel)
    for stage in kernel.stages:
        body += stage.declarations
        if stage.loop:
            body.append(ir.Steps("rindex", count, (*kernel.r.whole("rindex"), *stage.body)))
        else:
            body += stage.body
        body += stage.after
    return walk.around([Lanes("xc", *walk.columns, tuple(body))])


def _inner(kernel: SyclKernel, form: Form) -> tuple[list[Node], sympy.Expr]:
    """Rows, each of one sub-group or of all of a work-group."""
    x, r = kernel.x, kernel.r
    length = r.row_length()
    bodies: list[list[Node]] = [stage.body for stage in kernel.stages if stage.loop]
    kept: list[Node] = []
    if form.items == LANES and r.flat(length) and r.numel.is_Integer and not kernel.in_order:
        kept, bodies = passes.keep(bodies, int(r.numel), "rc")
    changed = iter(bodies)
    row: list[Node] = [*x.whole("xindex")]
    for stage in kernel.stages:
        row += stage.declarations
        row += _row_loop(kernel, next(changed), length) if stage.loop else stage.body
        row += stage.after
    span = ir.Span(x.size(x.numel), ir.value(form.rows))
    loop = Rows("xindex", name("s.begin"), name("s.end"), tuple(row), apart=not form.together)
    return [span, ir.ways(4), *kept, loop], ceil_div(x.numel, form.rows)


def _row_loop(kernel: SyclKernel, body: Sequence[Node], length: sympy.Expr) -> list[Node]:
    r = kernel.r
    flat = r.flat(length)
    inner = [*(r.whole("rc") if flat else r.by_rows(length, "ro", "rc")), *body]
    uniform, inner, reports = passes.split(inner, {"rc", "ro"})
    loop: Node = Lanes("rc", ir.value(0), r.size(length), tuple(inner), ways=4, in_order=kernel.in_order)
    if not flat:
        loop = Rows("ro", ir.value(0), r.size(FloorDiv(r.numel, length)), (loop,))
    return [*uniform, loop, *reports]
