"""Pointwise kernels that are the same bits: one of them is compiled, and the tables of the others name it.

Signed and unsigned integers of one width are added, multiplied, negated, compared for equality and chosen alike; what
ignores its operands is the same for every type; and rows may have one expression (ceil and floor of integers,
floor_divide and div with rounding_mode="floor").
"""

from __future__ import annotations

import re

from .model import PointwiseKernel
from .types import ElementType

# The type a kernel of every integer type of a width is compiled for: one whose sums and products wrap. 16-bit ones are
# computed in int, where the product of two signed ones has room.
COMMON = {
    "u8": "uint8_t", "i8": "uint8_t", "i16": "int16_t", "u16": "int16_t", "i32": "uint32_t", "u32": "uint32_t",
    "i64": "uint64_t", "u64": "uint64_t",
}  # fmt: skip
OPERAND = r"\b[a-f]\b|\bs\d\b|[()\s]"
# Either set, not both: a sum that is compared has bits above its type's.
ARITHMETIC = re.compile(rf"(?:{OPERAND}|[-+*&|^~])+")
LOGIC = re.compile(rf"(?:{OPERAND}|\bM\(0\)|==|!=|&&|\|\||[!?:])+")
CONSTANT = re.compile(r"true|false")


def form(kernel: PointwiseKernel, t: ElementType) -> tuple[str, str]:
    """The property that types must share to use one kernel, and the device type to compile it for."""
    own = (t.name, t.device)
    if any(o.kind not in ("T", "b8") for o in [*kernel.inputs, *kernel.outputs]):
        return own
    exprs = kernel.exprs[t.name]
    if all(CONSTANT.fullmatch(e) for e in exprs) and all(o.kind == "b8" for o in kernel.outputs):
        return "any", "uint8_t"
    if t.name not in COMMON:
        return own
    for expr, out in zip(exprs, kernel.outputs, strict=True):
        bits = out.kind == "T" and ARITHMETIC.fullmatch(expr)
        if not bits and not LOGIC.fullmatch(expr):
            return own
    return COMMON[t.name], COMMON[t.name]


def device_type(kernel: PointwiseKernel, t: ElementType) -> str:
    return form(kernel, t)[1]


class Sharing:
    """Which kernel of a family stands for which."""

    def __init__(self, kernels: list[PointwiseKernel]) -> None:
        self._owner: dict[str, str] = {}
        first: dict[object, str] = {}
        for kernel in kernels:
            for t in kernel.types:
                key = (
                    form(kernel, t)[0],
                    tuple(kernel.exprs[t.name]),
                    tuple(o.kind for o in kernel.inputs),
                    tuple(o.kind for o in kernel.outputs),
                    tuple(s.kind for s in kernel.scalars) if any("s" in e for e in kernel.exprs[t.name]) else (),
                    t.fp64,
                    kernel.quick,
                    kernel.stored,
                )
                for way in ("rows", "fours"):
                    if t.name in kernel.forms[way]:
                        own = f"{kernel.name}_{t.name}_{way}"
                        self._owner[own] = first.setdefault((way, key), own)

    def owner_of(self, kernel: str) -> str:
        """The kernel that is compiled for this one; mostly itself."""
        return self._owner.get(kernel, kernel)
