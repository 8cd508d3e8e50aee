"""Inductor's element-wise operations by the table of xpu_ops/block/ops.py."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeAlias

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V, ops

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr
from xpu_ops.block.ops import FUNCTIONS, TORCH, called, write
from xpu_ops.block.types import compute_type, memory_type, of
from xpu_ops.inductor.types import literal

Number: TypeAlias = bool | int | float
Operand: TypeAlias = CSEVariable | Number


class Variable(CSEVariable):
    """A value of a kernel."""

    made_by = ""  # the operation
    made_of: object = None  # its first argument

    def update_on_args(self, name: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self.made_by, self.made_of = name, args[0] if args else None

    def is_one(self) -> bool:
        return self.made_by == "constant" and self.made_of == 1


def _dtype(name: str, *args: Operand) -> torch.dtype:
    """The result type of an operation by upstream's propagation."""
    return getattr(DtypePropagationOpsHandler(), name)(*args)


def _argument(a: object) -> object:
    return ir.name(str(a)) if isinstance(a, CSEVariable) else a if isinstance(a, Expr) else repr(a)


def expression(op: str, text: str, *args: object) -> Expr:
    """A value with the variables and the constants that it is made of."""
    return Expr(text, op, tuple(map(_argument, args)))


def _kinds(op: str, args: tuple[Operand, ...]) -> tuple[str, ...]:
    """The entries of the table that may serve these operands, the one that says most first."""
    if f"{op}.int" not in TORCH and f"{op}.bool" not in TORCH:
        return ("",)
    dtype = _dtype("add", *args)
    return ("",) if dtype.is_floating_point else (".bool", ".int", "") if dtype == torch.bool else (".int", "")


def operation(op: str, *args: Operand, dtype: torch.dtype | None = None, **named: str) -> Expr:
    """An operation of the table, whose result is of `dtype`, or the type that torch gives it."""
    key = next((op + kind for kind in _kinds(op, args) if op + kind in TORCH), "")
    template = TORCH[key] if key else called(FUNCTIONS[op], len(args), ":F")
    if "T}" in template or "N}" in template:
        named["T"] = compute_type(dtype or _dtype(op, *args))
        named["N"] = "uint8_t" if named["T"] == "bool" else named["T"]
    if "F}" in template:
        wide = any(isinstance(a, CSEVariable) and a.dtype == torch.float64 for a in args)
        named["F"] = "double" if wide else "float"
    return expression(op, write(template, [str(a) for a in args], (), **named), *args, *named.values())


class SyclOverrides(OpOverrides):
    """Expressions; the kernel converts each result to its propagated type where it is assigned."""

    @staticmethod
    def to_dtype(
        x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> Expr:
        # As Inductor defines it: 16-bit floats stay float within a kernel, those of 8 bits are rounded.
        rounded = of(dtype).small_float and (dtype.itemsize == 1 or not use_compute_types)
        return operation("to_dtype.rounded" if rounded else "to_dtype", x, dtype=dtype, M=memory_type(dtype))

    @staticmethod
    def to_dtype_bitcast(x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype) -> Expr:
        source = ir.call(memory_type(src_dtype), str(x)) if of(src_dtype).small_float else ir.name(str(x))
        bits = Expr(write(TORCH["bits"], [source.text], M=memory_type(dtype)), "bits", (source, str(dtype)))
        return ir.cast("float", bits) if of(dtype).small_float else bits

    @staticmethod
    def constant(value: Number | sympy.Expr, dtype: torch.dtype) -> str:
        return literal(value, dtype)

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> CSEVariable:
        kernel = V.kernel
        index = kernel.prepare_indexing(expr)
        if index.is_integer or (index.is_integer is None and not dtype.is_floating_point):
            kind = torch.int64
        elif kernel.is_of_sizes(index):
            # Known before the launch: computed there in double, so that the kernel needs no fp64.
            kind = torch.float64 if dtype == torch.float64 else torch.float32
            hoisted = ir.name(kernel.hoist(index, kind))
            return ops.to_dtype(kernel.cse.generate(kernel.compute, hoisted, dtype=kind), dtype)
        else:
            kind = torch.float64
        value = kernel.cse.generate(kernel.compute, kernel.place(index), bounds=get_bounds_index_expr(expr), dtype=kind)
        return ops.to_dtype(value, dtype)

    value_expr = index_expr

    @staticmethod
    def masked(mask: CSEVariable, body: Callable[[], CSEVariable], other: Number) -> CSEVariable:
        """A branch, since what the body loads may not exist where the mask is false."""
        kernel, scoped = V.kernel, list[ir.Node]()
        kernel.mask_depth += 1
        with kernel.swap_buffers(scoped):
            value = body()
        kernel.mask_depth -= 1
        dtype = value.dtype
        ctype, result = compute_type(dtype), kernel.cse.newvar(dtype=dtype)
        kernel.compute.append(ir.Let(str(result), ctype, Expr(literal(other, dtype), "constant", (str(other),))))
        scoped.append(ir.Assign(str(result), ir.cast(ctype, str(value))))
        kernel.compute.append(ir.If(ir.name(str(mask)), tuple(scoped)))
        return result

    @staticmethod
    def frexp(x: CSEVariable) -> tuple[CSEVariable, CSEVariable]:
        cse, compute = V.kernel.cse, V.kernel.compute
        mantissa = cse.generate(compute, operation("frexp_mantissa", x), dtype=x.dtype)
        return mantissa, cse.generate(compute, operation("frexp_exponent", x), dtype=torch.int32)

    @staticmethod
    def square(x: CSEVariable) -> Expr:
        return operation("mul", x, x)

    @staticmethod
    def maximum(a: Operand, b: Operand) -> Expr:
        return operation("maximum", *_bound_first(a, b))

    @staticmethod
    def minimum(a: Operand, b: Operand) -> Expr:
        return operation("minimum", *_bound_first(a, b))

    @staticmethod
    def log1p(x: Variable) -> Expr:
        """Of an exponential: log(1 + exp(x)) by one polynomial for the logarithm, whatever x is."""
        return operation("log_one_plus_exp", x.made_of) if x.made_by == "exp" else operation("log1p", x)

    @staticmethod
    def add(a: Operand, b: Operand) -> Expr:
        """1 + tanh(x), as in gelu, is 2 / (1 + exp(-2 x)): one branch, and no cancellation."""
        for t, one in ((a, b), (b, a)):
            if isinstance(t, Variable) and t.made_by == "tanh" and isinstance(one, Variable) and one.is_one():
                return operation("over_one_plus_exp_of_minus_twice", t.made_of)
        return operation("add", a, b)


def _bound_first(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Of two equal numbers the second is the result. A clamp keeps its operand, so that -0 stays -0 at a bound of 0."""
    return (b, a) if isinstance(b, Variable) and b.made_by == "constant" else (a, b)


def _to_int(op: str, a: CSEVariable, dtype: torch.dtype) -> Expr:
    return operation(op, a, dtype=dtype)


# Upstream's names for the same operations.
_ALSO = {"mul_rn": "mul", "div_rn": "truediv", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
_ALSO |= {"and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor"}
for _op in (*FUNCTIONS, *TORCH, *_ALSO):
    if "." not in _op and _op not in vars(SyclOverrides):
        _make = _to_int if _op.endswith("_to_int") else operation
        setattr(SyclOverrides, _op, staticmethod(functools.partial(_make, _ALSO.get(_op, _op))))
