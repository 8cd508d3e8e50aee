"""Element types and constants of Triton IR by the table of xpu_ops/block/types.py."""

from __future__ import annotations

import re

from xpu_ops.block import types
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


def unsigned(elem: str) -> str:
    return "bool" if elem == "i1" else types.unsigned(size_of(elem))


def is_integer(elem: str) -> bool:
    return elem[0] == "i"


def is_float(elem: str) -> bool:
    return elem[0] in "fb"


def literal(text: str, elem: str) -> str:
    """The C++ of a constant as MLIR prints it: 1, -1, true, 1.000000e+00, 0x7F800000."""
    text = text.strip()
    if text.startswith("dense<"):
        text = text[6 : text.rindex(">")].strip().strip('"')
        if text.startswith("["):
            raise Unsupported("a constant with different elements")
    if is_float(elem):
        if text.startswith("0x"):  # the bits
            return f"__builtin_bit_cast({cpp(elem)}, static_cast<{unsigned(elem)}>({text}ull))"
        return f"{cpp(elem)}({text}{'' if elem == 'f64' else 'f'})"
    if elem == "i1":
        return "true" if text in ("true", "1", "-1") else "false"
    value, bits = int(text), 8 * size_of(elem)
    return types.literal(value - (1 << bits) if value >= 1 << (bits - 1) else value, types.BY_MLIR[elem])


_LITERAL = re.compile(r"\w+\((-?\d+)L\)$")


def integer_of(code: str) -> int | None:
    """The value of an integer literal made by `literal`, None for other code."""
    m = _LITERAL.match(code)
    return int(m[1]) if m else None
