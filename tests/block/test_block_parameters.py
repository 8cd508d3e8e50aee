"""The parameter block of generated kernels: fields, letters of a call, the head."""

from __future__ import annotations

from xpu_ops.block import parameters, printer
from xpu_ops.block.parameters import number, pointer

FIELDS = [
    pointer("x", "half", const=True),
    pointer("y", "float"),
    number("n"),
    number("scale", "half"),
    number("factor", "double"),
    number("flag", "bool"),
    number("size", count=3),
]


def test_letters() -> None:
    assert parameters.signature(FIELDS) == "ppifdiiii"
    assert parameters.signature(parameters.reports(2)) == ""
    assert [f.name for f in parameters.reports(2)] == ["error", "text0", "text1"] and not parameters.reports(0)


def test_values_have_the_type_that_the_kernel_computes_with() -> None:
    assert parameters.values(FIELDS) == [
        "const half* const x = p.x;",
        "float* const y = p.y;",
        "int64_t const n = p.n;",
        "half const scale = static_cast<half>(p.scale);",
        "double const factor = p.factor;",
        "bool const flag = static_cast<bool>(p.flag);",
    ]


def test_every_field_begins_at_8_bytes() -> None:
    text = printer.kernel("f", FIELDS, ["y[0] = 1;"], before=["Other other;"], inlined=True)
    assert text.splitlines() == [
        "struct f_args {",
        "  Other other;",
        "  alignas(8) const half* x;",
        "  alignas(8) float* y;",
        "  alignas(8) int64_t n;",
        "  alignas(8) float scale;",
        "  alignas(8) double factor;",
        "  alignas(8) int64_t flag;",
        "  alignas(8) int64_t size[3];",
        "};",
        "XPU_KERNEL_SG(1, 16) GEN_INLINE f(f_args p) {",
        "  y[0] = 1;",
        "}",
    ]
    assert printer.kernel("g", [], [], lanes=None) == "struct g_args {\n};\nXPU_KERNEL(1) g(g_args p) {\n}\n"
