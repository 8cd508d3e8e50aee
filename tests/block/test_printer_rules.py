"""The rules of the printer: what a device wants of a statement (docs/cpu-device.md), a test for each."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from xpu_ops import jit
from xpu_ops.block import ir, printer
from xpu_ops.block.device import CPU, GPU
from xpu_ops.block.ir import Expr, Lanes, Store, name, value
from xpu_ops.block.nests import Problem, choose

THREAD = ir.Kernel("k", (), ())
TEAM = dataclasses.replace(THREAD, items=256)
ROWS = dataclasses.replace(TEAM, together=False)
RESULT = ir.Let("x", "const float", ir.result("acc", "Sum"))


def store(first: bool, *when: str) -> Store:
    return Store(name("y"), name("row"), name("x"), first, when)


@pytest.mark.parametrize(
    ("kernel", "node", "text"),
    [
        (THREAD, store(True), "st_first(y, row, x);"),
        (THREAD, store(True, "ok0"), "if (first && ok0) st(y, row, x);"),
        (THREAD, store(False, "in", "ok0"), "if (in && ok0) st(y, row, x);"),
        (TEAM, store(True), "if (leader) st(y, row, x);"),
        (ROWS, store(True), "if (first) st(y, row, x);"),
    ],
)
def test_one_lanes_result_is_stored_by_all_of_a_thread(kernel: ir.Kernel, node: Store, text: str) -> None:
    assert printer.lines([node], kernel) == [text]


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (THREAD, "const float x = across<Sum>(join<Sum>(acc));"),
        (ROWS, "const float x = across<Sum>(join<Sum>(acc));"),
        (TEAM, "const float x = across_team<Sum, 256>(join<Sum>(acc));"),
        (dataclasses.replace(THREAD, across=False), "const float x = join<Sum>(acc);"),
        (dataclasses.replace(THREAD, across=False, slots=True), "const float x = acc[j];"),
    ],
)
def test_a_result_is_joined_by_those_that_share_it(kernel: ir.Kernel, text: str) -> None:
    assert printer.lines([RESULT], kernel) == [text]


@pytest.mark.parametrize(
    ("kernel", "by", "text"),
    [
        (THREAD, "program", "if (m) y = x;"),
        (THREAD, "sub_group", "if (m) y = x;"),
        (TEAM, "sub_group", "if (item == 0 && m) y = x;"),
        (TEAM, "program", "if (item == 0 && part == 0 && m) y = x;"),
        (TEAM, "", "if (m) y = x;"),
    ],
)
def test_one_value_of_a_program_is_put_once_or_by_all_of_a_thread(kernel: ir.Kernel, by: str, text: str) -> None:
    assert printer.lines([ir.Put(name("y"), name("x"), name("m"), by)], kernel) == [text]


def test_one_item_of_a_program_does_what_counts() -> None:
    """An atomic operation, which all lanes must not do."""
    once = ir.One((ir.Do(ir.call("tri::rmw_add", "y", "x")),))
    assert printer.lines([once], THREAD) == ["if (item == 0) {", "  tri::rmw_add(y, x);", "}"]
    assert printer.lines([once], TEAM)[0] == "if (item == 0 && part == 0) {"


def test_sub_groups_share_the_steps_of_a_loop() -> None:
    own, shared = (ir.Count("c", 64, (), 16, shared=s) for s in (False, True))
    assert printer.lines([own], TEAM)[0] == printer.lines([shared], THREAD)[0]
    assert printer.lines([own], TEAM)[0] == "for (size_t c = 0; c < 64; c += 16) {"
    assert printer.lines([shared], TEAM)[0] == "for (size_t c = part * 16; c < 64; c += 256) {"
    assert printer.lines([ir.Sync()], THREAD) == ["tri::sync();"]
    assert printer.lines([ir.Sync()], TEAM) == ["tri::sync_parts();"]


def test_rows_of_sub_groups_are_apart() -> None:
    rows = ir.Rows("row", value(0), name("n"), (), apart=True)
    assert printer.lines([rows], ROWS)[0] == "for (long row = 0 + part_of_group; row < n; row += 16) {"


@pytest.mark.parametrize(
    ("ways", "in_order", "kernel", "loop"),
    [
        (0, False, THREAD, "lanes(0, n, lane, [&](long c) GEN_INLINE {"),
        (4, False, THREAD, "lanes_by4(n, lane, [&](long c, auto slot) GEN_INLINE {"),
        (4, True, THREAD, "lanes_in_order(n, lane, [&](long c, bool in, auto slot) GEN_INLINE {"),
        (4, False, ROWS, "lanes_by4(n, lane, [&](long c, auto slot) GEN_INLINE {"),
        (0, False, TEAM, "team<256>(0, n, item, [&](long c) GEN_INLINE {"),
        (4, False, TEAM, "team_by4<256>(0, n, item, [&](long c, auto slot) GEN_INLINE {"),
    ],
)
def test_neighbours_in_memory_lie_in_neighbouring_lanes(
    ways: int, in_order: bool, kernel: ir.Kernel, loop: str
) -> None:
    assert printer.lines([Lanes("c", value(0), name("n"), (), ways, in_order)], kernel)[0] == loop


def test_an_operand_that_steps_is_read_from_its_blocks_copy() -> None:
    at = Expr("x1 + 9*x0", "index", (name("x0"), name("x1")))
    node = ir.Let("tmp0", "float", ir.load("a", at, "step"), cast=True)
    assert printer.lines([node], THREAD) == ["float tmp0 = static_cast<float>(ld(a, x1 + 9*x0));"]
    copied = dataclasses.replace(THREAD, copies={("a", at.text, False): ("copy0", 64)})
    assert printer.lines([node], copied) == ["float tmp0 = static_cast<float>(ld(copy0 + (xn - n0) * 64 - c0, xc));"]


@pytest.mark.parametrize("policy", (CPU, GPU), ids=("cpu", "gpu"))
def test_the_argument_struct_is_indexed_by_constants(policy: object) -> None:
    op, form = jit.elementwise("add", "T a, T b", "a + b"), choose(Problem(100, 1000), policy)  # type: ignore[arg-type]
    text = printer.source(op._block(form, torch.float32, [torch.float32] * 2, torch.float32, 4))
    indices = re.findall(r"p\.\w+\[(\w+)\]", text)
    assert len(indices) > 12 and all(i.isdigit() for i in indices)


def test_a_base_is_uniform_and_the_place_has_64_bits() -> None:
    op = jit.elementwise("twice", "T a", "a + a")
    text = printer.source(op._block(choose(Problem(9, 9), CPU), torch.float32, [torch.float32], torch.float32, 2))
    assert "ld(p.ptr_a + at_a, c)" in text and "const long at_a" in text and "[&](long c)" in text


def test_index_arithmetic_keeps_its_order() -> None:
    g, n = name("g"), name("n")
    assert (g // n * 4).text == "(g / n) * 4" and (g - n * 4 + 1).text == "(g - n * 4) + 1"
    assert (g * (n + 1)).text == "g * (n + 1)" and (g + n + 1).text == "g + n + 1"
    assert list((g // n * 4).names()) == ["g", "n"]
