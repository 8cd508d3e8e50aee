"""Element types of generated kernels: names, C++ types, the type that values are computed in, literals."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

LANES = 16  # of a sub-group


@dataclass(frozen=True)
class Element:
    """One type of elements in memory."""

    name: str  # the manifest's
    cpp: str  # in the prelude
    torch: str
    mlir: str | None
    size: int
    kind: str  # float, int, uint, bool, complex

    @property
    def small_float(self) -> bool:
        """Whether values are widened once, where they are loaded."""
        return self.kind == "float" and self.size < 4

    @property
    def compute(self) -> str:
        """The C++ type of a value in registers."""
        return "float" if self.small_float else self.cpp

    @property
    def unsigned(self) -> str:
        """The C++ type of an unsigned integer of that size."""
        return "bool" if self.kind == "bool" else f"uint{8 * self.size}_t"


_TABLE = (
    Element("b8", "bool", "bool", "i1", 1, "bool"),
    Element("i8", "int8_t", "int8", "i8", 1, "int"),
    Element("i16", "int16_t", "int16", "i16", 2, "int"),
    Element("i32", "int32_t", "int32", "i32", 4, "int"),
    Element("i64", "int64_t", "int64", "i64", 8, "int"),
    Element("u8", "uint8_t", "uint8", None, 1, "uint"),
    Element("u16", "uint16_t", "uint16", None, 2, "uint"),
    Element("u32", "uint32_t", "uint32", None, 4, "uint"),
    Element("u64", "uint64_t", "uint64", None, 8, "uint"),
    Element("f16", "half", "float16", "f16", 2, "float"),
    Element("bf16", "bf16", "bfloat16", "bf16", 2, "float"),
    Element("f32", "float", "float32", "f32", 4, "float"),
    Element("f64", "double", "float64", "f64", 8, "float"),
    Element("f8e5m2", "xpu::f8e5m2", "float8_e5m2", "f8E5M2", 1, "float"),
    Element("f8e4m3fn", "xpu::f8e4m3fn", "float8_e4m3fn", "f8E4M3FN", 1, "float"),
    Element("f8e5m2fnuz", "xpu::f8e5m2fnuz", "float8_e5m2fnuz", "f8E5M2FNUZ", 1, "float"),
    Element("f8e4m3fnuz", "xpu::f8e4m3fnuz", "float8_e4m3fnuz", "f8E4M3FNUZ", 1, "float"),
    # Moved alone: operators compute with complex numbers, and a result of theirs may need other strides.
    Element("c64", "xpu::cplx<float>", "complex64", None, 8, "complex"),
    Element("c128", "xpu::cplx<double>", "complex128", None, 16, "complex"),
)
ELEMENTS = {e.name: e for e in _TABLE}
BY_MLIR = {e.mlir: e for e in _TABLE if e.mlir}
# Exponents and pairs of nibbles are moved alone, as bytes: Inductor leaves arithmetic with them to operators.
_BY_TORCH = {f"torch.{e.torch}": e for e in _TABLE}
_BY_TORCH |= dict.fromkeys(("torch.float8_e8m0fnu", "torch.float4_e2m1fn_x2"), ELEMENTS["u8"])


def of(dtype: Any) -> Element:
    """The element type of a torch.dtype.

    Raises:
        KeyError: for a dtype that no kernel takes.
    """
    return _BY_TORCH[str(dtype)]


def memory_type(dtype: Any) -> str:
    """The C++ type of elements in memory."""
    return of(dtype).cpp


def compute_type(dtype: Any) -> str:
    """The C++ type of a value in registers."""
    return of(dtype).compute


# ---- literals


def _float_literal(value: float, single: bool) -> str:
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("__builtin_inff()" if single else "__builtin_inf()")
    if math.isnan(value):
        return '__builtin_nanf("")' if single else '__builtin_nan("")'
    if not single:
        return f"double({value!r})"
    if abs(value) > 3.4028234663852886e38:  # rounds to infinity or the largest float, which C++ leaves open
        return _float_literal(ctypes.c_float(value).value, True)
    text = repr(value)
    return f"{text}f" if value >= 0 and ("." in text or "e" in text) else f"float({text}f)"


def _integer_range(element: Element) -> tuple[int, int]:
    bits = 8 * element.size
    return (0, 2**bits - 1) if element.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def literal(value: Any, element: Element) -> str:
    """A constant of the type that the element is computed in. An infinity becomes an integer's bound."""
    kind = element.compute
    if element.kind == "complex":
        parts = complex(value).real, complex(value).imag
        return f"{kind}({', '.join(_float_literal(x, element.name == 'c64') for x in parts)})"
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("float", "double"):
        return _float_literal(float(value), kind == "float")
    if isinstance(value, float) and not math.isfinite(value):
        value = _integer_range(element)[value > 0]
    value = int(value)
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    return f"{kind}({value}{'UL' if value > 2**63 - 1 else 'L'})"


def printed(text: str, element: Element) -> str:
    """A float as MLIR prints it: its digits, or 0x and its bits."""
    if text.startswith("0x"):
        return f"__builtin_bit_cast({element.cpp}, static_cast<{element.unsigned}>({text}ull))"
    return f"{element.cpp}({text}{'' if element.name == 'f64' else 'f'})"


def bound(element: Element, above: bool) -> str:
    """Above or equal to every value, or below."""
    return literal(above if element.kind == "bool" else math.inf if above else -math.inf, element)
