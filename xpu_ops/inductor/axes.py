"""Iteration ranges as rows and columns: in a row every index is uniform or linear in the lane, so that no lane divides."""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy
from torch._inductor.codegen.simd import IterationRangesEntry
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr, Let
from xpu_ops.block.passes import INDEX
from xpu_ops.block.types import LANES

UNKNOWN = 1024  # taken for a size that only the run knows


def hint(expr: sympy.Expr | int) -> int:
    """A likely value of a size."""
    return int(V.graph.sizevars.optimization_hint(expr, fallback=UNKNOWN))


def equals(a: sympy.Expr | int, b: sympy.Expr | int) -> bool:
    return bool(V.graph.sizevars.statically_known_equals(a, b))


def multiple(a: sympy.Expr | int, b: sympy.Expr | int) -> bool:
    return bool(V.graph.sizevars.statically_known_multiple_of(a, b))


def ceil_div(a: sympy.Expr | int, b: sympy.Expr | int) -> sympy.Expr:
    return FloorDiv(sympy.sympify(a) + b - 1, b)


class Axis:
    """One range of a kernel, x or r0_, with the index variables that its loops use."""

    def __init__(self, numel: sympy.Expr, expr: Callable[[sympy.Expr | int], str]) -> None:
        self.numel = numel
        self._expr = expr
        self.entries = OrderedSet[IterationRangesEntry]()  # that its kernel uses

    def _edges(self) -> OrderedSet[sympy.Expr]:
        """Where the value of some entry jumps."""
        edges = OrderedSet[sympy.Expr]()
        for e in self.entries:
            if e.divisor != 1:
                edges.add(e.divisor)
            if not self._last(e):
                edges.add(e.divisor * e.length)
        return edges

    def _last(self, entry: IterationRangesEntry) -> bool:
        """Whether the entry takes no modulus."""
        return equals(entry.divisor * entry.length, self.numel)

    def _simple(self, e: IterationRangesEntry, row: sympy.Expr) -> bool:
        return multiple(e.divisor, row) or (e.divisor == 1 and multiple(e.length, row))

    def stride_along(self, index: sympy.Expr, row: sympy.Expr) -> sympy.Expr | None:
        """From one element of a row to the next, None where that is not the same everywhere."""
        stride = sympy.S.Zero
        for e in self.entries:
            if e.symbol() not in index.free_symbols or multiple(e.divisor, row):
                continue
            change = sympy.diff(index, e.symbol())
            if not self._simple(e, row) or change.free_symbols:
                return None
            stride += change
        return stride

    def row_length(self) -> sympy.Expr:
        """The length of a row; the whole range where it needs no rows, or where they would be shorter than a vector."""
        edges = self._edges()
        if not edges:
            return self.numel
        if all(isinstance(e, sympy.Integer) for e in edges):
            candidates = [sympy.Integer(math.gcd(*map(int, edges))), *edges]
            candidates = [c for c in candidates if c >= LANES and multiple(self.numel, c)]
        else:
            candidates = [c for c in edges if multiple(self.numel, c)]
        return max(
            candidates, key=lambda c: (sum(self._simple(e, c) for e in self.entries), -hint(c)), default=self.numel
        )

    def flat(self, row: sympy.Expr) -> bool:
        return equals(row, self.numel)

    def inner_rows(self, length: sympy.Expr, rows: sympy.Expr) -> sympy.Expr:
        """How many rows follow each other before an entry that counts them begins again."""
        found = [e.length for e in self.entries if equals(e.divisor, length) and not self._last(e)]
        return found[0] if len(found) == 1 and multiple(rows, found[0]) else rows

    def rows_together(self, length: sympy.Expr, most: int) -> int:
        """As many rows, `most` or fewer, as go into the divisors of all entries that count further out; 0 for too few."""
        outer = [e.divisor for e in self.entries if not equals(e.divisor, length) and multiple(e.divisor, length)]
        if not outer or not all(d.is_Integer for d in outer):
            return 0
        rows = math.gcd(*(int(d) // int(length) for d in outer))
        found = max((n for n in range(1, min(most, rows) + 1) if rows % n == 0), default=0)
        return found if 4 * found >= most else 0

    def by_rows(self, length: sympy.Expr, row: str, column: str, inner: sympy.Expr | None = None) -> list[ir.Node]:
        """Definitions of the index variables from a row's number and the column. With `inner`, the row's number is also
        xg * inner + xn."""
        return [Let(e.name, INDEX, self._value(e, length, row, column, inner)) for e in self.entries]

    def size(self, size: sympy.Expr) -> Expr:
        """A size as a value."""
        return Expr(self._expr(size), "size", (str(size),))

    def _value(
        self, e: IterationRangesEntry, length: sympy.Expr, row: str, column: str, inner: sympy.Expr | None
    ) -> Expr:
        last = self._last(e)
        if inner is not None and equals(e.divisor, length) and equals(e.length, inner):
            return ir.name("xn")
        for outside, size in ((inner is not None and "xg", length * (inner or 1)), (row, length)):
            if outside and multiple(e.divisor, size):
                q = FloorDiv(e.divisor, size)
                value = ir.name(outside) if q == 1 else ir.name(outside) // self.size(q)
                return value if last else value % self.size(e.length)
        if e.divisor == 1 and equals(e.length, length):
            return ir.name(column)
        if e.divisor == 1 and not last and multiple(e.length, length):
            return ir.name(row) % self.size(FloorDiv(e.length, length)) * self.size(length) + column
        return self._quotient(e, ir.name(row) * self.size(length) + column, last)

    def whole(self, index: str) -> list[ir.Node]:
        """Definitions of the index variables from the index in the whole range."""
        return [Let(e.name, INDEX, self._quotient(e, ir.name(index), self._last(e))) for e in self.entries]

    def _quotient(self, e: IterationRangesEntry, index: Expr, last: bool) -> Expr:
        value = index if e.divisor == 1 else index // self.size(e.divisor)
        return value if last else value % self.size(e.length)
