"""Scalar operations: by its name, the C++ of each that a front end knows, and which are dear enough to be kept rather than
computed again.

A function of floats is called with all operands. Else the text is a template of operands: {0} as it is, {0:float} converted to
float, {0:wide} a small float widened, {0:unsigned} with the bits of an unsigned integer. {T} is the type of the result, {0:T}
converted to it; front ends name further types: {N} is T as a number, {F} float or double, {M} a type in memory. An entry
`NAME.KIND` is for operands or results of that kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xpu_ops.block.types import Element


def _named(prefix: str, names: str) -> dict[str, str]:
    return {name: f"{prefix}::{name}" for name in names.split()}


def _same(names: str, text: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), text)


# ---- functions of the prelude. Of floats: arguments that are integers are converted first.
FUNCTIONS = {
    **_named(
        "xpu",
        """exp exp2 expm1 log log2 log10 log1p tanh lgamma digamma erfinv erfcx igamma igammac i0 i0e i1 i1e log_ndtr ndtri zeta
        sigmoid airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 spherical_bessel_j0
        scaled_modified_bessel_k0 scaled_modified_bessel_k1""",
    ),
    **_named(
        "sycl", "sqrt sin cos tan sinh cosh asin acos atan asinh acosh atanh atan2 floor ceil trunc erfc hypot copysign"
    ),
    **{f"chebyshev_polynomial_{k}": f"xpu::chebyshev_{k}" for k in "tuvw"},
    **{f"shifted_chebyshev_polynomial_{k}": f"xpu::shifted_chebyshev_{k}" for k in "tuvw"},
    **{f"hermite_polynomial_{k}": f"xpu::hermite_{k}" for k in ("h", "he")},
    **{f"modified_bessel_{k}": f"xpu::{k}" for k in ("i0", "i1")},
    "laguerre_polynomial_l": "xpu::laguerre_l",
    "legendre_polynomial_p": "xpu::legendre_p",
    "erf": "xpu::erf_fast",
    "gammainc": "xpu::igamma",
    "gammaincc": "xpu::igammac",
    "round": "sycl::rint",
}

# ---- torch's operations, by Inductor's names. C++ computes small integers as int: results are converted where they are named.
_ROUNDED = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint"}
TORCH = {
    **{name: f"{{0:T}} {sign} {{1:T}}" for name, sign in {"add": "+", "sub": "-", "mul": "*"}.items()},
    # Integers in unsigned numbers, which may overflow.
    **{f"{n}.int": f"{{0:uint64_t}} {sign} {{1:uint64_t}}" for n, sign in {"add": "+", "sub": "-", "mul": "*"}.items()},
    "neg": "-{0}",
    "neg.int": "int64_t(0ul - {0:uint64_t})",
    "truediv": "{0:T} / {1:T}",
    "int_truediv": "xpu::convert<{T}>({0}) / xpu::convert<{T}>({1})",
    "reciprocal": "{T}(1) / {0}",
    "fma": "sycl::fma({0:T}, {1:T}, {2:T})",
    "fma.int": "{0} * {1} + {2}",
    "rsqrt": "{T}(1) / sycl::sqrt({0:T})",
    "ndtr": "{T}(0.5) * sycl::erfc({0:T} * {T}(-0.70710678118654752440))",
    "relu": "{0} < 0 ? {T}(0) : {0}",
    "abs": "xpu::fabs({0})",
    "abs.int": "xpu::iabs({0})",
    "abs.bool": "{0}",
    "sign": "xpu::sign({0})",
    "sign.bool": "{0}",
    "signbit": "xpu::signbit({0})",
    "signbit.int": "{0} < 0",
    "isnan": "{0} != {0}",
    "isinf": "xpu::isinf({0})",
    "isinf.int": "false",
    "where": "{0} ? {1:T} : {2:T}",
    "logical_not": "!bool({0})",
    **{f"logical_{n}": f"bool({{0}}) {sign} bool({{1}})" for n, sign in {"and": "&&", "or": "||", "xor": "!="}.items()},
    **{f"bitwise_{n}": f"{{0}} {sign} {{1}}" for n, sign in {"and": "&", "or": "|", "xor": "^"}.items()},
    "bitwise_not": "~{0}",
    "bitwise_not.bool": "!{0}",
    # Of two values of one type, whose overload is the operation of that type.
    "truncdiv": "xpu::div_trunc({0:N}, {1:N})",  # as C: towards zero for integers
    "floordiv": "xpu::div_floor({0:N}, {1:N})",  # "floats should do truediv and floor"
    "mod": "xpu::fmod({0:N}, {1:N})",
    "bitwise_left_shift": "xpu::shift_left({0:N}, {1:N})",
    "bitwise_right_shift": "xpu::shift_right({0:N}, {1:N})",
    **{name: f"xpu::{name}({{0:N}}, {{1:N}})" for name in ("fmod", "remainder", "pow", "nextafter")},
    "maximum": "xpu::maximum<{T}>({0:T}, {1:T})",
    "minimum": "xpu::minimum<{T}>({0:T}, {1:T})",
    **{f"{name}.int": "{0}" for name in _ROUNDED},
    **{f"{name}_to_int": f"xpu::convert<{{T}}>(sycl::{f}({{0}}))" for name, f in _ROUNDED.items()},
    **{f"{name}_to_int.int": "{0}" for name in _ROUNDED},
    "ldexp": "xpu::gen::ldexp({0}, {1:int32_t})",
    "polygamma": "xpu::polygamma({0:int64_t}, {1})",
    "frexp_mantissa": "xpu::frexp_mantissa({0})",
    "frexp_exponent": "xpu::frexp_exponent({0})",
    "rand": "xpu::gen::rand({0}, {1})",
    "randn": "xpu::gen::randn({0}, {1})",
    "randint64": "xpu::gen::randint({0}, {1}, {2}, {3})",
    "to_dtype": "xpu::convert<{T}>({0})",
    "to_dtype.rounded": "static_cast<float>({M}(xpu::convert<{T}>({0})))",
    "bits": "sycl::bit_cast<{M}>({0})",
    "log_one_plus_exp": "xpu::log_one_plus_exp({0:F})",
    "over_one_plus_exp_of_minus_twice": "xpu::over_one_plus_exp({F}(2), {F}(-2) * {0:F})",
}

# ---- MLIR's, by the names of its dialects. Those of arith on integers wrap, and divide as Triton's.
_INTEGERS = """addi:add subi:sub muli:mul divsi:div_s remsi:rem_s divui:div_u remui:rem_u floordivsi:floor_div_s
ceildivsi:ceil_div_s maxsi:max_s minsi:min_s maxui:max_u minui:min_u shli:shl shrsi:shr_s shrui:shr_u"""
_FLOATS = {
    "arith.remf": "xpu::fmod",
    **{f"arith.{n}{k}f": f"tri::{n}_{f}" for n in ("max", "min") for k, f in (("num", "number"), ("imum", "nan"))},
    "math.powf": "xpu::pow",
    **{f"math.{n}": FUNCTIONS[n] for n in ("atan2", "copysign")},
}
_MATH = "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh erf sqrt floor ceil trunc"
_UNARY = {name: FUNCTIONS[name] for name in _MATH.split()}
_UNARY |= {"absf": "sycl::fabs", "round": "tri::round_away", "roundeven": "sycl::rint"}
_LESS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPPOSITE = {"une": "==", "ugt": "<=", "uge": "<", "ult": ">=", "ule": ">"}
MLIR = {
    **{f"arith.{n}": f"tri::{f}<{{T}}>({{0}}, {{1}})" for n, f in (x.split(":") for x in _INTEGERS.split())},
    **{f"arith.{n}": f"{{T}}({{0}} {f} {{1}})" for n, f in (("andi", "&"), ("ori", "|"), ("xori", "^"))},
    **{
        f"arith.{n}f": f"{{T}}({{0:wide}} {f} {{1:wide}})"
        for n, f in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
    },
    **{name: f"{{T}}({f}({{0:wide}}, {{1:wide}}))" for name, f in _FLOATS.items()},
    **{f"math.{n}": f"{{T}}({f}({{0:wide}}))" for n, f in _UNARY.items()},
    "math.rsqrt": "{T}(1 / sycl::sqrt({0:wide}))",
    "math.absi": "tri::abs_i<{T}>({0})",
    "math.fma": "{T}(sycl::fma({0:wide}, {1:wide}, {2:wide}))",
    "arith.negf": "{T}(-{0:wide})",
    "arith.select": "({0} ? {1} : {2})",
    "tt.precise_divf": "{T}({0:wide} / {1:wide})",
    "tt.precise_sqrt": "{T}(sycl::sqrt({0:wide}))",
    "tt.mulhiui": "tri::mul_hi_u({0}, {1})",
    "tt.clampf": "{T}(tri::clamp_number({0:wide}, {1:wide}, {2:wide}))",
    "tt.clampf.all": "{T}(tri::clamp_nan({0:wide}, {1:wide}, {2:wide}))",
    "tt.addptr": "({0} + {1})",
    "tt.int_to_ptr": "reinterpret_cast<{T}>({0})",
    "tt.ptr_to_int": "reinterpret_cast<int64_t>({0})",
    # Comparisons of floats hold of no NaN (o), or of any (u). Of integers as signed or unsigned ones; true is -1.
    **{f"arith.cmpf.o{p}": f"({{0:wide}} {s} {{1:wide}})" for p, s in {"eq": "==", **_LESS}.items()},
    **{f"arith.cmpf.{p}": f"(!({{0:wide}} {s} {{1:wide}}))" for p, s in _OPPOSITE.items()},
    "arith.cmpf.one": "({0:wide} < {1:wide} || {0:wide} > {1:wide})",
    "arith.cmpf.ueq": "(!({0:wide} < {1:wide} || {0:wide} > {1:wide}))",
    "arith.cmpf.uno": "({0:wide} != {0:wide} || {1:wide} != {1:wide})",
    "arith.cmpf.ord": "({0:wide} == {0:wide} && {1:wide} == {1:wide})",
    "arith.cmpf.true": "true",
    "arith.cmpf.false": "false",
    **{f"arith.cmpi.{p}": f"({{0}} {s} {{1}})" for p, s in (("eq", "=="), ("ne", "!="))},
    **{f"arith.cmpi.s{p}": f"({{0}} {s} {{1}})" for p, s in _LESS.items()},
    **{f"arith.cmpi.s{p}.i1": f"(-int({{0}}) {s} -int({{1}}))" for p, s in _LESS.items()},
    **{f"arith.cmpi.u{p}": f"({{0:unsigned}} {s} {{1:unsigned}})" for p, s in _LESS.items()},
    **_same("arith.extsi arith.index_cast arith.trunci", "{T}({0})"),
    **_same("arith.extsi.i1 arith.index_cast.i1", "{T}(-int({0}))"),
    "arith.extui": "{T}({0:unsigned})",
    "arith.trunci.to.i1": "(({0} & 1) != 0)",
    "arith.sitofp": "xpu::convert<{T}>({0})",
    "arith.sitofp.i1": "xpu::convert<{T}>((-int32_t({0})))",
    "arith.uitofp": "xpu::convert<{T}>({0:unsigned})",
    "arith.uitofp.i1": "xpu::convert<{T}>(int32_t({0}))",
    "arith.fptosi": "xpu::convert<{T}>({0:wide})",
    "arith.fptoui": "{T}(xpu::convert<{U}>({0:wide}))",
    **_same("arith.extf arith.truncf tt.fp_to_fp", "{T}(float({0:wide}))"),
    **{f"{n}.to.{f}": "{T}({0:wide})" for n in ("arith.extf", "arith.truncf", "tt.fp_to_fp") for f in ("f32", "f64")},
    **{f"{n}.rtz.to.f16": "tri::to_half_rtz({0:wide})" for n in ("arith.truncf", "tt.fp_to_fp")},
    **{f"{n}.rtz.to.bf16": "tri::to_bf16_rtz({0:wide})" for n in ("arith.truncf", "tt.fp_to_fp")},
    **_same("arith.bitcast tt.bitcast", "__builtin_bit_cast({T}, {0})"),
    **_same("arith.bitcast.ptr tt.bitcast.ptr", "reinterpret_cast<{T}>({0})"),
}

# ---- CUDA's library as Triton declares it (NVIDIA's libdevice user's guide): by the name without its prefix and the f of
# float, then by the full name.
_MODES = {"rn": "sycl::rint", "rz": "sycl::trunc", "rd": "sycl::floor", "ru": "sycl::ceil"}
LIBRARY_FUNCTIONS = {
    **FUNCTIONS,
    **{f"fast_{name}": FUNCTIONS[name] for name in ("exp", "log", "log2", "sin", "cos", "tan", "tanh")},
    **_named("sycl", "cbrt fabs rint sinpi cospi tgamma fmod remainder nextafter"),
    **{name: FUNCTIONS[f"bessel_{name}"] for name in ("j0", "j1", "y0", "y1")},
    **{f"cyl_{name}": f"tri::{name}" for name in ("bessel_i0", "bessel_i1")},
    **_named("tri", "normcdf logb normcdfinv powi"),
    **_same("ldexp scalbn", "xpu::gen::ldexp"),
    "nearbyint": "sycl::rint",
    "round": "tri::round_away",
    "pow": "xpu::pow",
    "fmin": "tri::min_number",
    "fmax": "tri::max_number",
}
LIBRARY = {
    **_same("rsqrt rsqrtf", "(1 / sycl::sqrt({0}))"),
    **_same("rcp_rn frcp_rn drcp_rn", "(1 / {0})"),
    **_same("fsqrt_rn dsqrt_rn", "sycl::sqrt({0})"),
    **_same("rcbrt rcbrtf", "(1 / sycl::cbrt({0}))"),
    **_same("rhypot rhypotf", "(1 / sycl::hypot({0}, {1}))"),
    **_same("norm3d norm3df", "sycl::hypot(sycl::hypot({0}, {1}), {2})"),
    **_same("rnorm3d rnorm3df", "(1 / sycl::hypot(sycl::hypot({0}, {1}), {2}))"),
    "exp10": "sycl::pow(10.0, {0})",
    **_same("exp10f fast_exp10f", "sycl::pow(10.0f, {0})"),
    "saturatef": "(tri::clamp_number({0}, 0.0f, 1.0f) + 0.0f)",
    "fast_powf": "xpu::pow({0}, {1})",
    **_same("fast_fdividef fdiv_rn ddiv_rn", "({0} / {1})"),
    **{f"{k}{op}_rn": f"tri::{op}_rn({{0}}, {{1}})" for k in "fd" for op in ("add", "sub", "mul")},
    "fast_log10f": FUNCTIONS["log10"] + "({0})",
    "fdim": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0 : {0} + {1})",
    "fdimf": "({0} > {1} ? {0} - {1} : {0} == {0} && {1} == {1} ? 0.0f : {0} + {1})",
    **_same("fma fmaf fma_rn fmaf_rn", "sycl::fma({0}, {1}, {2})"),
    **_same("isnanf isnand", "int32_t({0} != {0})"),
    **_same("isinff isinfd", "int32_t(xpu::isinf({0}))"),
    **_same("finitef isfinited", "int32_t(xpu::isfinite({0}))"),
    **_same("signbitf signbitd", "int32_t(xpu::signbit({0}))"),
    **_same("ilogbf ilogb", "tri::ilogb({0})"),
    "erfcinv": "(-0.70710678118654752 * xpu::ndtri(0.5 * {0}))",
    "erfcinvf": "(-0.707106781f * xpu::ndtri(0.5f * {0}))",
    **_same("abs llabs", "tri::abs_i({0})"),
    "clz": "int32_t(sycl::clz(uint32_t({0})))",
    "clzll": "int32_t(sycl::clz(uint64_t({0})))",
    "ffs": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint32_t({0}))) + 1)",
    "ffsll": "({0} == 0 ? 0 : int32_t(sycl::ctz(uint64_t({0}))) + 1)",
    **_same("popc popcll", "tri::popcount({0})"),
    **_same("mulhi mul64hi", "tri::mul_hi_s({0}, {1})"),
    **_same("umulhi umul64hi", "tri::mul_hi_u({0}, {1})"),
    "brev": "tri::reversed(uint32_t({0}))",
    "brevll": "tri::reversed(uint64_t({0}))",
    "hiloint2double": "__builtin_bit_cast(double, uint64_t(uint32_t({0})) << 32 | uint32_t({1}))",
    "double2hiint": "int32_t(__builtin_bit_cast(uint64_t, {0}) >> 32)",
    "double2loint": "int32_t(__builtin_bit_cast(uint64_t, {0}))",
    **{name: f"tri::{name}({{0}}, {{1}})" for name in ("mul24", "umul24", "hadd", "rhadd", "uhadd", "urhadd")},
    **{name: f"tri::{name}({{0}}, {{1}}, {{2}})" for name in ("sad", "usad", "byte_perm")},
    **_same("float_as_int float_as_uint", "__builtin_bit_cast(int32_t, {0})"),
    **_same("int_as_float uint_as_float", "__builtin_bit_cast(float, {0})"),
    "double_as_longlong": "__builtin_bit_cast(int64_t, {0})",
    "longlong_as_double": "__builtin_bit_cast(double, {0})",
    **_same("llrintf llrint", "tri::to_integer<int64_t>(sycl::rint({0}))"),
    **_same("llroundf llround", "tri::to_integer<int64_t>(tri::round_away({0}))"),
    **{
        f"{source}2{name}_{mode}": f"tri::to_integer<{integer}>({function}({{0}}))"
        for source in ("float", "double")
        for name, integer in {"int": "int32_t", "uint": "uint32_t", "ll": "int64_t", "ull": "uint64_t"}.items()
        for mode, function in _MODES.items()
    },
    **{f"int2{t}_rn": f"{t}({{0}})" for t in ("float", "double")},
    **{f"uint2{t}_rn": f"{t}(uint32_t({{0}}))" for t in ("float", "double")},
    **{f"ll2{t}_rn": f"xpu::convert<{t}>({{0}})" for t in ("float", "double")},
    **{f"ull2{t}_rn": f"xpu::convert<{t}>(uint64_t({{0}}))" for t in ("float", "double")},
}


class _Operand:
    """An operand in a template."""

    def __init__(self, text: str, element: Element | None, named: Mapping[str, str]) -> None:
        self._text, self._element, self._named = text, element, named

    def __format__(self, spec: str) -> str:
        e = self._element
        if spec == "wide":
            return f"tri::up({self._text})" if e is not None and e.small_float else self._text
        if spec == "unsigned":
            return self._text if e is None else f"{e.unsigned}({self._text})"
        return f"static_cast<{self._named.get(spec, spec)}>({self._text})" if spec else self._text


def called(function: str, operands: int, spec: str = "") -> str:
    """The template of a call with so many operands."""
    return f"{function}({', '.join(f'{{{i}{spec}}}' for i in range(operands))})"


def write(template: str, operands: Sequence[str], elements: Sequence[Element | None] = (), **named: str) -> str:
    """The C++ of a template; `elements` are the types of operands where it asks for them, None for pointers."""
    known = elements or (None,) * len(operands)
    return template.format(*(_Operand(o, e, named) for o, e in zip(operands, known, strict=True)), **named)


# A call of the mathematics library for sixteen lanes, or a division.
_COSTLY = """exp exp2 expm1 log log2 log10 log1p log_ndtr tanh lgamma erf erfc erfinv erfcx ndtr pow sin sinh cos cosh sigmoid
sqrt rsqrt truediv div_rn log_one_plus_exp over_one_plus_exp_of_minus_twice"""
COSTLY = frozenset(_COSTLY.split())
GATHER = "gather"  # a load whose neighbours lie apart: the place was loaded, or divided
