"""Rows that are no expression against the CPU: every overload of every row that is a function of its arguments.

Arguments are drawn from the schema of each overload, from what the row says in `test: {args: ...}`, or by a recipe
(support.recipes). Some draws break an argument: the kind of error must be the CPU's. Results go into `out=` of other sizes
and layouts, in-place calls must keep their storage, and no call may change an argument that the CPU's does not.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from ops_found import FOUND
from support.arguments import drawable
from support.calls import Call, calls, check_call
from support.manifest import TORCH_TYPES, rows
from support.recipe import UNDRAWN, find, undrawn

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
TYPES = ["f32", "bf16", "i64", "b8"] + (["f16", "f64", "c64", "u8", "i32"] if FULL else [])
EXAMPLES = settings.default.max_examples if FULL else min(10, settings.default.max_examples)

ROWS = [r for r in rows() if r["kind"] == "adapter" and r["deterministic"]]


def types_of(row: dict[str, Any], name: str) -> list[str]:
    how = find(name)
    wanted = TYPES if how is None else [t for t in how.types if t in TYPES] or list(how.types[:1])
    return [t for t in wanted if t not in row["test"]["skip_types"]]


CASES = [
    pytest.param(r, name, t, id=f"{name}-{t}")
    for r in ROWS
    for name in r["overloads"]
    if undrawn(name) is None and drawable(r, name)
    for t in types_of(r, name)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("row", "name", "type_name"), CASES)
def test_row(row: dict[str, Any], name: str, type_name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(calls(row, name, TORCH_TYPES[type_name]))
    def check(call: Call) -> None:
        check_call(row, name, type_name, call)

    for found in FOUND.get((name, type_name), []):
        check = example(Call(found()))(check)
    check()


def test_every_row_is_drawn() -> None:
    """A row that nothing draws, and that says nowhere why, fails here."""
    missing = [name for r in ROWS for name in r["overloads"] if undrawn(name) is None and not drawable(r, name)]
    assert not missing, "needs a recipe in tests/support/recipes, or test: {args: ...} in its row"


def test_reasons_are_needed() -> None:
    """Every key that carries a reason exists."""
    names = [name for r in rows() for name in r["overloads"]]
    assert all(any(re.fullmatch(glob, name) for name in names) for glob in UNDRAWN)


def test_found_examples_are_run() -> None:
    run = {(p.values[1], p.values[2]) for p in CASES}
    full_only = {t for _, t in FOUND} - set(TYPES)
    assert all(key in run or key[1] in full_only for key in FOUND)
