"""How torch's dtypes, literals and index expressions are written in generated kernels."""

from __future__ import annotations

import math
from typing import Any

import sympy
import torch
from torch.utils._sympy.printers import CppPrinter

LANES = 16  # a work-group is one sub-group

CTYPE = {
    torch.bool: "bool",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.uint8: "uint8_t",
    torch.uint16: "uint16_t",
    torch.uint32: "uint32_t",
    torch.uint64: "uint64_t",
    torch.float16: "half",
    torch.bfloat16: "bf16",
    torch.float32: "float",
    torch.float64: "double",
    torch.float8_e5m2: "xpu::f8e5m2",
    torch.float8_e4m3fn: "xpu::f8e4m3fn",
    torch.float8_e5m2fnuz: "xpu::f8e5m2fnuz",
    torch.float8_e4m3fnuz: "xpu::f8e4m3fnuz",
    # Moved alone: operators compute with complex numbers, and a result of theirs may need other strides.
    torch.complex64: "xpu::cplx<float>",
    torch.complex128: "xpu::cplx<double>",
}
_SMALL_FLOATS = tuple(t for t in CTYPE if t.is_floating_point and t.itemsize < 4)
_MOST_NEGATIVE = -(2**63)


def compute_type(dtype: torch.dtype) -> str:
    """The type of a value in registers: small floats are widened once, where they are loaded."""
    return "float" if dtype in _SMALL_FLOATS else CTYPE[dtype]


def is_small_float(dtype: torch.dtype) -> bool:
    return dtype in _SMALL_FLOATS


def _float_literal(value: float, single: bool) -> str:
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("__builtin_inff()" if single else "__builtin_inf()")
    if math.isnan(value):
        return '__builtin_nanf("")' if single else '__builtin_nan("")'
    if not single:
        return f"double({value!r})"
    if abs(value) > torch.finfo(torch.float32).max:  # rounds to infinity or the largest float, which C++ leaves open
        return _float_literal(torch.tensor(value, dtype=torch.float32).item(), True)
    text = repr(value)
    return f"{text}f" if value >= 0 and ("." in text or "e" in text) else f"float({text}f)"


def literal(value: Any, dtype: torch.dtype) -> str:
    """A constant of the type that `dtype` is computed in."""
    ctype = compute_type(dtype)
    if isinstance(value, sympy.Expr):
        value = float(value) if dtype.is_floating_point or dtype.is_complex else int(value)
    if dtype.is_complex:
        parts = complex(value).real, complex(value).imag
        return f"{ctype}({', '.join(_float_literal(x, dtype == torch.complex64) for x in parts)})"
    if ctype == "bool":
        return "true" if value else "false"
    if ctype in ("float", "double"):
        return _float_literal(float(value), ctype == "float")
    if isinstance(value, float) and not math.isfinite(value):
        value = torch.iinfo(dtype).max if value > 0 else torch.iinfo(dtype).min
    value = int(value)
    if value == _MOST_NEGATIVE:
        return "(-9223372036854775807L - 1)"
    return f"{ctype}({value}{'UL' if value > 2**63 - 1 else 'L'})"


def lowest(dtype: torch.dtype) -> str:
    """Below or equal to every value."""
    if dtype.is_floating_point:
        return literal(-math.inf, dtype)
    return "false" if dtype == torch.bool else literal(torch.iinfo(dtype).min, dtype)


def highest(dtype: torch.dtype) -> str:
    """Above or equal to every value."""
    if dtype.is_floating_point:
        return literal(math.inf, dtype)
    return "true" if dtype == torch.bool else literal(torch.iinfo(dtype).max, dtype)


class IndexPrinter(CppPrinter):
    """Index expressions in 64-bit integers. Divisors are positive, as upstream's are."""

    def doprint(self, expr: Any) -> str:
        text: str = super().doprint(expr)
        text = text.replace("std::numeric_limits<double>::infinity()", "__builtin_inf()")
        return text.replace("std::", "expr::").replace("math.sin", "expr::sin")

    def _divide(self, x: sympy.Expr, divisor: sympy.Expr) -> str:
        if divisor == 1:
            return f"({self._print(x)})"
        a, b = self._print(x), self._print(divisor)
        return f"(({a}) / ({b}))" if x.is_nonnegative else f"index_floor_div({a}, {b})"

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        x, divisor = expr.args
        if not expr.is_integer:
            return f"expr::floor(static_cast<double>({self._print(x)}) / static_cast<double>({self._print(divisor)}))"
        if divisor.is_positive:
            return self._divide(x, divisor)
        return f"floor_div<int64_t>({self._print(x)}, {self._print(divisor)})"

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        x, divisor, modulus = expr.args
        a, m = self._divide(x, divisor), self._print(modulus)
        return f"({a} % ({m}))" if x.is_nonnegative else f"index_mod({a}, {m})"

    def _print_PythonMod(self, expr: sympy.Expr) -> str:
        x, divisor = expr.args
        if divisor.is_positive and x.is_nonnegative:
            return f"(({self._print(x)}) % ({self._print(divisor)}))"
        return f"xpu::remainder<int64_t>({self._print(x)}, {self._print(divisor)})"

    def _print_PowByNatural(self, expr: sympy.Expr) -> str:
        base, exponent = expr.args
        return f"xpu::pow<int64_t>({self._print(base)}, {self._print(exponent)})"

    def _print_min_max(self, expr: sympy.Expr, name: str) -> str:
        ctype = "int64_t" if expr.is_integer else "double"
        first, *rest = (self._print(a) for a in expr.args)
        for other in rest:
            first = f"sycl::{name}<{ctype}>({first}, {other})"
        return first

    def _print_Not(self, expr: sympy.Expr) -> str:
        return f"!({self._print(expr.args[0])})"

    def _print_And(self, expr: sympy.Expr) -> str:
        return "(" + " && ".join(f"({self._print(a)})" for a in expr.args) + ")"

    def _print_Or(self, expr: sympy.Expr) -> str:
        return "(" + " || ".join(f"({self._print(a)})" for a in expr.args) + ")"


print_index = IndexPrinter().doprint
