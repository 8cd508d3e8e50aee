"""Element types and constants of Triton IR by the table of xpu_ops/block/types.py."""

from __future__ import annotations

from xpu_ops.block import types
from xpu_ops.block.ir import FALSE, TRUE, Expr
from xpu_ops.triton.ttir import Unsupported

SMALL_FLOATS = ("f16", "bf16")


def cpp(elem: str) -> str:
    """The C++ type of an element.

    Raises:
        Unsupported: for a type without one.
    """
    if elem.startswith("ptr<"):
        return cpp(elem[4:-1]) + "*"
    if elem not in types.BY_MLIR:
        raise Unsupported(f"element type {elem}")
    return types.BY_MLIR[elem].cpp


def size_of(elem: str) -> int:
    """Bytes of an element in memory."""
    return 8 if elem.startswith("ptr<") else types.BY_MLIR[elem].size


def is_integer(elem: str) -> bool:
    return elem[0] == "i"


def is_float(elem: str) -> bool:
    return elem[0] in "fb"


def number(value: int, elem: str) -> Expr:
    """An integer constant."""
    return Expr(types.literal(value, types.BY_MLIR[elem]), "constant", (value, elem), True)


def literal(text: str, elem: str) -> Expr:
    """A constant as MLIR prints it: 1, -1, true, 1.000000e+00, 0x7F800000."""
    text = text.strip()
    if text.startswith("dense<"):
        text = text[6 : text.rindex(">")].strip().strip('"')
        if text.startswith("["):
            raise Unsupported("a constant with different elements")
    if is_float(elem):
        code = types.printed(text, types.BY_MLIR[elem])
        return Expr(code, "constant", (code,), True)
    if elem == "i1":
        return TRUE if text in ("true", "1", "-1") else FALSE
    value, bits = int(text), 8 * size_of(elem)
    return number(value - (1 << bits) if value >= 1 << (bits - 1) else value, elem)


def integer_of(code: Expr) -> int | None:
    """The value of an integer constant, None for another value."""
    known = code.args[0] if code.op == "constant" else None
    return known if isinstance(known, int) else None
