"""The functions of `triton.language.extra.libdevice` as C++.

Triton's own module of declarations is used, with the names of CUDA's library; what they mean is in NVIDIA's libdevice
user's guide.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpu_ops.block.ops import FUNCTIONS
from xpu_ops.triton.ttir import Op

_SHARED = """sqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh erfc floor ceil trunc exp exp2 expm1 log log2 log1p tanh
lgamma erf erfinv erfcx"""
# By the name without its prefix and the f of float.
_ONE = {
    **{name: FUNCTIONS[name] for name in _SHARED.split()},
    **{f"fast_{name}": FUNCTIONS[name] for name in ("exp", "log", "log2", "sin", "cos", "tan", "tanh")},
    **{name: f"sycl::{name}" for name in ("log10", "cbrt", "fabs", "rint", "sinpi", "cospi", "tgamma")},
    **{name: FUNCTIONS[f"bessel_{name}"] for name in ("j0", "j1", "y0", "y1")},
    **{f"cyl_{name}": f"tri::{name}" for name in ("bessel_i0", "bessel_i1")},
    "nearbyint": "sycl::rint",
    "round": "tri::round_away",
    "normcdf": "tri::normcdf",
    "logb": "tri::logb",
    "normcdfinv": "tri::normcdfinv",
}
_TWO = {
    "pow": "xpu::pow",
    **{name: f"sycl::{name}" for name in ("atan2", "hypot", "copysign", "fmod", "remainder", "nextafter")},
    "ldexp": "tri::ldexp",
    "scalbn": "tri::ldexp",
    "powi": "tri::powi",
    "fmin": "tri::min_number",
    "fmax": "tri::max_number",
}
_MODES = {"rn": "sycl::rint", "rz": "sycl::trunc", "rd": "sycl::floor", "ru": "sycl::ceil"}
# By the full name without its prefix. {0} {1} {2} are operands, {T} the type of the result.
_EXACT = {
    **dict.fromkeys(("rsqrt", "rsqrtf"), "(1 / sycl::sqrt({0}))"),
    "rcp_rn": "(1 / {0})",
    **dict.fromkeys(("rcbrt", "rcbrtf"), "(1 / sycl::cbrt({0}))"),
    **dict.fromkeys(("rhypot", "rhypotf"), "(1 / sycl::hypot({0}, {1}))"),
    **dict.fromkeys(("norm3d", "norm3df"), "sycl::hypot(sycl::hypot({0}, {1}), {2})"),
    **dict.fromkeys(("rnorm3d", "rnorm3df"), "(1 / sycl::hypot(sycl::hypot({0}, {1}), {2}))"),
    "exp10": "sycl::pow(10.0, {0})",
    "exp10f": "sycl::pow(10.0f, {0})",
    "fast_exp10f": "sycl::pow(10.0f, {0})",
    "saturatef": "(tri::clamp_number({0}, 0.0f, 1.0f) + 0.0f)",
    "fast_powf": "xpu::pow({0}, {1})",
    "fast_fdividef": "({0} / {1})",
    "fast_log10f": "sycl::log10({0})",
    "fdim": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0 : {0} + {1})",
    "fdimf": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0f : {0} + {1})",
    **dict.fromkeys(("fma", "fmaf"), "sycl::fma({0}, {1}, {2})"),
    **dict.fromkeys(("isnanf", "isnand"), "int32_t({0} != {0})"),
    **dict.fromkeys(("isinff", "isinfd"), "int32_t(xpu::isinf({0}))"),
    **dict.fromkeys(("finitef", "isfinited"), "int32_t(xpu::isfinite({0}))"),
    **dict.fromkeys(("signbitf", "signbitd"), "int32_t(xpu::signbit({0}))"),
    **dict.fromkeys(("ilogbf", "ilogb"), "tri::ilogb({0})"),
    "erfcinv": "(-0.70710678118654752 * xpu::ndtri(0.5 * {0}))",
    "erfcinvf": "(-0.707106781f * xpu::ndtri(0.5f * {0}))",
    **dict.fromkeys(("abs", "llabs"), "tri::abs_i({0})"),
    "clz": "int32_t(sycl::clz(uint32_t({0})))",
    "clzll": "int32_t(sycl::clz(uint64_t({0})))",
    "ffs": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint32_t({0}))) + 1)",
    "ffsll": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint64_t({0}))) + 1)",
    **dict.fromkeys(("popc", "popcll"), "tri::popcount({0})"),
    **dict.fromkeys(("mulhi", "mul64hi"), "tri::mul_hi_s({0}, {1})"),
    **dict.fromkeys(("umulhi", "umul64hi"), "tri::mul_hi_u({0}, {1})"),
    "brev": "tri::reversed(uint32_t({0}))",
    "brevll": "tri::reversed(uint64_t({0}))",
    "hiloint2double": "__builtin_bit_cast(double, uint64_t(uint32_t({0})) << 32 | uint32_t({1}))",
    "double2hiint": "int32_t(__builtin_bit_cast(uint64_t, {0}) >> 32)",
    "double2loint": "int32_t(__builtin_bit_cast(uint64_t, {0}))",
    **{name: f"tri::{name}({{0}}, {{1}})" for name in ("mul24", "umul24", "hadd", "rhadd", "uhadd", "urhadd")},
    **{name: f"tri::{name}({{0}}, {{1}}, {{2}})" for name in ("sad", "usad", "byte_perm")},
    **dict.fromkeys(("float_as_int", "float_as_uint"), "__builtin_bit_cast(int32_t, {0})"),
    **dict.fromkeys(("int_as_float", "uint_as_float"), "__builtin_bit_cast(float, {0})"),
    "double_as_longlong": "__builtin_bit_cast(int64_t, {0})",
    "longlong_as_double": "__builtin_bit_cast(double, {0})",
    **dict.fromkeys(("llrintf", "llrint"), "tri::to_integer<int64_t>(sycl::rint({0}))"),
    **dict.fromkeys(("llroundf", "llround"), "tri::to_integer<int64_t>(tri::round_away({0}))"),
    **{
        f"{source}2{name}_{mode}": f"tri::to_integer<{integer}>({function}({{0}}))"
        for source in ("float", "double")
        for name, integer in {"int": "int32_t", "uint": "uint32_t", "ll": "int64_t", "ull": "uint64_t"}.items()
        for mode, function in _MODES.items()
    },
    "int2float_rn": "float({0})",
    "int2double_rn": "double({0})",
    "uint2float_rn": "float(uint32_t({0}))",
    "ll2float_rn": "xpu::convert<float>({0})",
    "ll2double_rn": "xpu::convert<double>({0})",
    "uint2double_rn": "double(uint32_t({0}))",
    "ull2float_rn": "xpu::convert<float>(uint64_t({0}))",
    "ull2double_rn": "xpu::convert<double>(uint64_t({0}))",
}
_ROUNDED = {
    "add": "tri::add_rn({0}, {1})",
    "sub": "tri::sub_rn({0}, {1})",
    "mul": "tri::mul_rn({0}, {1})",
    "div": "({0} / {1})",
}


def expression(symbol: str, operands: Sequence[str], elems: Sequence[str], T: str, op: Op) -> str:
    """The C++ of a call of `symbol`.

    Raises:
        Unsupported: for a function that has no C++ here.
    """
    name = symbol.removeprefix("__nv_").removeprefix("__xpu_")
    if name in _EXACT:
        return f"{T}({_EXACT[name].format(*operands)})"
    bare = name.removesuffix("f") if "f64" not in elems else name
    table = {1: _ONE, 2: _TWO}.get(len(operands), {})
    if bare in table:
        return f"{T}({table[bare]}({', '.join(operands)}))"
    kind, _, rounding = name.partition("_")
    if rounding == "rn" and kind[1:] in _ROUNDED and len(operands) == 2:
        return f"{T}({_ROUNDED[kind[1:]].format(*operands)})"
    if rounding == "rn" and kind in ("fsqrt", "dsqrt"):
        return f"{T}(sycl::sqrt({operands[0]}))"
    if rounding == "rn" and kind in ("frcp", "drcp"):
        return f"{T}(1 / {operands[0]})"
    if rounding == "rn" and kind in ("fmaf", "fma"):
        return f"{T}(sycl::fma({', '.join(operands)}))"
    raise op.fail(f"libdevice function {symbol}")
