"""Draws the arguments of one call of a row that is no expression: from the schema, the row's `test`, or a recipe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import torch
from hypothesis import assume
from torch.utils._pytree import tree_leaves

import support.recipes  # noqa: F401  registers them
from support.compare import clone, cpu_refuses, narrowed, reference
from support.drawing import KINDS, views
from support.manifest import TORCH_TYPES, overload, rows
from support.recipe import Gradient, Recipe, find

# Where sums decide, one value at the edge of the range makes the result hang on their order.
SUMS = {"reduction", "scan", "scatter", "softmax", "distance", "pooling", "loss", "foreach", "shape"}
DTYPES = [None, torch.float32, torch.float64, torch.int64]
NAMES = {dtype: name for name, dtype in TORCH_TYPES.items()}

shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple) | st.sampled_from(
    [(), (0,), (3, 0, 2), (1,), (33,), (20, 40), (300, 3), (2, 3, 4, 5)]
)
small_shapes = st.lists(st.integers(1, 4), min_size=0, max_size=5).map(tuple) | st.sampled_from([(0,), (2, 0, 3)])


class Draw:
    """Draws the arguments of one call; `shape` and `dim` are those of the first tensor."""

    def __init__(self, draw: Any, row: dict[str, Any], name: str, dtype: torch.dtype) -> None:
        self.draw, self.row, self.name, self.dtype = draw, row, name, dtype
        self.schema = overload(name)._schema
        self.writes = self.schema.name.endswith("_")
        self.taken = False  # whether the first tensor is drawn
        self.shape: tuple[int, ...] | None = None
        self.index: torch.Tensor | None = None
        self.dim = 0

    # ---- what recipes and rules draw with
    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def ints(self, n: int, low: int, high: int) -> list[int]:
        return [self.int(low, high) for _ in range(n)]

    def maybe(self, make: Callable[[], Any]) -> Any:
        return make() if self.flag() else None

    def any_shape(self) -> tuple[int, ...]:
        return self.draw(small_shapes)

    def tensor(
        self, shape: Any, dtype: torch.dtype | None = None, kinds: Any = KINDS, domain: Any = None
    ) -> torch.Tensor:
        """In any layout; with NaN, infinity and subnormals unless a domain says otherwise."""
        extreme = self.row["family"] not in SUMS
        domain = domain or self.row["test"]["domain"]
        return self.draw(views(tuple(shape), dtype or self.dtype, domain, extreme=extreme, kinds=kinds))

    def plain(
        self, *shape: int, dtype: torch.dtype | None = None, low: float = -3.0, high: float = 3.0
    ) -> torch.Tensor:
        """Ordinary numbers in any layout: where a sum of products would turn one infinity into NaN by its order."""
        return self.tensor(shape, dtype, domain=(low, high))

    def own(self, shape: Any, dtype: torch.dtype | None = None, domain: Any = None) -> torch.Tensor:
        """A tensor to be written: no two elements in one place."""
        return self.tensor(shape, dtype, tuple(k for k in KINDS if k != "expanded"), domain)

    def whole(self, shape: tuple[int, ...], high: int, low: int = 0) -> torch.Tensor:
        """Whole numbers below `high`; none at all where nothing can be named."""
        if high <= low:
            shape = (*shape[:-1], 0) if shape else (0,)
        generator = torch.Generator().manual_seed(self.draw(st.integers(0, 10**6)))
        return torch.randint(low, max(low + 1, high), shape, generator=generator)

    def order(self, n: int) -> torch.Tensor:
        """The numbers below `n` in any order, the same whenever Hypothesis draws this example again."""
        return torch.randperm(n, generator=torch.Generator().manual_seed(self.draw(st.integers(0, 10**6))))

    # ---- rules: from the schema and the row
    def size(self) -> int:
        assert self.shape is not None
        return self.shape[self.dim] if self.shape else 1

    def first(self) -> torch.Tensor:
        rank = self.row["test"]["args"].get("rank")
        self.shape = self.draw(shapes if rank is None else st.tuples(*[st.integers(1, 6)] * rank))
        self.dim = self.draw(st.integers(0, len(self.shape) - 1)) if self.shape else 0
        return self.own(self.shape) if self.writes else self.tensor(self.shape)

    def by_rule(self, rule: str) -> Any:
        """The kinds of argument that a row may name."""
        shape = self.shape or ()
        if rule == "lines":  # gather and scatter: as many dimensions as self, none longer but the one worked along
            sizes = [n if d == self.dim else self.draw(st.integers(min(1, n), n)) for d, n in enumerate(shape)]
            if shape:
                sizes[self.dim] = self.draw(st.integers(1, 6))
            self.index = self.whole(tuple(sizes), self.size())
            return self.index
        if rule == "vector":
            self.index = self.whole((self.draw(st.integers(1, 6)),), self.size())
            return self.index
        if rule == "flat":
            # Of values for one place the last stays, by an order that the CPU leaves open in more dimensions than one.
            flat = (self.int(0, 12),) if self.writes else self.draw(shapes)
            self.index = self.whole(flat, math.prod(shape))
            return self.index
        assert self.index is not None or rule in ("mask", "sorted", "like", "other")
        if rule == "like index":
            return self.tensor(tuple(self.index.shape))  # type: ignore[union-attr]
        if rule == "slices":  # of self, one for each index
            sizes = list(shape)
            if sizes:
                sizes[self.dim] = self.index.numel()  # type: ignore[union-attr]
            return self.tensor(tuple(sizes))
        if rule == "mask":
            return self.tensor(shape, torch.bool)
        if rule == "like":
            return self.tensor(shape)
        if rule == "other":
            return self.tensor(self.draw(shapes))
        if rule == "sorted":
            values = self.tensor((self.draw(st.integers(1, 20)),))
            # Nobody orders complex numbers: such a call has to fail, whatever their order.
            return values if values.is_complex() else values.nan_to_num(0).sort().values
        raise AssertionError(rule)

    def rule(self, arg: Any) -> Callable[[], Any] | None:
        """How to draw one argument of the schema, None where nothing says so. Asked in the schema's order."""
        kind, test, draw = str(arg.type), self.row["test"], self.draw
        if arg.name in test["sample"]:
            return lambda: draw(st.sampled_from(test["sample"][arg.name]))
        if arg.name in test["args"] and "Tensor" in kind:
            return lambda: self.by_rule(test["args"][arg.name])
        if kind == "Tensor":
            taken, self.taken = self.taken, True
            return None if taken else self.first
        if arg.name in ("dim", "dims", "axis"):
            return lambda: self.dims(kind)
        if arg.name == "k":
            return lambda: draw(st.integers(1, max(1, self.size())))
        if arg.name == "dtype":
            return lambda: draw(st.sampled_from(DTYPES))
        if arg.name == "correction":
            return lambda: draw(st.sampled_from([None, 0, 1, 2]))
        if kind in ("bool", "Optional[bool]"):
            return lambda: draw(st.booleans())
        if arg.name == "value" and kind == "number":
            return lambda: 2 if self.dtype != torch.bool else True
        return (lambda: arg.default_value) if arg.has_default_value() else None

    def dims(self, kind: str) -> Any:
        ndim = len(self.shape or ())
        if kind == "int":
            return self.dim - (ndim if self.draw(st.booleans()) else 0)
        if kind in ("Optional[int]", "int?"):
            return self.draw(st.sampled_from([None, self.dim]))
        some = self.draw(st.lists(st.integers(0, max(0, ndim - 1)), unique=True, max_size=ndim))
        return some if some or not kind.startswith("Optional") else self.draw(st.sampled_from([None, []]))

    # ---- whole calls
    def gradient(self, how: Gradient) -> dict[str, Any]:
        """The arguments of `how.forward`, what it gives for them, and a gradient of its first result."""
        forward = Draw(self.draw, row_of(how.forward), how.forward, self.dtype)
        op, given = callable_on_cpu(how.forward), forward.call()
        try:
            results = tree_leaves(op(**clone(given)))
        except Exception as error:
            wide = reference(op, **given) if cpu_refuses(error) else None
            assume(wide is not None)  # what else the forward call refuses, its own test compares
            results = tree_leaves(narrowed(wide, self.dtype))
        values = given | {arg: results[i] for arg, i in how.given.items()}
        grad = next(a.name for a in self.schema.arguments if a.name.startswith("grad"))
        values[grad] = self.plain(*results[0].shape, dtype=results[0].dtype)
        if how.rest is not None:
            values |= how.rest(self, values)
        for arg in self.schema.arguments:
            if arg.name.endswith("mask") and str(arg.type) == "List[bool]" and arg.name not in values:
                values[arg.name] = self.draw(st.lists(st.booleans(), min_size=arg.N, max_size=arg.N))
        return values

    def call(self) -> dict[str, Any]:
        """Arguments by name, the out arguments only where a recipe draws them."""
        how = find(self.name)
        values: dict[str, Any] = {}
        if isinstance(how, Recipe):
            values = how.fill(self)
        elif isinstance(how, Gradient):
            values = self.gradient(how)
        args = {}
        for arg in self.schema.arguments:
            if arg.name in values:
                args[arg.name] = values[arg.name]
            elif not arg.is_out:
                if how is not None and arg.has_default_value() and str(arg.type) != "bool":
                    args[arg.name] = arg.default_value
                else:
                    draw = self.rule(arg)
                    assert draw is not None, f"{self.name}: nothing draws {arg.name}"
                    args[arg.name] = draw()
        return args


def callable_on_cpu(name: str) -> Callable[..., Any]:
    """The overload, or what its recipe says the CPU calls instead."""
    how = find(name)
    return how.oracle if how is not None and how.oracle is not None else overload(name)


def row_of(name: str) -> dict[str, Any]:
    """The row that holds an overload."""
    return next(r for r in rows() if name in r["overloads"])


def drawable(row: dict[str, Any], name: str) -> bool:
    """Whether a recipe or the rules draw every argument of an overload."""
    if find(name) is not None:
        return True
    draw = Draw(None, row, name, torch.float32)
    return all(draw.rule(a) is not None for a in draw.schema.arguments if not a.is_out)
