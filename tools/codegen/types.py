"""Element types of the manifest: groups, names in device code and in torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ElementType:
    name: str  # the suffix of kernel names
    device: str  # C++ type in device code, namespace xpu
    torch: str | None  # torch.<name>, None for types that only move bytes
    groups: tuple[str, ...]  # from most to least specific

    @property
    def fp64(self) -> bool:
        return self.name in ("f64", "c128")


_TYPES = [
    ElementType("f16", "half", "float16", ("float",)),
    ElementType("bf16", "bf16", "bfloat16", ("float",)),
    ElementType("f32", "float", "float32", ("float",)),
    ElementType("f64", "double", "float64", ("float",)),
    ElementType("c32", "cplx<half>", "complex32", ("chalf", "complex")),
    ElementType("c64", "cplx<float>", "complex64", ("complex",)),
    ElementType("c128", "cplx<double>", "complex128", ("complex",)),
    ElementType("u8", "uint8_t", "uint8", ("int",)),
    ElementType("i8", "int8_t", "int8", ("int",)),
    ElementType("i16", "int16_t", "int16", ("int",)),
    ElementType("i32", "int32_t", "int32", ("int",)),
    ElementType("i64", "int64_t", "int64", ("int",)),
    ElementType("u16", "uint16_t", "uint16", ("uint", "int")),
    ElementType("u32", "uint32_t", "uint32", ("uint", "int")),
    ElementType("u64", "uint64_t", "uint64", ("uint", "int")),
    ElementType("b8", "bool", "bool", ("bool",)),
    ElementType("f8e5m2", "f8e5m2", "float8_e5m2", ("float8",)),
    ElementType("f8e4m3fn", "f8e4m3fn", "float8_e4m3fn", ("float8",)),
    ElementType("f8e5m2fnuz", "f8e5m2fnuz", "float8_e5m2fnuz", ("float8",)),
    ElementType("f8e4m3fnuz", "f8e4m3fnuz", "float8_e4m3fnuz", ("float8",)),
    ElementType("f8e8m0fnu", "f8e8m0fnu", "float8_e8m0fnu", ("float8",)),
    ElementType("x16", "raw16", None, ("raw",)),
]
TYPES = {t.name: t for t in _TYPES}

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
