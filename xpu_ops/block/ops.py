"""Operations by their names: the function of the prelude that computes one, and which are dear enough to be kept rather than
computed again."""

from __future__ import annotations


def _named(prefix: str, names: str) -> dict[str, str]:
    return {name: f"{prefix}::{name}" for name in names.split()}


# Of floats; arguments that are integers are converted first.
FUNCTIONS = {
    **_named(
        "xpu",
        "exp exp2 expm1 log log2 log10 log1p tanh lgamma digamma erfinv erfcx igamma igammac i0 i0e i1 i1e log_ndtr",
    ),
    **_named(
        "xpu",
        "ndtri zeta sigmoid airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1",
    ),
    **_named("xpu", "spherical_bessel_j0 scaled_modified_bessel_k0 scaled_modified_bessel_k1"),
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
# Of two values of one type, whose overload is the operation of that type.
PAIRS = {
    "truncdiv": "xpu::div_trunc",  # as C: towards zero for integers
    "floordiv": "xpu::div_floor",  # "floats should do truediv and floor"
    "mod": "xpu::fmod",
    "bitwise_left_shift": "xpu::shift_left",
    "bitwise_right_shift": "xpu::shift_right",
    **_named("xpu", "fmod remainder pow nextafter"),
}
# A call of the mathematics library for sixteen lanes, or a division.
_COSTLY = """exp exp2 expm1 log log2 log10 log1p log_ndtr tanh lgamma erf erfc erfinv erfcx ndtr pow
sin sinh cos cosh sigmoid sqrt rsqrt truediv div_rn"""
COSTLY = frozenset(_COSTLY.split())
GATHER = "gather"  # a load whose neighbours lie apart: the place was loaded, or divided
