"""Writes the pointwise functors for the calling thread: what small work on a CPU device runs instead of a launch."""

from __future__ import annotations

import re

from .device import DTYPE_NUMBERS, pointwise_module_parts
from .model import Family, pow2_shards, shard
from .types import TYPES

INLINE_TYPES = ("f32", "f64", "f16", "bf16", "i64", "i32", "b8")
FUNCTIONS_PER_FILE = 160
# Functions whose result no compiler changes: selections, exact and correctly rounded ones.
EXACT = {
    "fabs", "fmin", "fmax", "floor", "ceil", "trunc", "rint", "copysign", "sqrt", "fma", "isnan", "isinf", "isfinite",
    "signbit", "inf", "nan", "iabs",
}  # fmt: skip


def same_everywhere(exprs: list[str], type_name: str) -> bool:
    """Whether host and device compilers give the same bits, so that it cannot be seen where the expression ran.

    Integers always do. Floating point does where every operation is rounded by itself: no function that a library
    approximates, and no product that feeds a sum, which one compiler may contract and another not.
    """
    if "float" not in TYPES[type_name].groups:
        return True
    called = set(re.findall(r"(?:sycl|xpu)::(\w+)", " ".join(exprs)))
    return called <= EXACT and not any("*" in e and (" + " in e or " - " in e) for e in exprs)


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
        functors, entries, tables = [], [], []
        for k in members:
            texts, _, uses = pointwise_module_parts(k)
            used = {t: uses[f"{k.name}_{t}_rows"] for t in types[k.name]}
            functors += [texts[i] for i in sorted(set(used.values()))]
            slots = ["nullptr"] * 48
            for t, index in used.items():
                functor = f"{k.name}_f{index}<{TYPES[t].device}>"
                entry = f"inline_{k.name}_{t}"
                entries.append(f"constexpr host::Kernel {entry}{{host::contig<{functor}>, host::strided<{functor}>}};")
                slots[DTYPE_NUMBERS[t]] = f"&{entry}"
            tables.append(f"const host::Kernel* const {k.name}_inline[kDTypeSlots] = {{{', '.join(slots)}}};")
        result[f"{family.name}_inline_{number}.cpp"] = "\n".join(
            [
                "// Generated from kernels/manifest; do not edit.",
                '#include "host/pointwise.hpp"',
                f'#include "{family.name}_kernels.hpp"',
                "namespace xpu_ops::kernels {",
                "namespace {",
                "using namespace xpu;",
                *functors,
                *entries,
                "}  // namespace",
                *tables,
                "}  // namespace xpu_ops::kernels",
                "",
            ]
        )
    return result
