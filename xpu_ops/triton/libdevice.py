"""The functions of `triton.language.extra.libdevice` as C++.

Triton's own module of declarations is used, with the names of CUDA's library; what they mean is in NVIDIA's libdevice
user's guide.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpu_ops.triton.ttir import Op

_LIBRARY = """sqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh log10 cbrt erfc floor ceil trunc fabs rint
sinpi cospi tgamma"""
_OWN = "exp exp2 expm1 log log2 log1p tanh lgamma"

# By the name without its prefix and the f of float.
_ONE = {
    **{name: f"sycl::{name}" for name in _LIBRARY.split()},
    **{name: f"xpu::{name}" for name in _OWN.split()},
    "erf": "xpu::erf_fast",
    "nearbyint": "sycl::rint",
    "round": "tri::round_away",
    "j0": "xpu::bessel_j0",
    "j1": "xpu::bessel_j1",
    "y0": "xpu::bessel_y0",
    "y1": "xpu::bessel_y1",
    "cyl_bessel_i0": "tri::bessel_i0",
    "cyl_bessel_i1": "tri::bessel_i1",
    "normcdf": "tri::normcdf",
    "logb": "tri::logb",
    "erfinv": "xpu::erfinv",
    "normcdfinv": "xpu::ndtri",
    "erfcx": "xpu::erfcx",
    "fast_exp": "xpu::exp",
    "fast_log": "xpu::log",
    "fast_log2": "xpu::log2",
    "fast_sin": "sycl::sin",
    "fast_cos": "sycl::cos",
    "fast_tan": "sycl::tan",
    "fast_tanh": "xpu::tanh",
}
_TWO = {
    "pow": "xpu::pow",
    "atan2": "sycl::atan2",
    "hypot": "sycl::hypot",
    "copysign": "sycl::copysign",
    "fmod": "sycl::fmod",
    "remainder": "sycl::remainder",
    "ldexp": "tri::ldexp",
    "scalbn": "tri::ldexp",
    "powi": "tri::powi",
    "fmin": "tri::min_number",
    "fmax": "tri::max_number",
    "nextafter": "sycl::nextafter",
}
_MODES = {"rn": "sycl::rint", "rz": "sycl::trunc", "rd": "sycl::floor", "ru": "sycl::ceil"}
# By the full name without its prefix. {0} {1} {2} are operands, {T} the type of the result.
_EXACT = {
    "rsqrt": "(1 / sycl::sqrt({0}))",
    "rsqrtf": "(1 / sycl::sqrt({0}))",
    "rcp_rn": "(1 / {0})",
    "rcbrt": "(1 / sycl::cbrt({0}))",
    "rcbrtf": "(1 / sycl::cbrt({0}))",
    "rhypot": "(1 / sycl::hypot({0}, {1}))",
    "rhypotf": "(1 / sycl::hypot({0}, {1}))",
    "norm3d": "sycl::hypot(sycl::hypot({0}, {1}), {2})",
    "norm3df": "sycl::hypot(sycl::hypot({0}, {1}), {2})",
    "rnorm3d": "(1 / sycl::hypot(sycl::hypot({0}, {1}), {2}))",
    "rnorm3df": "(1 / sycl::hypot(sycl::hypot({0}, {1}), {2}))",
    "exp10": "sycl::pow(10.0, {0})",
    "exp10f": "sycl::pow(10.0f, {0})",
    "fast_exp10f": "sycl::pow(10.0f, {0})",
    "saturatef": "(tri::clamp_number({0}, 0.0f, 1.0f) + 0.0f)",
    "fast_powf": "xpu::pow({0}, {1})",
    "fast_fdividef": "({0} / {1})",
    "fast_log10f": "sycl::log10({0})",
    "fdim": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0 : {0} + {1})",
    "fdimf": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0f : {0} + {1})",
    "fma": "sycl::fma({0}, {1}, {2})",
    "fmaf": "sycl::fma({0}, {1}, {2})",
    "isnanf": "int32_t({0} != {0})",
    "isnand": "int32_t({0} != {0})",
    "isinff": "int32_t(xpu::isinf({0}))",
    "isinfd": "int32_t(xpu::isinf({0}))",
    "finitef": "int32_t(xpu::isfinite({0}))",
    "isfinited": "int32_t(xpu::isfinite({0}))",
    "signbitf": "int32_t(xpu::signbit({0}))",
    "signbitd": "int32_t(xpu::signbit({0}))",
    "ilogbf": "tri::ilogb({0})",
    "ilogb": "tri::ilogb({0})",
    "erfcinv": "(-0.70710678118654752 * xpu::ndtri(0.5 * {0}))",
    "erfcinvf": "(-0.707106781f * xpu::ndtri(0.5f * {0}))",
    "abs": "tri::abs_i({0})",
    "llabs": "tri::abs_i({0})",
    "clz": "int32_t(sycl::clz(uint32_t({0})))",
    "clzll": "int32_t(sycl::clz(uint64_t({0})))",
    "ffs": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint32_t({0}))) + 1)",
    "ffsll": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint64_t({0}))) + 1)",
    "popc": "tri::popcount({0})",
    "popcll": "tri::popcount({0})",
    "mulhi": "tri::mul_hi_s({0}, {1})",
    "umulhi": "tri::mul_hi_u({0}, {1})",
    "mul64hi": "tri::mul_hi_s({0}, {1})",
    "umul64hi": "tri::mul_hi_u({0}, {1})",
    "brev": "tri::reversed(uint32_t({0}))",
    "brevll": "tri::reversed(uint64_t({0}))",
    "hiloint2double": "__builtin_bit_cast(double, uint64_t(uint32_t({0})) << 32 | uint32_t({1}))",
    "double2hiint": "int32_t(__builtin_bit_cast(uint64_t, {0}) >> 32)",
    "double2loint": "int32_t(__builtin_bit_cast(uint64_t, {0}))",
    **{name: f"tri::{name}({{0}}, {{1}})" for name in ("mul24", "umul24", "hadd", "rhadd", "uhadd", "urhadd")},
    **{name: f"tri::{name}({{0}}, {{1}}, {{2}})" for name in ("sad", "usad", "byte_perm")},
    "float_as_int": "__builtin_bit_cast(int32_t, {0})",
    "float_as_uint": "__builtin_bit_cast(int32_t, {0})",
    "int_as_float": "__builtin_bit_cast(float, {0})",
    "uint_as_float": "__builtin_bit_cast(float, {0})",
    "double_as_longlong": "__builtin_bit_cast(int64_t, {0})",
    "longlong_as_double": "__builtin_bit_cast(double, {0})",
    "llrintf": "tri::to_integer<int64_t>(sycl::rint({0}))",
    "llrint": "tri::to_integer<int64_t>(sycl::rint({0}))",
    "llroundf": "tri::to_integer<int64_t>(tri::round_away({0}))",
    "llround": "tri::to_integer<int64_t>(tri::round_away({0}))",
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
