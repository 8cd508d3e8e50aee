"""Element types of the manifest: groups, names in device code and in torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ElementType:
    name: str  # the suffix of kernel names
    device: str  # C++ type in device code, namespace xpu
    torch: str | None  # torch.<name>, None for types that only move bytes
    scalar: str  # the name that c10::toString gives, which torch's messages carry
    number: int  # of c10::ScalarType; one of no torch type where there is none
    size: int  # bytes
    groups: tuple[str, ...]  # from most to least specific

    @property
    def fp64(self) -> bool:
        return self.name in ("f64", "c128")


# In the order of reports.
_TYPES = [
    ElementType("f32", "float", "float32", "Float", 6, 4, ("float",)),
    ElementType("bf16", "bf16", "bfloat16", "BFloat16", 15, 2, ("float",)),
    ElementType("f16", "half", "float16", "Half", 5, 2, ("float",)),
    ElementType("f64", "double", "float64", "Double", 7, 8, ("float",)),
    ElementType("i64", "int64_t", "int64", "Long", 4, 8, ("int",)),
    ElementType("i32", "int32_t", "int32", "Int", 3, 4, ("int",)),
    ElementType("i16", "int16_t", "int16", "Short", 2, 2, ("int",)),
    ElementType("i8", "int8_t", "int8", "Char", 1, 1, ("int",)),
    ElementType("u8", "uint8_t", "uint8", "Byte", 0, 1, ("int",)),
    ElementType("b8", "bool", "bool", "Bool", 11, 1, ("bool",)),
    ElementType("c64", "cplx<float>", "complex64", "ComplexFloat", 9, 8, ("complex",)),
    ElementType("c128", "cplx<double>", "complex128", "ComplexDouble", 10, 16, ("complex",)),
    ElementType("c32", "cplx<half>", "complex32", "ComplexHalf", 8, 4, ("chalf", "complex")),
    ElementType("u16", "uint16_t", "uint16", "UInt16", 27, 2, ("uint", "int")),
    ElementType("u32", "uint32_t", "uint32", "UInt32", 28, 4, ("uint", "int")),
    ElementType("u64", "uint64_t", "uint64", "UInt64", 29, 8, ("uint", "int")),
    ElementType("f8e4m3fn", "f8e4m3fn", "float8_e4m3fn", "Float8_e4m3fn", 24, 1, ("float8",)),
    ElementType("f8e5m2", "f8e5m2", "float8_e5m2", "Float8_e5m2", 23, 1, ("float8",)),
    ElementType("f8e4m3fnuz", "f8e4m3fnuz", "float8_e4m3fnuz", "Float8_e4m3fnuz", 26, 1, ("float8",)),
    ElementType("f8e5m2fnuz", "f8e5m2fnuz", "float8_e5m2fnuz", "Float8_e5m2fnuz", 25, 1, ("float8",)),
    ElementType("f8e8m0fnu", "f8e8m0fnu", "float8_e8m0fnu", "Float8_e8m0fnu", 44, 1, ("float8",)),
    ElementType("x16", "raw16", None, "UNKNOWN_SCALAR", 46, 16, ("raw",)),
]
TYPES = {t.name: t for t in _TYPES}
SLOTS = 48  # entries of a table by element type


def slots(entries: dict[str, str], absent: str) -> str:
    """The initialiser of a C++ table by element type: entries by type name, `absent` elsewhere."""
    numbered = {TYPES[name].number: entry for name, entry in entries.items()}
    return ", ".join(numbered.get(i, absent) for i in range(SLOTS))


def include_file() -> str:
    """gen/kernels/dtypes.inc, from which kernels/dtype.hpp makes the enum, suffixes, sizes and names."""
    lines = [f'XPU_OPS_DTYPE({t.name}, {t.number}, {t.size}, "{t.scalar}")' for t in _TYPES]
    head = ["// Generated from tools/codegen/types.py; do not edit. Name, number, bytes, name in torch's messages."]
    return "\n".join([*head, *lines, ""])


GROUPS: dict[str, list[str]] = {
    "float": ["f16", "bf16", "f32", "f64"],
    "complex": ["c64", "c128"],
    "chalf": ["c32"],
    "int": ["u8", "i8", "i16", "i32", "i64"],
    "uint": ["u16", "u32", "u64"],
    "bool": ["b8"],
    "float8": ["f8e5m2", "f8e4m3fn", "f8e5m2fnuz", "f8e4m3fnuz", "f8e8m0fnu"],
    "raw": ["u8", "u16", "u32", "u64", "x16"],
}
GROUPS["all"] = [*GROUPS["int"], *GROUPS["float"], *GROUPS["complex"], *GROUPS["bool"]]


def expand(names: list[str]) -> list[ElementType]:
    """Types of a manifest `types:` list, in order, without repeats.

    Raises KeyError with the unknown name.
    """
    out: dict[str, ElementType] = {}
    for name in names:
        for member in GROUPS.get(name, [name]):
            out[member] = TYPES[member]
    return list(out.values())
