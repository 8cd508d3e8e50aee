"""Indices and elements inside a loop over a block, as a uniform part and a step per lane.

A loop takes 16 neighbours at a time, one per lane. What is `uniform + step * lane` with a known step keeps that form, so
that addresses become a uniform pointer and the lane, which the device compiler turns into loads of whole vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr
from xpu_ops.triton.lower.types import integer_of

LANE = ir.name("lane")
ANY = 1 << 40  # the alignment of zero


@dataclass(frozen=True)
class Index:
    """A position of type size_t. `step` is None where it is not linear in the lane; `align` divides the uniform part."""

    code: Expr
    step: int | None = 0
    align: int = 1

    @property
    def value(self) -> Expr:
        return self.code + ir.value(self.step) * LANE if self.step else self.code

    @property
    def known(self) -> int | None:
        """The uniform part where it is a constant."""
        return integer_of(self.code)


def const(n: int) -> Index:
    return Index(ir.value(n), 0, (n & -n) or ANY)


def add(a: Index, b: Index) -> Index:
    if a.step is None or b.step is None:
        return Index(a.value + b.value, None)
    if a.known is not None and b.known is not None:
        code = ir.value(a.known + b.known)
    else:
        code = b.code if a.known == 0 else a.code if b.known == 0 else a.code + b.code
    return Index(code, a.step + b.step, min(a.align, b.align))


def scale(a: Index, n: int) -> Index:
    if n == 1:
        return a
    if n == 0:
        return const(0)
    code = ir.value(a.known * n) if a.known is not None else a.code * n
    return Index(code, None if a.step is None else a.step * n, min(a.align * (n & -n), ANY))


def split(a: Index, n: int, last_lane: int) -> tuple[Index, Index]:
    """Quotient and remainder by n. Blocks have powers of two as sizes, which makes most of them linear again."""
    if n == 1:
        return a, const(0)
    quotient, rest = a.code // n, a.code % n
    if a.known is not None:
        quotient, rest = ir.value(a.known // n), ir.value(a.known % n)
    if a.step == 0:
        return Index(quotient), Index(rest, 0, min(a.align, n & -n) if a.align < ANY else ANY)
    if a.step is not None and a.step > 0 and n & (n - 1) == 0:
        block = min(a.align, n)
        if a.step * last_lane < block:  # lanes do not carry into the quotient
            return Index(quotient), Index(rest, a.step, block)
        if a.step % n == 0 and a.align >= n:
            return Index(quotient, a.step // n, max(a.align // n, 1)), const(0)
    return Index(a.value // n, None), Index(a.value % n, None)


def offset(indices: tuple[Index, ...], shape: tuple[int, ...]) -> Index:
    """The position in a block stored in rows."""
    out, stride = const(0), 1
    for i, s in reversed(list(zip(indices, shape, strict=True))):
        if s > 1:
            out = add(scale(i, stride), out)
        stride *= s
    return out


def positions(flat: Index, shape: tuple[int, ...], last_lane: int) -> tuple[Index, ...]:
    """The indices of a position in a block stored in rows."""
    out = []
    for s in reversed(shape):
        flat, r = split(flat, s, last_lane)
        out.append(r)
    return tuple(reversed(out))


@dataclass(frozen=True)
class Element:
    """An element of a tensor: `code`, or code + step * lane for integers and pointers.

    A sum of 32 bits that is widened is linear only where it does not wrap within the 16 lanes: `exact` is its value
    without that assumption, `guard` are the conditions for it. Addresses do without: neighbours on both sides of the wrap
    would be 2^32 elements apart. `assumed` marks what holds in the first version of a loop's body only.
    """

    code: Expr
    elem: str
    step: int | None = 0
    exact: Expr | None = None
    guard: tuple[Expr, ...] = ()
    assumed: bool = False
    small: bool = False

    @property
    def uniform(self) -> bool:
        return self.step == 0

    def taking(self, *others: Element) -> Element:
        """The same, assumed where one of the others is."""
        return replace(self, assumed=True) if any(o.assumed for o in others) and not self.assumed else self
