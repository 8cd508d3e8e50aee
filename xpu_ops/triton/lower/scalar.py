"""The C++ of one element of an elementwise operation: one table from operation to expression."""

from __future__ import annotations

from collections.abc import Sequence

from xpu_ops.block.ir import FALSE, TRUE, Expr
from xpu_ops.block.ops import FUNCTIONS
from xpu_ops.triton import libdevice
from xpu_ops.triton.lower.types import cpp, is_float, literal, unsigned
from xpu_ops.triton.ttir import Op, Ty

# Integers that wrap, and divide as Triton's: operation of arith, function of kernels/sycl/source/triton.hpp.
_INTEGERS = """addi:add subi:sub muli:mul divsi:div_s remsi:rem_s divui:div_u remui:rem_u floordivsi:floor_div_s
ceildivsi:ceil_div_s maxsi:max_s minsi:min_s maxui:max_u minui:min_u shli:shl shrsi:shr_s shrui:shr_u"""
_FLOATS = {
    "remf": "xpu::fmod",
    **{f"{n}{k}f": f"tri::{n}_{f}" for n in ("max", "min") for k, f in (("num", "number"), ("imum", "nan"))},
}
_ONE = "exp exp2 expm1 log log2 log1p sin cos tan tanh erf sqrt floor ceil trunc"
_UNARY = {
    **{n: FUNCTIONS[n] for n in _ONE.split()},
    **{"log10": "sycl::log10", "absf": "sycl::fabs", "round": "tri::round_away", "roundeven": "sycl::rint"},
}
_BINARY = {"powf": "xpu::pow", "atan2": FUNCTIONS["atan2"], "copysign": "sycl::copysign"}
# {T}: type of the result; {0} {1} {2}: operands; {a} {b} {c}: operands, 16-bit floats widened.
_TABLE = {
    **{f"arith.{n}": f"tri::{f}<{{T}}>({{0}}, {{1}})" for n, f in (x.split(":") for x in _INTEGERS.split())},
    **{f"arith.{n}": f"{{T}}({f}({{a}}, {{b}}))" for n, f in _FLOATS.items()},
    **{f"arith.{n}": f"{{T}}({{0}} {f} {{1}})" for n, f in (("andi", "&"), ("ori", "|"), ("xori", "^"))},
    **{f"arith.{n}f": f"{{T}}({{a}} {f} {{b}})" for n, f in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))},
    **{f"math.{n}": f"{{T}}({f}({{a}}))" for n, f in _UNARY.items()},
    **{f"math.{n}": f"{{T}}({f}({{a}}, {{b}}))" for n, f in _BINARY.items()},
    "arith.negf": "{T}(-{a})",
    "arith.select": "({0} ? {1} : {2})",
    "math.rsqrt": "{T}(1 / sycl::sqrt({a}))",
    "math.absi": "tri::abs_i<{T}>({0})",
    "math.fma": "{T}(sycl::fma({a}, {b}, {c}))",
    "tt.precise_divf": "{T}({a} / {b})",
    "tt.precise_sqrt": "{T}(sycl::sqrt({a}))",
    "tt.mulhiui": "tri::mul_hi_u({0}, {1})",
    "tt.int_to_ptr": "reinterpret_cast<{T}>({0})",
    "tt.ptr_to_int": "reinterpret_cast<int64_t>({0})",
    "tt.addptr": "({0} + {1})",
}
_INT = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<="}
_UNORDERED = {"une": "==", "ugt": "<=", "uge": "<", "ult": ">=", "ule": ">"}  # of which they are the opposite
_SPECIAL = {
    "one": "({a} < {b} || {a} > {b})",
    "ueq": "(!({a} < {b} || {a} > {b}))",
    "uno": "({a} != {a} || {b} != {b})",
    "ord": "({a} == {a} && {b} == {b})",
    "true": "true",
    "false": "false",
}
_WRITTEN = """arith.cmpi arith.cmpf arith.extsi arith.extui arith.trunci arith.index_cast arith.sitofp arith.uitofp arith.fptosi
arith.fptoui arith.extf arith.truncf arith.bitcast tt.bitcast tt.fp_to_fp tt.clampf tt.extern_elementwise"""
ELEMENTWISE = frozenset([*_TABLE, *_WRITTEN.split()])
# Operations that cost little more than a load of their result would.
_DEAR = ("arith.divf", "arith.remf", "tt.precise_divf", "tt.precise_sqrt", "tt.extern_elementwise")
CHEAP = frozenset(n for n in ELEMENTWISE if n not in _DEAR and not n.startswith("math."))


def _widened(code: str, elem: str) -> str:
    return f"tri::up({code})" if elem in ("f16", "bf16") or elem.startswith("f8") else code


def expression(op: Op, operands: Sequence[Expr], types: Sequence[Ty], out: Ty) -> Expr:
    """An element of `out`.

    Raises:
        Unsupported: for an operation that has no expression.
    """
    text = _written(op, [o.text if o.atom else f"({o.text})" for o in operands], types, out)
    if text in ("true", "false"):
        return TRUE if text == "true" else FALSE
    return Expr(text, op.name, (text, *operands), True)


def _written(op: Op, operands: Sequence[str], types: Sequence[Ty], out: Ty) -> str:
    name, T = op.name, cpp(out.elem)
    wide = [_widened(c, t.elem) for c, t in zip(operands, types, strict=True)]
    names = dict(zip("abc", wide, strict=False))
    first = types[0].elem if types else ""
    if name in _TABLE:
        return _TABLE[name].format(*operands, T=T, **names)
    if name == "arith.cmpi":
        return _compare_integers(op.words[0], operands, types[0])
    if name == "arith.cmpf":
        return _compare_floats(op, names)
    if name in ("arith.extsi", "arith.index_cast"):
        return f"{T}(-int({operands[0]}))" if first == "i1" else f"{T}({operands[0]})"
    if name == "arith.extui":
        return f"{T}({unsigned(first)}({operands[0]}))"
    if name == "arith.trunci":
        return f"(({operands[0]} & 1) != 0)" if out.elem == "i1" else f"{T}({operands[0]})"
    if name in ("arith.sitofp", "arith.uitofp"):
        x = operands[0]
        if first == "i1":
            x = f"(-int32_t({x}))" if name == "arith.sitofp" else f"int32_t({x})"
        elif name == "arith.uitofp":
            x = f"{unsigned(first)}({x})"
        return f"xpu::convert<{T}>({x})"
    if name == "arith.fptosi":
        return f"xpu::convert<{T}>({wide[0]})"
    if name == "arith.fptoui":
        return f"{T}(xpu::convert<{unsigned(out.elem)}>({wide[0]}))"
    if name in ("arith.extf", "arith.truncf", "tt.fp_to_fp"):
        return _convert_float(op, wide[0], T, out.elem)
    if name in ("arith.bitcast", "tt.bitcast"):
        if types[0].pointer or out.pointer:
            return f"reinterpret_cast<{T}>({operands[0]})"
        return f"__builtin_bit_cast({T}, {operands[0]})"
    if name == "tt.clampf":
        function = "clamp_nan" if "all" in op.text.split("propagateNan", 1)[-1] else "clamp_number"
        return f"{T}(tri::{function}({', '.join(wide)}))"
    if name == "tt.extern_elementwise":
        symbol = op.attrs["symbol"].split(" :")[0].strip('"')
        return libdevice.expression(symbol, wide, [t.elem for t in types], T, op)
    raise op.fail()


def _compare_integers(predicate: str, operands: Sequence[str], ty: Ty) -> str:
    x, y = operands
    if predicate in _INT:
        return f"({x} {_INT[predicate]} {y})"
    if predicate[0] == "u" and not ty.pointer:
        x, y = f"{unsigned(ty.elem)}({x})", f"{unsigned(ty.elem)}({y})"
    elif ty.elem == "i1":  # true is -1
        x, y = f"-int({x})", f"-int({y})"
    return f"({x} {_INT[predicate[1:]]} {y})"


def _compare_floats(op: Op, names: dict[str, str]) -> str:
    predicate = op.words[0]
    a, b = names["a"], names["b"]
    if predicate in _ORDERED:
        return f"({a} {_ORDERED[predicate]} {b})"
    if predicate in _UNORDERED:
        return f"(!({a} {_UNORDERED[predicate]} {b}))"
    return _SPECIAL[predicate].format(a=a, b=b)


def _convert_float(op: Op, value: str, T: str, elem: str) -> str:
    if "rtz" in op.words or op.attrs.get("rounding", "") == "rtz":
        if elem in ("f16", "bf16"):
            return f"tri::to_{'half' if elem == 'f16' else 'bf16'}_rtz({value})"
        if is_float(elem) and elem.startswith("f8"):
            raise op.fail("rounding towards zero to 8 bits")
    if elem in ("f32", "f64"):
        return f"{T}({value})"
    return f"{T}(float({value}))"


def constant(op: Op) -> Expr:
    """The value of an arith.constant, of one element where it is a tensor."""
    try:
        return literal(op.attrs["value"], op.types[0].elem)
    except (ValueError, KeyError):
        raise op.fail(op.attrs.get("value", "")) from None
