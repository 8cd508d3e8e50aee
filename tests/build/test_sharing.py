"""Which pointwise kernels stand for which: only those that are the same bits."""

from __future__ import annotations

import pytest

from tools.codegen.model import Operand, PointwiseKernel
from tools.codegen.sharing import Sharing, device_type
from tools.codegen.types import TYPES

INTEGERS = ("u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64")


def kernel(name: str, expr: str, result: str = "T", types: tuple[str, ...] = INTEGERS) -> PointwiseKernel:
    operands = [Operand("T")] * (1 + ("b" in expr))
    return PointwiseKernel(name, operands, [Operand(result)], [], {t: [expr] for t in types})


@pytest.mark.parametrize(
    ("expr", "result"), [("a * b", "T"), ("a == b", "b8"), ("-a", "T"), ("a & b", "T"), ("a", "T")]
)
def test_sign_does_not_matter(expr: str, result: str) -> None:
    shared = Sharing([kernel("op", expr, result)])
    for signed, unsigned in (("i8", "u8"), ("i16", "u16"), ("i32", "u32"), ("i64", "u64")):
        assert shared.owner_of(f"op_{signed}_rows") == shared.owner_of(f"op_{unsigned}_rows")
    assert len({shared.owner_of(f"op_{t}_rows") for t in INTEGERS}) == 4


@pytest.mark.parametrize(
    ("expr", "result"),
    [
        ("a < b", "b8"),
        ("a / b", "T"),
        ("a >> b", "T"),
        ("xpu::maximum(a, b)", "T"),
        ("a + b == M(0)", "b8"),
        ("-a", "R"),
    ],
)
def test_sign_matters(expr: str, result: str) -> None:
    op = kernel("op", expr, result)
    shared = Sharing([op])
    for t in INTEGERS:
        assert shared.owner_of(f"op_{t}_rows") == f"op_{t}_rows"
        assert device_type(op, TYPES[t]) == TYPES[t].device


def test_rows_of_one_expression() -> None:
    types = ("f32", "i32")
    shared = Sharing(
        [
            kernel(n, e, types=types)
            for n, e in (("one", "xpu::f(a, b)"), ("two", "xpu::f(a, b)"), ("three", "xpu::f(b, a)"))
        ]
    )
    assert shared.owner_of("two_f32_rows") == "one_f32_rows"
    assert shared.owner_of("three_f32_rows") == "three_f32_rows"


def test_constants_are_one_kernel() -> None:
    shared = Sharing([kernel("op", "false", "b8")])
    assert {shared.owner_of(f"op_{t}_rows") for t in INTEGERS} == {"op_u8_rows"}
