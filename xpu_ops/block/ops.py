"""Operations by their names: which are dear enough for their results to be kept rather than computed again."""

from __future__ import annotations

# A call of the mathematics library for sixteen lanes, or a division.
COSTLY = frozenset(
    [
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "log_ndtr",
        "tanh",
        "lgamma",
        "erf",
        "erfc",
        "erfinv",
        "erfcx",
        "ndtr",
        "pow",
        "sin",
        "sinh",
        "cos",
        "cosh",
        "sigmoid",
        "sqrt",
        "rsqrt",
        "truediv",
        "div_rn",
    ]
)
GATHER = "gather"  # a load whose neighbours lie apart: the place was loaded, or divided
