"""How Inductor's constants and index expressions are written in generated kernels."""

from __future__ import annotations

import sympy
import torch
from torch.utils._sympy.printers import CppPrinter

from xpu_ops.block import types


def literal(value: bool | float | sympy.Expr, dtype: torch.dtype) -> str:
    """A constant of the type that `dtype` is computed in."""
    if isinstance(value, sympy.Expr):
        value = float(value) if dtype.is_floating_point or dtype.is_complex else int(value)
    return types.literal(value, types.of(dtype))


def asks_floats(expr: sympy.Expr) -> bool:
    """Whether a part of an index expression is computed in floating point."""
    return any(isinstance(e, sympy.Expr) and not e.is_integer for e in sympy.preorder_traversal(expr))


class IndexPrinter(CppPrinter):
    """Index expressions in 64-bit integers. Divisors are positive, as upstream's are."""

    def doprint(self, expr: sympy.Expr) -> str:
        text: str = super().doprint(expr)
        return text.replace("std::", "expr::")

    def _print_Infinity(self, expr: sympy.Expr) -> str:
        return "__builtin_inf()"

    def _print_OpaqueUnaryFn_sin(self, expr: sympy.Expr) -> str:
        return f"expr::sin({self._print(expr.args[0])})"

    def _divide(self, x: sympy.Expr, divisor: sympy.Expr) -> str:
        if divisor == 1:
            return f"({self._print(x)})"
        a, b = self._print(x), self._print(divisor)
        return f"(({a}) / ({b}))" if x.is_nonnegative else f"index_floor_div({a}, {b})"

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        x, divisor = expr.args
        if divisor.is_positive:
            return self._divide(x, divisor)
        return f"xpu::div_floor<int64_t>({self._print(x)}, {self._print(divisor)})"

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

    def _print_And(self, expr: sympy.Expr) -> str:
        return "(" + " && ".join(f"({self._print(a)})" for a in expr.args) + ")"


print_index = IndexPrinter().doprint
