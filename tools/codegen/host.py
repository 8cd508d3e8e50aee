"""Writes kernels for the calling thread: what small work on a CPU device runs instead of a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .device import custom_instances, pointwise_module_parts
from .model import Family, PointwiseKernel, pow2_shards, shard
from .types import TYPES, slots

INLINE_TYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "b8")
FUNCTIONS_PER_FILE = 160
# Functions whose result no compiler changes: selections, exact and correctly rounded ones.
EXACT = {
    "fabs", "fmin", "fmax", "floor", "ceil", "trunc", "rint", "copysign", "sqrt", "fma", "isnan", "isinf", "isfinite",
    "signbit", "inf", "nan", "iabs", "maximum", "minimum", "sign", "nan_to_num", "logit_backward", "log_sigmoid_backward",
    "angle", "nextafter",
}  # fmt: skip
# Exact, too, but long, most of them element by element, and slow of double: what an element of float costs, as below, on
# Zen 3.
ONE_BY_ONE = {"fmod": 30, "remainder": 32, "div_floor": 50, "round_decimals": 8}
# Functions of float in kernels/sycl/math/single.hpp and what is made of them without a product that feeds a sum; what an
# element costs in units of cost(), by where it met its launch on Zen 4 (docs/notes/inline.md).
OWN = {
    "exp": 4, "exp2": 4, "expm1": 4, "log": 4, "log2": 4, "log10": 4, "log1p": 4, "log1p_unit": 2, "tanh": 3, "sigmoid": 3,
    "silu": 3, "mish": 8, "elu": 4, "softplus": 9, "gelu_erf": 12, "gelu_tanh": 4, "logaddexp": 9, "logaddexp2": 9,
    "xlogy": 4, "xlog1py": 4, "entr": 4, "logit": 5, "silu_backward": 5, "mish_backward": 12, "gelu_erf_backward": 16,
    "gelu_tanh_backward": 6, "glu_backward_gate": 4, "glu_jvp": 4, "elu_backward": 4, "softplus_backward": 5,
}  # fmt: skip
CALL = re.compile(r"(sycl|xpu)::(\w+)")
TOKEN = re.compile(r"\w[\w:.]*(?:<\w+>)?|[<>=!]=|&&|\|\||\S")
# Those of kernels/host/math.hpp and exact.hpp, which vectorise where the SYCL headers' are calls.
HOST_MATH = re.compile(r"sycl::(fabs|floor|ceil|trunc|rint|sqrt|copysign|fma|fmax|fmin)\(")
# An expression that does not vectorise on the host takes about as long as this many elements of one that does, roots and quotients as two.
SCALAR_COST, ROOT_COST, WIDE_PRODUCT_COST = 16, 2, 3
SCALAR = re.compile(r"sycl::|xpu::(div_|fmod|remainder|gcd|lcm|pow|shift|nextafter)|[^/]/[^/]")
# Those of kernels/host/exact.hpp, for the same reason.
HOST_EXACT = re.compile(r"xpu::(isinf|isfinite|fmod|remainder|div_floor|gcd|lcm|maximum|minimum|round_decimals)\(")


def same_everywhere(exprs: list[str], type_name: str) -> bool:
    """Whether host and device compilers give the same bits, so that it cannot be seen where the expression ran.

    Integers always do. Floating point does where every operation is rounded by itself: no function that a library
    approximates but float's own, and no product that feeds a sum, which one compiler may contract and another not.
    """
    if "float" not in TYPES[type_name].groups:
        return True
    own = set() if type_name == "f64" else OWN.keys() | ONE_BY_ONE.keys()
    approximated = {(space, f) for space, f in CALL.findall(" ".join(exprs)) if f not in EXACT}
    return all(space == "xpu" and f in own for space, f in approximated) and not any(feeds_sum(e) for e in exprs)


def feeds_sum(expr: str) -> bool:
    """Whether a product is an operand of a sum or difference, in any pair of parentheses of an expression."""
    return _sums(iter(TOKEN.findall(expr)))[1]


def _sums(tokens: Iterator[str]) -> tuple[bool, bool]:
    """Of the expression up to its closing parenthesis: whether its value may be a product, and whether any feeds a sum."""
    product = term = called = found = False  # of what came before, of the operand at hand; an operand stands here
    summed = value = False  # the operand at hand is added to; there is something to add to
    for token in tokens:
        if token == "(":
            inner, below = _sums(tokens)
            found |= below
            # A cast hands its operand on, a function does not.
            term |= inner and not called
            value, called = True, False
        elif token == ")":
            break
        elif token in ("+", "-") and value:
            found |= term
            summed, term, value, called = True, False, False, False
        elif token in ("*", "/"):
            term, value, called = token == "*", False, False
        elif token[0].isalnum() or token[0] == "_":
            value, called = True, "::" in token
        elif token not in ("+", "-"):  # a comma, a comparison, a branch
            found |= summed and term
            product |= term and not summed
            summed = term = value = called = False
    return product or (term and not summed), found or (summed and term)


def any_here(kernel: PointwiseKernel) -> bool:
    """Whether operands of any type may be computed on the calling thread."""
    return any(same_everywhere(kernel.exprs[t], t) for t in INLINE_TYPES if t in kernel.exprs)


def cost(exprs: list[str], type_name: str) -> int:
    """Of an element, where four bytes of a vectorised expression cost 1. Floats divide in vectors, integers do not."""
    floating = "float" in TYPES[type_name].groups
    texts = [HOST_MATH.sub("(", e) for e in exprs]
    calls = [f for e in exprs for space, f in CALL.findall(e) if space == "xpu"]
    if floating and (long := sum(ONE_BY_ONE.get(f, 0) for f in calls)):
        return long if type_name == "f32" else -(-long // 4)
    if any(SCALAR.search(e.replace("/", "") if floating else e) for e in texts):
        return SCALAR_COST
    if own := own_cost(exprs):
        # 16-bit floats are counted kConvertedShare times, which their conversion is not of so much work.
        return own if type_name == "f32" else -(-(own + 6) // 4)
    width = 2 if type_name in ("f64", "i64") else 1
    if type_name == "i64" and any("*" in e for e in exprs):
        return width * WIDE_PRODUCT_COST
    return width * (ROOT_COST if any("/" in e or "sqrt(" in e for e in exprs) else 1)


def own_cost(exprs: list[str]) -> int:
    """Of the functions that are long enough for wider vectors; 0 where there are none."""
    return sum(OWN.get(f, 0) for e in exprs for space, f in CALL.findall(e) if space == "xpu")


def on_host(text: str) -> str:
    """A functor with the host's own forms of functions."""
    return HOST_EXACT.sub(r"host::\1(", HOST_MATH.sub(r"host::\1(", text))


def files_of(family: Family) -> dict[str, str]:
    """File name -> source."""
    kernels = family.own_pointwise
    types = {k.name: [t for t in INLINE_TYPES if t in k.exprs and same_everywhere(k.exprs[t], t)] for k in kernels}
    count = pow2_shards(sum(len(t) for t in types.values()), FUNCTIONS_PER_FILE)
    result = {}
    for number in range(count):
        members = [k for k in kernels if shard(k.name, count) == number]
        if not members:
            continue
        functors, tables = [], []
        for k in members:
            texts, _, uses = pointwise_module_parts(k)
            used = {t: uses[f"{k.name}_{t}_rows"] for t in types[k.name]}
            functors += [on_host(texts[i]) for i in sorted(set(used.values()))]
            entries = {}
            for t, index in used.items():
                functor = f"{k.name}_f{index}<{TYPES[t].device}>"
                block = "either_block" if own_cost(k.exprs[t]) else "block"
                entries[t] = f"{{host::{block}<{functor}>, {cost(k.exprs[t], t)}}}"
            tables.append(f"extern const host::Kernel {k.name}_inline[kDTypeSlots] = {{{slots(entries, '{}')}}};")
        result[f"{family.name}_inline_{number}.cpp"] = "\n".join(
            [
                "// Generated from kernels/manifest; do not edit.",
                '#include "kernels/host/pointwise.hpp"',
                "namespace xpu_ops::kernels {",
                "namespace {",
                "using namespace xpu;",
                *functors,
                "}  // namespace",
                *tables,
                "}  // namespace xpu_ops::kernels",
                "",
            ]
        )
    twins = [inst.host for k in family.kernels for _, _, inst in custom_instances(k) if inst.host]
    if twins:
        result[f"{family.name}_inline.cpp"] = "\n".join(
            [
                "// Generated from kernels/manifest; do not edit.",
                f'#include "kernels/host/{family.name}.hpp"',
                "namespace xpu_ops::kernels {",
                "using namespace xpu;",
                *twins,
                "}  // namespace xpu_ops::kernels",
                "",
            ]
        )
    return result
