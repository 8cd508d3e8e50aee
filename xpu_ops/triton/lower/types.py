"""Element types of Triton IR as C++ types, and literals."""

from __future__ import annotations

import re

from xpu_ops.triton.ttir import Unsupported

LANES = 16

_CPP = {
    "i1": "bool",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "f16": "xpu::half",
    "bf16": "xpu::bf16",
    "f32": "float",
    "f64": "double",
    "f8E5M2": "xpu::f8e5m2",
    "f8E4M3FN": "xpu::f8e4m3fn",
    "f8E4M3FNUZ": "xpu::f8e4m3fnuz",
    "f8E5M2FNUZ": "xpu::f8e5m2fnuz",
}
_SIZE = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_WORD = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
SMALL_FLOATS = ("f16", "bf16")


def cpp(elem: str) -> str:
    """The C++ type of an element.

    Raises:
        Unsupported: for a type without one.
    """
    if elem.startswith("ptr<"):
        return cpp(elem[4:-1]) + "*"
    if elem not in _CPP:
        raise Unsupported(f"element type {elem}")
    return _CPP[elem]


def size_of(elem: str) -> int:
    """Bytes of an element in memory."""
    return 8 if elem.startswith("ptr<") else 1 if elem.startswith("f8") else _SIZE[elem]


def unsigned(elem: str) -> str:
    return "bool" if elem == "i1" else _WORD[size_of(elem)]


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
        if text.startswith("0x"):
            return f"__builtin_bit_cast({cpp(elem)}, static_cast<{_WORD[size_of(elem)]}>({text}ull))"
        return f"{cpp(elem)}({text}{'' if elem == 'f64' else 'f'})"
    if elem == "i1":
        return "true" if text in ("true", "1", "-1") else "false"
    value = int(text)
    bits = 8 * size_of(elem)
    if value >= 1 << (bits - 1):
        value -= 1 << bits
    if value == -(1 << (bits - 1)):
        return f"INT{bits}_MIN"
    return f"{cpp(elem)}({value}{'l' if bits == 64 else ''})"


_LITERAL = re.compile(r"\w+\((-?\d+)l?\)$")


def integer_of(code: str) -> int | None:
    """The value of an integer literal made by `literal`, None for other code."""
    m = _LITERAL.match(code)
    return int(m[1]) if m else None
