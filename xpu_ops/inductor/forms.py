"""The loop nests of generated kernels, for the CPU device: lanes side by side in memory, tiles that fill its caches.

Pointwise: flat tiles, rows, or blocks where an operand steps through memory along the row. Inner reduction: one
sub-group per row. Outer reduction: one lane per column, four vectors of columns at a time.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import sympy
from torch._inductor.codegen.common import DeferredLine, IndentedBuffer
from torch.utils._sympy.functions import FloorDiv

from xpu_ops.block.types import LANES
from xpu_ops.inductor import lines
from xpu_ops.inductor.axes import ceil_div, hint

if TYPE_CHECKING:
    from xpu_ops.inductor.kernel import SyclKernel

TILE = 4096  # elements of one work-group
BLOCK = 32  # the fewest rows and columns that are worth a block
LONG_BLOCK, HIGH_BLOCK = 256, 128  # the most columns and rows of a block
MOST_CHANNELS = 12  # whose vectors are cheaper to mix than to gather
LOCAL_BYTES = 32768  # of transposed copies
COLUMNS = 4 * LANES  # columns that one work-group reduces
SHORT_ROW = LANES  # a reduced row of fewer elements leaves lanes idle
MANY_ROWS = 1024
FEW_ROWS = 4  # of which a work-group does not compute what its columns have in common first
_ROW = {"xo", "xn"}  # the names that say which row it is
ROW_GROUPS = 32  # work-groups that a reduction of many rows is given at least


@dataclasses.dataclass(frozen=True)
class Form:
    """How the lanes lie: along the reduced range, or (`outer`) one lane per column."""

    outer: bool
    steps: bool  # a pointwise operand steps through memory along the row
    column_slots: bool = False  # an accumulator a vector of columns, none to join
    copied: bool = False  # the operands that step were copied, block by block

    @property
    def across(self) -> bool:
        """Whether the lanes of a sub-group share one result."""
        return not self.outer


@dataclasses.dataclass(frozen=True)
class _Walk:
    """The part of the range x that a work-group goes through: `rows` opens a loop, `columns` are left to the lanes."""

    groups: sympy.Expr
    head: list[str]
    rows: list[str]
    columns: tuple[str, str]
    tail: list[Any]
    definitions: list[str]
    copied: bool = False  # whether `head` has copied the operands that step
    shared: int = 0  # columns that several rows have in common, 0 where there are few rows


def loops(kernel: SyclKernel) -> tuple[IndentedBuffer, sympy.Expr, Form]:
    """The body, the number of work-groups and the form that was chosen."""
    if not kernel.features.is_reduction():
        walk = _walk(kernel, TILE)
        return _pointwise(kernel, walk), walk.groups, dataclasses.replace(kernel.form, copied=walk.copied)
    if not kernel.form.outer:
        return *_inner(kernel), kernel.form
    single = sum(stage.loop for stage in kernel.stages) == 1 and kernel.stages[0].loop
    wide = hint(kernel.x.numel) >= TILE or single
    walk = _walk(kernel, COLUMNS if wide else LANES)
    if single:
        form = dataclasses.replace(kernel.form, column_slots=True)
        return _columns(kernel, walk), walk.groups, form
    return _steps(kernel, walk), walk.groups, kernel.form


def _walk(kernel: SyclKernel, tile: int) -> _Walk:
    x, expr = kernel.x, kernel.expr
    length = x.row_length()
    if x.flat(length):
        return _Walk(
            ceil_div(x.numel, tile),
            [f"const Span s = part({expr(x.numel)}, {tile});"],
            [],
            ("s.begin", "s.end"),
            [],
            x.by_rows(length, None, "xc"),
        )
    rows, definitions = FloorDiv(x.numel, length), x.by_rows(length, "xo", "xc")
    if kernel.form.steps and hint(length) >= BLOCK and not kernel.features.is_reduction():
        return _blocks(kernel, rows, length)
    if hint(length) > tile or kernel.form.outer:
        blocks = expr(ceil_div(length, tile))
        head = [
            "const long g = __spirv_BuiltInWorkgroupId(0);",
            f"const long xo = g / ({blocks}), c0 = (g - xo * ({blocks})) * {tile};",
            f"const long c1 = sycl::min<long>(c0 + {tile}, {expr(length)});",
        ]
        return _Walk(rows * ceil_div(length, tile), head, [], ("c0", "c1"), [], definitions)
    each = max(1, tile // max(hint(length), 1))
    shared = int(length) if length.is_Integer and each >= FEW_ROWS else 0
    loop = ["for (long xo = s.begin; xo < s.end; ++xo) {"]
    extra: list[str] = []
    if shared and (together := x.rows_together(length, each)):  # xg says which part of the outer ranges it is
        each, extra = together, [f"const long xg = s.begin / {together};"]
        loop.append("const long xn = xo - s.begin; (void)xn;")
        definitions = x.by_rows(length, "xo", "xc", sympy.Integer(together))
    head = [f"const Span s = part({expr(rows)}, {each});", *extra]
    return _Walk(ceil_div(rows, each), head, loop, ("0", expr(length)), ["}"], definitions, shared=shared)


def _vectors(size: int) -> int:
    """The largest multiple of a vector in it, one at least."""
    return max(1, size // LANES) * LANES


def _blocks(kernel: SyclKernel, rows: sympy.Expr, length: sympy.Expr) -> _Walk:
    """Blocks of long rows, which are read faster. Operands that lie along the columns are transposed first, into local memory."""
    x, expr = kernel.x, kernel.expr
    inner = x.inner_rows(length, rows)
    copies = [s for s in kernel.steps if s.stride_of_rows(length) == 1]
    if inner.is_Integer and inner < BLOCK:  # such as the channels of an image
        high = int(inner)
        block = min(BLOCK * BLOCK // high, hint(length)) // LANES * LANES
    else:
        area = LOCAL_BYTES // max(sum(s.itemsize for s in copies), 4)
        block = _vectors(min(LONG_BLOCK, area // BLOCK, hint(length)))
        high = _vectors(min(HIGH_BLOCK, area // block))
    across, down = expr(ceil_div(length, block)), expr(ceil_div(inner, high))
    definitions = x.by_rows(length, "xo", "xc", inner)
    head = [
        f"const long g = __spirv_BuiltInWorkgroupId(0), b0 = g / ({across}), b1 = g - b0 * ({across});",
        f"const long xg = b0 / ({down}), n0 = (b0 - xg * ({down})) * {high};",
        f"const long n1 = sycl::min<long>(n0 + {high}, {expr(inner)});",
        f"const long c0 = b1 * {block}, c1 = sycl::min<long>(c0 + {block}, {expr(length)});",
    ]
    row = f"const long xo = xg * ({expr(inner)}) + xn;"
    tail: list[Any] = ["}"]
    room = LOCAL_BYTES
    for k, step in enumerate(copies):
        room -= step.itemsize * high * block
        if room < 0:
            break
        step.copy, step.pitch = f"copy{k}", block
        head += [
            f"syclexp::work_group_static<{step.ctype}[{high * block}]> local{k};",
            f"{step.ctype}* const copy{k} = local{k};",
        ]
        function, result = ("write_block", f" -> {step.ctype}&") if step.stored else ("copy_block", "")
        start = f"{function}<{block}>(copy{k}, c0, c1, n0, n1"
        if inner == high <= MOST_CHANNELS and not step.stored and x.stride_along(step.place, length) == high:
            start, result = f"copy_channels<{block}, {high}>(copy{k}, c0, c1", f" -> const {step.ctype}&"
        lines = [
            f"{start}, lane, [&](long xc, long xn) GEN_INLINE{result} {{",
            *(row, *definitions),
            f"return {step.var}[{step.index}];",
            "});",
        ]
        if step.stored:
            tail += [DeferredLine(step.stored, line) for line in lines]
        else:
            head += lines
    loop = ["for (long xn = n0; xn < n1; ++xn) {", row]
    groups = ceil_div(inner, high) * FloorDiv(rows, inner) * ceil_div(length, block)
    return _Walk(groups, head, loop, ("c0", "c1"), tail, definitions, copied=True, shared=block)


def _pointwise(kernel: SyclKernel, walk: _Walk) -> IndentedBuffer:
    body, inner = IndentedBuffer(), IndentedBuffer()
    inner.writelines(walk.definitions)
    for stage in kernel.stages:
        inner.splice(stage.body)
    uniform, inner, reports = lines.split(inner, {"xc"})
    body.writelines(walk.head)
    if walk.shared:
        same, uniform = lines.fixed(uniform, _ROW)
        memory, first, inner = lines.columns([*same, *uniform], inner, _ROW, walk.shared, walk.columns[0])
        body.writelines([*memory, *same])
        if memory:
            _over_columns(body, walk, first)
    body.writelines([*walk.rows, *uniform])
    _over_columns(body, walk, inner)
    body.writelines([*reports, *walk.tail])
    return body


def _over_columns(body: IndentedBuffer, walk: _Walk, inner: IndentedBuffer) -> None:
    body.writeline(f"lanes({walk.columns[0]}, {walk.columns[1]}, lane, [&](long xc) GEN_INLINE {{")
    with body.indent():
        body.splice(inner)
    body.writeline("});")


def _columns(kernel: SyclKernel, walk: _Walk) -> IndentedBuffer:
    """One loop over the reduced range, in which several vectors of columns go side by side, and what follows it."""
    stage, *rest = kernel.stages
    body = IndentedBuffer()
    body.writelines([*walk.head, *walk.rows])
    c0, c1 = walk.columns
    slot = "constexpr int j = decltype(slot)::value; (void)j;"
    body.writeline(f"columns_by4({c0}, {c1}, lane, [&](auto count, auto each) GEN_INLINE {{")
    with body.indent():
        body.writeline("constexpr int ACC = decltype(count)::value;")
        body.splice(stage.declarations)
        body.writeline(f"for (long rindex = 0; rindex < {kernel.expr(kernel.r.numel)}; ++rindex)")
        with body.indent():
            body.writeline("each([&](long xc, auto slot) GEN_INLINE {")
            with body.indent():
                body.writelines([slot, *walk.definitions, *kernel.r.whole("rindex")])
                body.splice(stage.body)
            body.writeline("});")
        body.writeline("each([&](long xc, auto slot) GEN_INLINE {")
        with body.indent():
            body.writelines([slot, *walk.definitions])
            body.splice(stage.after)
            for outside in rest:
                body.splice(outside.body)
        body.writeline("});")
    body.writelines(["});", *walk.tail])
    return body


def _steps(kernel: SyclKernel, walk: _Walk) -> IndentedBuffer:
    """Several loops over the reduced range, one lane per column."""
    body = IndentedBuffer()
    body.writelines([*walk.head, *walk.rows])
    body.writeline(f"lanes({walk.columns[0]}, {walk.columns[1]}, lane, [&](long xc) GEN_INLINE {{")
    with body.indent():
        body.writeline("constexpr int ACC = 2;")
        body.writelines(walk.definitions)
        for stage in kernel.stages:
            body.splice(stage.declarations)
            if stage.loop:
                count = kernel.expr(kernel.r.numel)
                body.writeline(f"steps_by2({count}, [&](long rindex, auto slot) GEN_INLINE {{")
                with body.indent():
                    body.writelines(["constexpr int j = decltype(slot)::value; (void)j;", *kernel.r.whole("rindex")])
                    body.splice(stage.body)
                body.writeline("});")
            else:
                body.splice(stage.body)
            body.splice(stage.after)
    body.writelines(["});", *walk.tail])
    return body


def _inner(kernel: SyclKernel) -> tuple[IndentedBuffer, sympy.Expr]:
    """One sub-group per row; a work-group takes several short ones."""
    x, r = kernel.x, kernel.r
    length = r.row_length()
    rows = max(1, min(TILE // max(hint(r.numel), 1), max(hint(x.numel) // ROW_GROUPS, 1)))
    loops = [stage for stage in kernel.stages if stage.loop]
    kept: list[str] = []
    bodies = [stage.body for stage in loops]
    if r.flat(length) and r.numel.is_Integer and not kernel.in_order:
        kept, bodies = lines.keep(bodies, int(r.numel))
    changed = dict(zip(map(id, loops), bodies, strict=True))
    body = IndentedBuffer()
    body.writelines(
        [
            f"const Span s = part({kernel.expr(x.numel)}, {rows});",
            "constexpr int ACC = 4;",
            *kept,
            "for (long xindex = s.begin; xindex < s.end; ++xindex) {",
        ]
    )
    with body.indent():
        body.writelines(x.whole("xindex"))
        for stage in kernel.stages:
            body.splice(stage.declarations)
            if stage.loop:
                _row_loop(kernel, changed[id(stage)], length, body)
            else:
                body.splice(stage.body)
            body.splice(stage.after)
    body.writeline("}")
    return body, ceil_div(x.numel, rows)


def _row_loop(kernel: SyclKernel, text: IndentedBuffer, length: sympy.Expr, body: IndentedBuffer) -> None:
    r = kernel.r
    flat = r.flat(length)
    inner = IndentedBuffer()
    inner.writelines(r.by_rows(length, None if flat else "ro", "rc"))
    inner.splice(text)
    uniform, inner, reports = lines.split(inner, {"rc", "ro"})
    body.writelines(uniform)
    if not flat:
        body.writeline(f"for (long ro = 0; ro < {kernel.expr(FloorDiv(r.numel, length))}; ++ro)")
    if kernel.in_order:
        body.writeline(f"lanes_in_order({kernel.expr(length)}, lane, [&](long rc, bool in, auto slot) GEN_INLINE {{")
    else:
        body.writeline(f"lanes_by4({kernel.expr(length)}, lane, [&](long rc, auto slot) GEN_INLINE {{")
    with body.indent():
        body.writeline("constexpr int j = decltype(slot)::value; (void)j;")
        body.splice(inner)
    body.writelines(["});", *reports])
