"""Traces of operators with the shapes of their arguments, such as `cnt: 2, ((T([64, 1000], f16), 1, False), {})`.

Read without evaluating them, and made smaller along the leading dimension where they are large.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c32": torch.complex32,
    "c64": torch.complex64, "c128": torch.complex128, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
    "i8": torch.int8, "u8": torch.uint8, "b8": torch.bool,
}  # fmt: skip
VIEWS = ("_unsafe_view.default",)  # a smaller leading dimension of the tensor is another one of the result
VOCABULARY = 1 << 14  # rows of a table of gradients
# The arguments that share a leading dimension, of operators where others have parameters or positions of their own.
BATCHED = {
    "convolution": (0,), "convolution_backward": (0, 1), "mm": (0,), "addmm": (1,), "native_batch_norm": (0,),
    "native_batch_norm_backward": (0, 1), "native_layer_norm": (0,), "native_layer_norm_backward": (0, 1, 3, 4),
    "embedding": (0, 1), "embedding_dense_backward": (0, 1), "index_select": (2,),
}  # fmt: skip
BEYOND = 128  # a row that cannot be made smaller may be so many times as large
NAMES = {name: of for of, name in TYPES.items()}
RENAMED = {  # names of the time
    "sum.SymInt": "sum.dim_IntList", "col2im_backward.default": "im2col.default", "im2col_backward.default": "col2im.default",
}  # fmt: skip
LAYOUTS = {"strided": torch.strided, "sparse_coo": torch.sparse_coo}


@dataclass(frozen=True)
class Spec:
    """A tensor of a trace."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]

    def numel(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        stride = "" if self.stride == dense(self.shape) else f", stride={list(self.stride)}"
        return f"T({list(self.shape)}, {NAMES[self.dtype]}{stride})"


@dataclass(frozen=True)
class Row:
    """A call: the operator's name without `aten.`, its arguments and how often the models make it."""

    operator: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    count: int = 1

    def __str__(self) -> str:
        named = "".join(f", {k}={v!r}" for k, v in self.kwargs.items())
        return f"{self.operator}({', '.join(map(repr, self.args))}{named})"


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= max(size, 1)
    return tuple(reversed(found))


def value(node: ast.expr) -> Any:
    """The value of an expression of a trace: nothing else is accepted."""
    match node:
        case ast.Name(name) | ast.Constant(str(name)) if name in TYPES:  # some traces quote the types of empty tensors
            return TYPES[name]
        case ast.Constant(v):
            return v
        case ast.Name("inf"):
            return math.inf
        case ast.Name("nan"):
            return math.nan
        case ast.UnaryOp(ast.USub(), operand):
            return -value(operand)
        case ast.Tuple(elements):
            return tuple(value(e) for e in elements)
        case ast.List(elements):
            return [value(e) for e in elements]
        case ast.Dict(keys, values):
            return {value(k): value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.Attribute(ast.Name("torch"), name) if name in LAYOUTS:
            return LAYOUTS[name]
        case ast.Attribute(ast.Name("torch"), name) if isinstance(getattr(torch, name), torch.dtype):
            return getattr(torch, name)
        case ast.Call(ast.Name("T"), [shape, dtype], keywords):
            sizes = tuple(value(shape))
            named = {k.arg: value(k.value) for k in keywords}
            return Spec(sizes, value(dtype), tuple(named.get("stride", dense(sizes))))
    raise ValueError(f"unknown in a trace: {ast.unparse(node)}")


def modern(row: Row) -> Row:
    """The call with today's names: gradients of interpolation have lost their `vec` forms."""
    name, _, overload = row.operator.partition(".")
    if overload != "vec" or not name.endswith("_backward"):
        return row
    grad, size, whole, *aligned, factors = row.args
    size = list(grad.shape[2:]) if size is None else size
    return replace(row, operator=f"{name}.default", args=(grad, size, whole, *aligned, *(factors or (None, None))))


def parse(text: str) -> list[Row]:
    """The rows of one model's trace."""
    rows: list[Row] = []
    operator = ""
    for line in text.splitlines():
        if line.startswith("Operator: "):
            name = line.removeprefix("Operator: aten.").strip()
            operator = RENAMED.get(name, name)
        elif line.startswith("cnt: "):
            count, _, call = line.removeprefix("cnt: ").partition(", ")
            args, kwargs = value(ast.parse(call.strip(), mode="eval").body)
            rows.append(modern(Row(operator, args, kwargs, int(count))))
    return rows


def read(folder: Path) -> list[Row]:
    """The distinct rows of all traces, `*_training.txt`, below a folder, in the order of their names."""
    found: dict[str, Row] = {}
    for path in sorted(folder.rglob("*_training.txt")):
        for row in parse(path.read_text()):
            known = found.get(str(row))
            found[str(row)] = replace(row, count=row.count + known.count) if known else row
    return [found[name] for name in sorted(found)]


def mapped(of: Any, change: Callable[[Any], Any]) -> Any:
    """A nest with `change` of each tensor and each list of integers."""
    if isinstance(of, Spec) or (isinstance(of, list) and of and all(type(v) is int for v in of)):
        return change(of)
    if isinstance(of, tuple | list):
        return type(of)(mapped(v, change) for v in of)
    if isinstance(of, dict):
        return {k: mapped(v, change) for k, v in of.items()}
    return of


def specs(row: Row) -> list[Spec]:
    found: list[Spec] = []

    def see(of: Any) -> Any:
        if isinstance(of, Spec):
            found.append(of)
        return of

    mapped((row.args, row.kwargs), see)
    return found


def elements(row: Row) -> int:
    """An estimate of the work: the elements of the operands, or a fraction of the products."""
    tensors = specs(row)
    name = row.operator.partition(".")[0]
    work = 0  # products
    if name in ("mm", "bmm"):
        work = tensors[0].numel() * tensors[1].shape[-1]
    elif name in ("addmm", "baddbmm"):
        work = tensors[1].numel() * tensors[2].shape[-1]
    elif name == "convolution" and not row.args[6]:
        x, w = tensors[:2]
        work = math.prod((x.shape[0], *x.shape[2:])) * w.numel() // math.prod(row.args[3])
    elif name == "convolution_backward":
        g, _, w = tensors[:3]
        work = 2 * math.prod((g.shape[0], *g.shape[2:])) * w.numel()
    return sum(t.numel() for t in tensors) + work // 64


def less(spec: Spec, n: int, m: int) -> Spec:
    """The tensor with m instead of n in front. Strides across the leading dimension shrink with it."""
    if not spec.shape or spec.shape[0] != n:
        return spec
    first = spec.stride[0]
    span = n * first
    inner = all(s < first for s in spec.stride[1:])  # the leading dimension is the outermost
    stride = spec.stride if inner or not first else tuple(s // n * m if s and not s % span else s for s in spec.stride)
    return Spec((m, *spec.shape[1:]), spec.dtype, stride)


def leading_of(n: int, m: int) -> Callable[[Any], Any]:
    """Tensors and shapes with m instead of n in front."""

    def change(of: Any) -> Any:
        if isinstance(of, Spec):
            return less(of, n, m)
        return [m, *of[1:]] if of[0] == n and len(of) > 1 else of

    return change


def view(row: Row, most: int) -> Row:
    """A view's tensor and its shape, with the leading dimensions divided by a number that both are multiples of."""
    of, shape = row.args
    common = math.gcd(of.shape[0], shape[0])
    by = next((d for d in range(1, common + 1) if common % d == 0 and of.numel() // d <= most), common)
    return replace(row, args=(less(of, of.shape[0], of.shape[0] // by), [shape[0] // by, *shape[1:]]))


def smaller(row: Row, most: int) -> list[Row]:
    """The row itself where it is small, else forms of it with smaller leading dimensions, the likeliest first, itself the last.

    Whether a form is a valid call is for the operator to say.
    """
    if row.operator == "embedding_dense_backward.default" and row.args[2] > VOCABULARY:
        row = replace(row, args=(*row.args[:2], VOCABULARY, *row.args[3:]))
    if elements(row) <= most:
        return [row]
    if row.operator in VIEWS:
        return [view(row, most)]
    forms: list[Row] = []
    name = row.operator.partition(".")[0]
    batched = BATCHED.get(name, range(len(row.args)))
    tensors = specs(replace(row, args=tuple(row.args[i] for i in batched)))
    leading = sorted({t.shape[0] for t in tensors if t.shape and t.shape[0] > 1}, reverse=True)
    large = max(tensors, key=Spec.numel, default=None)
    if large is not None and large.shape and large.shape[0] in leading:
        leading.remove(large.shape[0])
        leading.insert(0, large.shape[0])
    for n in leading:
        m = n
        found: list[Row] = []
        while m > 1:
            m = (m + 1) // 2
            change = leading_of(n, m)
            args = tuple(mapped(v, change) if i in batched else v for i, v in enumerate(row.args))
            found.append(replace(row, args=args, kwargs=mapped(row.kwargs, change)))
        # The operands that stay set a bound: one row of the rest would be another kind of call.
        bound = max(most, 2 * elements(found[-1]))
        forms.append(next(f for f in found if elements(f) <= bound))
    return [f for f in (*sorted(forms, key=lambda f: elements(f) > most), row) if elements(f) <= most * BEYOND]
