"""Loop nests: how the elements of a problem are given to work-groups, sub-groups and lanes.

`choose` is pure: the numbers of a problem and the device policy give a form. A CPU device runs a work-group of one sub-group as a
thread, takes memory in its order and divides no index per lane. A GPU wants many sub-groups in a work-group: items side by side
in memory over all elements, a sub-group per short row, all sub-groups of a work-group on a long one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xpu_ops.block import ir
from xpu_ops.block.device import Policy
from xpu_ops.block.ir import Accumulate, Accumulator, Expr, If, Lanes, Let, Node, Rows, Store, name
from xpu_ops.block.types import LANES

TILE = 4096  # elements of one work-group
BLOCK = 32  # the fewest rows and columns that are worth a block
COLUMNS = 4 * LANES  # columns that one work-group reduces
ROW_GROUPS = 32  # work-groups that a reduction of many rows is given at least
TEAM_ROW = 1024  # elements of a row that all sub-groups of a work-group share
ITEM_ELEMENTS = 4  # of an item in a pointwise kernel of a GPU


@dataclass(frozen=True)
class Problem:
    """Rows of `length` elements; `reduce`: each row becomes one result."""

    rows: int
    length: int
    reduce: bool = False
    flat: bool = False  # no index needs to know the row
    strided: bool = False  # an operand of a pointwise kernel steps through memory along the row
    outer: bool = False  # neighbours in memory belong to different results of a reduction
    single: bool = False  # it has one loop, and nothing before it
    ordered: bool = False  # a row is no more than one sub-group's, as a scan wants
    block: bool = False  # all of it is one program's, which the items of a work-group run together


# Name: the device, for, how. docs/compilers.md has it as a table.
FORMS = {
    "flat": ("CPU, Triton", "elements whose indices need no row", "`tile` elements by the lanes of a sub-group"),
    "rows": ("CPU, Triton", "short rows of elements", "`rows` rows one after the other"),
    "tiles": ("CPU, Triton", "long rows of elements", "`tile` elements of one row"),
    "blocks": ("CPU, Triton", "operands that step through memory", "rows and columns, operands transposed in memory"),
    "row_reduce": ("CPU, GPU", "reductions along memory", "`rows` rows, a sub-group on each"),
    "column_reduce": ("CPU", "one loop of a reduction across memory", "a lane per column, four vectors side by side"),
    "column_steps": ("CPU", "several such loops, and Triton's", "a lane per column"),
    "items": ("GPU", "elements", "`tile` elements, each by an item that finds its own place"),
    "team_reduce": ("GPU", "reductions of long rows", "all items on one row, a tree in local memory"),
    "column_items": ("GPU", "reductions across memory", "an item per column"),
}


def table() -> str:
    """The forms as a table of Markdown."""
    rows = (f"| `{name}` | {' | '.join(texts)} |" for name, texts in FORMS.items())
    return "\n".join(["| form | device | for | how |", "|---|---|---|---|", *rows]) + "\n"


@dataclass(frozen=True)
class Form:
    """One way to go through a problem: `items` of a work-group, which takes `tile` elements or `rows` rows."""

    name: str
    items: int = LANES
    tile: int = TILE
    rows: int = 1

    def numbers(self, problem: Problem) -> tuple[int, int, int, int]:
        """Work-groups, and what the nests below read: rows (elements by items), rows of a work-group, tiles of a row."""
        if self.name == "items":
            count = problem.rows * problem.length
            return -(-count // self.tile), count, 1, 1
        tiles = 1 if problem.reduce else -(-problem.length // self.tile)
        return -(-problem.rows // self.rows) * tiles, problem.rows, self.rows, tiles

    @property
    def together(self) -> bool:
        """Whether the items of a work-group go through a row together."""
        return self.name != "row_reduce" or self.items == LANES


def choose(problem: Problem, policy: Policy) -> Form:
    """The form of a kernel."""
    if problem.block:
        return _choose_in_program(problem, policy)
    fitting = max(1, TILE // max(problem.length, 1))
    if policy.single_items:
        return _choose_for_threads(problem, fitting)
    if not problem.reduce:
        return Form("items", items=policy.tile_items, tile=policy.tile_items * ITEM_ELEMENTS)
    if problem.outer:
        return Form("column_items", items=policy.row_items, tile=policy.row_items)
    if problem.length >= TEAM_ROW and not problem.ordered:
        return Form("team_reduce", items=policy.team_items)
    least = policy.row_items // policy.lanes
    return Form("row_reduce", items=policy.row_items, rows=max(min(fitting, problem.rows // ROW_GROUPS), least))


def program(policy: Policy, warps: int) -> Policy:
    """For the blocks of a program of so many warps, each a sub-group of the work-group that runs it. Their results meet in
    one sub-group, by halves: a power of two, no more than it has lanes."""
    most = 1 << (policy.team_items // policy.lanes).bit_length() - 1
    items = policy.lanes if policy.single_items else policy.lanes * min(warps, most, policy.lanes)
    return replace(policy, tile_items=items, row_items=items, team_items=items)


def _choose_in_program(problem: Problem, policy: Policy) -> Form:
    """Sub-groups take rows by turns where there are enough, else vectors of one row."""
    items, few = policy.team_items, problem.rows < policy.team_items // policy.lanes
    if problem.outer:
        name = "column_steps" if items == policy.lanes else "column_items"
    elif problem.reduce:
        name = "team_reduce" if few else "row_reduce"
    elif problem.strided:
        name = "blocks"
    elif problem.length < policy.lanes and problem.rows > 1:
        name = "flat"
    else:
        name = "tiles" if few else "rows"
    return Form(name, items, problem.length, problem.rows)


def _choose_for_threads(problem: Problem, fitting: int) -> Form:
    if problem.outer:
        wide = problem.rows >= TILE or problem.single
        return Form("column_reduce" if problem.single else "column_steps", tile=COLUMNS if wide else LANES)
    if problem.reduce:
        return Form("row_reduce", rows=min(fitting, max(problem.rows // ROW_GROUPS, 1)))
    if problem.flat:
        return Form("flat")
    if problem.strided and problem.length >= BLOCK:
        return Form("blocks")
    return Form("tiles") if problem.length > TILE else Form("rows", rows=fitting)


# ---- nests over operands whose sizes and steps are parameters: size[d], step_NAME[d]


def _places(index: str, dims: int, names: Sequence[str]) -> list[Node]:
    """For each name the offset `at_NAME` of the index over the first `dims` dimensions."""
    out: list[Node] = []
    rest = name(index)
    for d in reversed(range(1, dims)):
        size = name(f"p.size[{d}]")
        out += [Let(f"{index}{d}", "long", rest % size), Let(f"{index}_rest{d}", "long", rest // size)]
        rest = name(f"{index}_rest{d}")
    if dims:
        out.append(Let(f"{index}0", "long", rest))
    for n in names:
        terms = [name(f"{index}{d}") * f"p.step_{n}[{d}]" for d in reversed(range(dims))]
        out.append(Let(f"at_{n}", "long", functools.reduce(Expr.__add__, terms) if terms else ir.value(0)))
    return out


def pointwise(
    form: Form, dims: int, operands: Sequence[str], element: Callable[[Callable[[str], Expr]], Expr]
) -> tuple[Node, ...]:
    """out = element(place of an operand): a function of the loads, `size`, `step_*`, `rows`, `each` and `tiles` in `p`."""
    names, last = ["out", *operands], dims - 1
    group = Let("group", "long", ir.GROUP)

    def moved(to: Callable[[str], Expr]) -> Store:
        value = element(lambda n: ir.load(name(f"p.ptr_{n}") + f"at_{n}", to(n)))
        return Store(name("p.ptr_out") + "at_out", to("out"), value)

    if form.name == "items":
        begin = name("group") * form.tile
        body = [*_places("i", dims, names), moved(lambda n: ir.value(0))]
        end = ir.least(name("begin") + form.tile, "p.rows")
        return (
            group,
            Let("begin", "long", begin),
            Let("end", "long", end),
            Lanes("i", name("begin"), name("end"), tuple(body)),
        )
    head = [
        group,
        Let("begin", "long", name("group") // "p.tiles" * "p.each"),
        Let("end", "long", ir.least(name("begin") + "p.each", "p.rows")),
        Let("c0", "long", name("group") % "p.tiles" * TILE),
        Let("c1", "long", ir.least(name("c0") + TILE, f"p.size[{last}]")),
    ]
    lanes = [Lanes("c", name("c0"), name("c1"), (moved(to),)) for to in (
        lambda n: name("c"), lambda n: name("c") * f"step_{n}")]  # fmt: skip
    steps = [Let(f"step_{n}", "long", name(f"p.step_{n}[{last}]")) for n in names]
    unit = Expr(" && ".join(f"p.step_{n}[{last}] == 1" for n in names), "unit", tuple(names))
    row = [*_places("row", last, names), If(unit, (lanes[0],), (*steps, lanes[1]))]
    return (*head, Rows("row", name("begin"), name("end"), tuple(row)))


def reduction(
    form: Form, ctype: str, identity: str, op: str, mapped: Expr, finished: Callable[[Expr], Expr]
) -> tuple[Node, ...]:
    """Rows of `columns` elements side by side, each one result. `mapped`: an element, at `at + c`."""
    row = (
        Let("at", "long", name("row") * "p.columns"),
        Accumulator("acc", ctype, ir.cast(ctype, identity).text),
        Lanes("c", ir.value(0), name("p.columns"), (Accumulate("acc", op, mapped),), ways=4),
        Let("x", f"const {ctype}", ir.result("acc", op)),
        Store(name("p.ptr_out"), name("row"), finished(name("x")), first=True),
    )
    return (
        ir.ways(4),
        ir.Span(name("p.rows"), name("p.each")),
        Rows("row", name("s.begin"), name("s.end"), row, apart=not form.together),
    )
