"""Compares bytes that a kernel wrote on the GPU with those that the CPU device wrote, as numbers of the right type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

# Element types by name: numpy's type of one component, components.
COMPONENTS = {
    "f32": ("<f4", 1), "f64": ("<f8", 1), "f16": ("<f2", 1), "c64": ("<f4", 2), "c128": ("<f8", 2), "c32": ("<f2", 2),
    "bf16": ("<u2", 1), "i64": ("<i8", 1), "u64": ("<u8", 1), "i32": ("<i4", 1), "u32": ("<u4", 1), "i16": ("<i2", 1),
    "u16": ("<u2", 1), "i8": ("|i1", 1), "u8": ("|u1", 1), "b8": ("|u1", 1),
}  # fmt: skip
# Exponent bits, bias and whether there are infinities of the 8-bit floats; e8m0 is a power of two.
FLOAT8 = {"f8e4m3fn": (4, 7), "f8e5m2": (5, 15), "f8e4m3fnuz": (4, 8), "f8e5m2fnuz": (5, 16), "f8e8m0fnu": (8, 127)}
# The type that a kernel of a type computes in: its partial results have it.
COMPUTED = {"f16": "f32", "bf16": "f32", "c32": "c64", **dict.fromkeys(FLOAT8, "f32")}
# Norms and magnitudes of complex numbers.
REAL = {"c32": "f16", "c64": "f32", "c128": "f64"}
# One last place of a type, for results that were rounded once.
LAST_PLACE = {**dict.fromkeys(("f8e4m3fn", "f8e4m3fnuz"), 2.0**-3), **dict.fromkeys(("f8e5m2", "f8e5m2fnuz"), 2.0**-2)}


def size_of(kind: str) -> int:
    if kind in FLOAT8:
        return 1
    dtype, count = COMPONENTS[kind]
    return np.dtype(dtype).itemsize * count


def is_exact(kind: str) -> bool:
    return kind in ("b8", "f8e8m0fnu") or (kind in COMPONENTS and kind[0] in "iu")


def float8(raw: np.ndarray, kind: str) -> np.ndarray:
    bits, bias = FLOAT8[kind]
    fraction_bits = 7 - bits
    fraction, exponent = raw & ((1 << fraction_bits) - 1), (raw >> fraction_bits) & ((1 << bits) - 1)
    value = np.where(
        exponent > 0,
        (1 + fraction / (1 << fraction_bits)) * np.exp2(exponent.astype(float) - bias),
        fraction / (1 << fraction_bits) * 2.0 ** (1 - bias),
    )
    nan = {"f8e4m3fn": (raw & 0x7F) == 0x7F, "f8e5m2": (raw & 0x7F) > 0x7C}.get(kind, raw == 0x80)
    value = np.where((kind == "f8e5m2") & ((raw & 0x7F) == 0x7C), math.inf, value)
    return np.where(nan, math.nan, np.where(raw & 0x80, -value, value))


def numbers(raw: np.ndarray, kind: str) -> np.ndarray:
    """Bytes as numbers; the components of a complex number are its last dimension."""
    if kind in FLOAT8:
        return float8(raw, kind)
    dtype, count = COMPONENTS[kind]
    values = raw.view(dtype)
    if kind == "bf16":
        return (values.astype(np.uint32) << 16).view("<f4").astype(np.float64)
    if is_exact(kind):
        return values
    values = values.astype(np.float64)
    return values.reshape(-1, count) if count > 1 else values


@dataclass
class Verdict:
    """How two readings compare: excess is the largest error in units of what is allowed."""

    excess: float
    kind: str
    example: str = ""


def compare(got: np.ndarray, want: np.ndarray, kind: str, tolerances: dict[str, Any]) -> Verdict:
    """Bytes of one type: whole elements."""
    g, w = numbers(got, kind), numbers(want, kind)
    if is_exact(kind):
        wrong = np.nonzero(g != w)[0]
        return Verdict(
            0.0 if not wrong.size else math.inf, kind, f"{g[wrong[0]]} for {w[wrong[0]]}" if wrong.size else ""
        )
    rtol, atol = tolerances.get(kind, (LAST_PLACE.get(kind, 0.0), 0.0))
    with np.errstate(all="ignore"):
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        off = np.where(same, 0.0, np.abs(g - w))
        size = np.where(np.isfinite(w), np.abs(w), 0.0)
        if g.ndim > 1:  # complex: by the modulus
            off, size = np.hypot(off[:, 0], off[:, 1]), np.hypot(size[:, 0], size[:, 1])
        allowed = atol + rtol * size
        excess = np.where(off == 0, 0.0, off / np.where(allowed > 0, allowed, 1e-300))
        excess = np.where(np.isnan(excess), math.inf, excess)
    at = int(np.argmax(excess)) if excess.size else 0
    return Verdict(float(excess[at]) if excess.size else 0.0, kind, f"{g[at]} for {w[at]}" if excess.size else "")


def candidates(kernel: dict[str, Any], pointer: str, output: int | None) -> list[str]:
    """The types that memory behind a pointer may have, as the manifest and the launch struct say.

    Where the struct says nothing (void), it has an element type of the kernel or the type that one is computed in.
    """
    if output is not None and output < len(kernel.get("outputs", [])):
        return [kernel["outputs"][output]]
    if pointer in COMPONENTS:
        return [pointer]
    if pointer:  # a struct of the library: words
        return ["u32"]
    found: list[str] = []
    for t in kernel.get("types", []):
        found += [t, COMPUTED.get(t, t), REAL.get(t, t)]
    return [t for t in dict.fromkeys(found) if t in COMPONENTS or t in FLOAT8] or ["u8"]


def region(got: bytes, want: bytes, kinds: list[str], tolerances: dict[str, Any]) -> Verdict:
    """The bytes from one pointer to the next, read as the type that fits best: one for the whole region, so that an error
    cannot hide in the low half of a wider number."""
    best = Verdict(math.inf, "bytes")
    g, w = np.frombuffer(got, np.uint8), np.frombuffer(want, np.uint8)
    differing = np.nonzero(g != w)[0]
    for kind in kinds:
        step = max(size_of(kind), 16)
        first, last = differing[0] // step * step, (differing[-1] // step + 1) * step
        end = min(last, g.size // size_of(kind) * size_of(kind))
        if differing[-1] >= end:
            continue
        verdict = compare(g[first:end].copy(), w[first:end].copy(), kind, tolerances)
        if verdict.excess < best.excess or best.kind == "bytes":
            best = verdict
    return best
