"""Which form a kernel gets: numbers and a policy in, a form out. No device, no torch."""

from __future__ import annotations

import dataclasses

import pytest

from xpu_ops.block.device import CPU, GPU, Policy
from xpu_ops.block.nests import BLOCK, COLUMNS, ITEM_ELEMENTS, TEAM_ROW, TILE, Form, Problem, choose, program

PROBLEMS = [
    (Problem(1, 10_000), CPU, Form("tiles")),
    (Problem(1, 10_000, flat=True), CPU, Form("flat")),
    (Problem(100, BLOCK, strided=True), CPU, Form("blocks")),
    (Problem(100, BLOCK - 1, strided=True), CPU, Form("rows", rows=TILE // (BLOCK - 1))),
    (Problem(100, 5000, reduce=True, outer=True, single=True), CPU, Form("column_reduce", tile=COLUMNS)),
    (Problem(100, 5000, reduce=True, outer=True), CPU, Form("column_steps", tile=CPU.lanes)),
    (Problem(TILE, 50, reduce=True, outer=True), CPU, Form("column_steps", tile=COLUMNS)),
    (Problem(TILE, 50, reduce=True, outer=True), GPU, Form("column_items", items=128, tile=128)),
    (Problem(4, TEAM_ROW, reduce=True, ordered=True), GPU, Form("row_reduce", items=128, rows=8)),
    (Problem(100, 100, strided=True), GPU, Form("items", items=256, tile=256 * ITEM_ELEMENTS)),
    (Problem(1000, 16), CPU, Form("rows", rows=TILE // 16)),
    (Problem(1, 10_000), GPU, Form("items", items=256, tile=256 * ITEM_ELEMENTS)),
    (Problem(1000, 16), GPU, Form("items", items=256, tile=256 * ITEM_ELEMENTS)),
    (Problem(10_000, 64, reduce=True), CPU, Form("row_reduce", rows=64)),
    (Problem(100, 64, reduce=True), CPU, Form("row_reduce", rows=3)),
    (Problem(4, 1 << 20, reduce=True), CPU, Form("row_reduce")),
    (Problem(10_000, 64, reduce=True), GPU, Form("row_reduce", items=128, rows=64)),
    (Problem(10, 64, reduce=True), GPU, Form("row_reduce", items=128, rows=8)),
    (Problem(4, TEAM_ROW, reduce=True), GPU, Form("team_reduce", items=256)),
    (Problem(0, 0), CPU, Form("rows", rows=TILE)),
]
FOUR = program(GPU, warps=4)
BLOCKS = [
    (Problem(1, 1024, block=True), CPU, "rows"),
    (Problem(64, 8, block=True), CPU, "flat"),
    (Problem(64, 64, strided=True, block=True), CPU, "blocks"),
    (Problem(1, 1024, reduce=True, block=True), CPU, "row_reduce"),
    (Problem(1, 64, reduce=True, outer=True, block=True), CPU, "column_steps"),
    (Problem(1, 1024, block=True), FOUR, "tiles"),
    (Problem(4, 1024, block=True), FOUR, "rows"),
    (Problem(64, 8, block=True), FOUR, "flat"),
    (Problem(64, 64, strided=True, block=True), FOUR, "blocks"),
    (Problem(3, 1024, reduce=True, block=True), FOUR, "team_reduce"),
    (Problem(4, 1024, reduce=True, block=True), FOUR, "row_reduce"),
    (Problem(1, 64, reduce=True, outer=True, block=True), FOUR, "column_items"),
]


@pytest.mark.parametrize(("problem", "policy", "name"), BLOCKS)
def test_form_of_a_block(problem: Problem, policy: Policy, name: str) -> None:
    assert choose(problem, policy) == Form(name, policy.team_items, problem.length, problem.rows)


def test_items_of_a_program() -> None:
    assert [program(GPU, w).team_items for w in (1, 4, 16, 32)] == [16, 64, 256, 256]
    assert program(dataclasses.replace(GPU, team_items=400), 32).team_items == 256
    assert program(dataclasses.replace(GPU, team_items=1024), 64).team_items == 256
    assert program(CPU, 8) == CPU


@pytest.mark.parametrize(("problem", "policy", "form"), PROBLEMS)
def test_form(problem: Problem, policy: Policy, form: Form) -> None:
    assert choose(problem, policy) == form


@pytest.mark.parametrize("policy", (CPU, GPU), ids=("cpu", "gpu"))
@pytest.mark.parametrize("reduce", (False, True))
@pytest.mark.parametrize(("rows", "length"), [(1, 1), (3, 5), (1000, 17), (7, 4096), (7, 4097), (1, 100_000)])
def test_work_groups_cover_the_problem(rows: int, length: int, reduce: bool, policy: Policy) -> None:
    problem = Problem(rows, length, reduce)
    form = choose(problem, policy)
    groups, count, each, tiles = form.numbers(problem)
    if form.name == "items":
        assert count == rows * length and (groups - 1) * form.tile < count <= groups * form.tile
    else:
        assert groups % tiles == 0 and (groups // tiles - 1) * each < rows <= groups // tiles * each
        assert reduce or (tiles - 1) * form.tile < length <= tiles * form.tile


def test_a_work_group_keeps_to_the_policy() -> None:
    small = dataclasses.replace(GPU, tile_items=64, row_items=32, team_items=128)
    items = {choose(p, small).items for p in (Problem(9, 9), Problem(9, 9, reduce=True), Problem(9, 9999, reduce=True))}
    assert items == {64, 32, 128}
    assert all(choose(p, CPU).items == CPU.lanes for p, _, _ in PROBLEMS)
