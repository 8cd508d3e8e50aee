"""Inductor's element-wise operations as calls of the functions that the operators of the manifest use."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V, ops

from xpu_ops.block import ir
from xpu_ops.block.ir import Expr
from xpu_ops.block.ops import FUNCTIONS, PAIRS
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


def _dtype(name: str, *args: Operand) -> torch.dtype:
    """The result type of an operation by upstream's propagation."""
    return getattr(DtypePropagationOpsHandler(), name)(*args)


def _cast(ctype: str, *args: Operand) -> str:
    return ", ".join(f"static_cast<{ctype}>({a})" for a in args)


def _infix(symbol: str, form: str = "{}") -> staticmethod[[Operand, Operand], str]:
    return staticmethod(lambda a, b: f"{form.format(a)} {symbol} {form.format(b)}")


def _wrapping(symbol: str, op: str) -> staticmethod[[CSEVariable, CSEVariable], str]:
    """Sums and products: integers in unsigned numbers, which may overflow."""

    def write(a: CSEVariable, b: CSEVariable) -> str:
        dtype = _dtype(op, a, b)
        ctype = compute_type(dtype) if dtype.is_floating_point else "uint64_t"
        return f"static_cast<{ctype}>({a}) {symbol} static_cast<{ctype}>({b})"

    return staticmethod(write)


class SyclOverrides(OpOverrides):
    """Expressions; the kernel converts each result to its propagated type where it is assigned."""

    @staticmethod
    def to_dtype(
        x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> str:
        text = f"xpu::convert<{compute_type(dtype)}>({x})"
        # As Inductor defines it: 16-bit floats stay float within a kernel, those of 8 bits are rounded.
        if of(dtype).small_float and (dtype.itemsize == 1 or not use_compute_types):
            text = f"static_cast<float>({memory_type(dtype)}({text}))"
        return text

    @staticmethod
    def to_dtype_bitcast(x: CSEVariable, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        source = f"{memory_type(src_dtype)}({x})" if of(src_dtype).small_float else str(x)
        text = f"sycl::bit_cast<{memory_type(dtype)}>({source})"
        return f"static_cast<float>({text})" if of(dtype).small_float else text

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
        kernel.compute.append(ir.Let(str(result), ctype, Expr(literal(other, dtype), "constant", (str(other),)), False))
        scoped.append(ir.Assign(str(result), ir.call(f"static_cast<{ctype}>", str(value))))
        kernel.compute.append(ir.If(ir.name(str(mask)), tuple(scoped)))
        return result

    @staticmethod
    def where(a: CSEVariable, b: CSEVariable, c: CSEVariable) -> str:
        ctype = compute_type(_dtype("where", a, b, c))
        return f"{a} ? {_cast(ctype, b)} : {_cast(ctype, c)}"

    logical_and, logical_or, logical_xor = (_infix(op, "bool({})") for op in ("&&", "||", "!="))
    and_, or_, xor = bitwise_and, bitwise_or, bitwise_xor = tuple(_infix(op) for op in ("&", "|", "^"))

    @staticmethod
    def logical_not(a: CSEVariable) -> str:
        return f"!bool({a})"

    @staticmethod
    def bitwise_not(a: CSEVariable) -> str:
        return f"!{a}" if a.dtype == torch.bool else f"~{a}"

    add, sub, mul = (_wrapping(op, name) for op, name in (("+", "add"), ("-", "sub"), ("*", "mul")))
    mul_rn = mul

    @staticmethod
    def neg(a: CSEVariable) -> str:
        return f"-{a}" if a.dtype is None or a.dtype.is_floating_point else f"int64_t(0ul - static_cast<uint64_t>({a}))"

    @staticmethod
    def truediv(a: Operand, b: Operand) -> str:
        ctype = compute_type(_dtype("truediv", a, b))
        return f"static_cast<{ctype}>({a}) / static_cast<{ctype}>({b})"

    div_rn = truediv

    @staticmethod
    def int_truediv(a: CSEVariable, b: CSEVariable) -> str:
        ctype = compute_type(_dtype("int_truediv", a, b))
        return f"xpu::convert<{ctype}>({a}) / xpu::convert<{ctype}>({b})"

    isnan = staticmethod(lambda x: f"{x} != {x}")
    isinf = staticmethod(lambda x: f"xpu::isinf({x})" if x.dtype.is_floating_point else "false")
    sign = staticmethod(lambda x: str(x) if x.dtype == torch.bool else f"xpu::sign({x})")
    signbit = staticmethod(lambda x: f"xpu::signbit({x})" if x.dtype.is_floating_point else f"{x} < 0")
    square = staticmethod(lambda x: SyclOverrides.mul(x, x))
    relu = staticmethod(lambda x: f"{x} < 0 ? {compute_type(x.dtype)}(0) : {x}")
    reciprocal = staticmethod(lambda x: f"{compute_type(x.dtype)}(1) / {x}")
    ldexp = staticmethod(lambda x, n: f"xpu::gen::ldexp({x}, static_cast<int32_t>({n}))")
    polygamma = staticmethod(lambda n, x: f"xpu::polygamma(static_cast<int64_t>({n}), {x})")
    rand = staticmethod(lambda seed, offset: f"xpu::gen::rand({seed}, {offset})")
    randn = staticmethod(lambda seed, offset: f"xpu::gen::randn({seed}, {offset})")
    randint64 = staticmethod(lambda seed, offset, low, high: f"xpu::gen::randint({seed}, {offset}, {low}, {high})")

    @staticmethod
    def abs(x: CSEVariable) -> str:
        if x.dtype == torch.bool:
            return str(x)
        return f"xpu::fabs({x})" if x.dtype.is_floating_point else f"xpu::iabs({x})"

    @staticmethod
    def rsqrt(x: CSEVariable) -> str:
        ctype = compute_type(_dtype("rsqrt", x))
        return f"{ctype}(1) / sycl::sqrt(static_cast<{ctype}>({x}))"

    @staticmethod
    def fma(a: Operand, b: Operand, c: Operand) -> str:
        ctype = compute_type(_dtype("fma", a, b, c))
        return f"sycl::fma({_cast(ctype, a, b, c)})" if ctype in ("float", "double") else f"{a} * {b} + {c}"

    @staticmethod
    def frexp(x: CSEVariable) -> tuple[CSEVariable, CSEVariable]:
        kernel = V.kernel
        mantissa = kernel.cse.generate(kernel.compute, ir.call("xpu::frexp_mantissa", str(x)), dtype=x.dtype)
        exponent = kernel.cse.generate(kernel.compute, ir.call("xpu::frexp_exponent", str(x)), dtype=torch.int32)
        return mantissa, exponent

    @staticmethod
    def maximum(a: Operand, b: Operand) -> str:
        return _typed("xpu::maximum", "maximum", *_bound_first(a, b), explicit=True)

    @staticmethod
    def minimum(a: Operand, b: Operand) -> str:
        return _typed("xpu::minimum", "minimum", *_bound_first(a, b), explicit=True)

    @staticmethod
    def ndtr(x: CSEVariable) -> str:
        ctype = compute_type(_dtype("ndtr", x))
        return f"{ctype}(0.5) * sycl::erfc(static_cast<{ctype}>({x}) * {ctype}(-0.70710678118654752440))"


def _bound_first(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Of two equal numbers the second is the result. A clamp keeps its operand, so that -0 stays -0 at a bound of 0."""
    return (b, a) if _made_by(b, "constant") else (a, b)


def _typed(function: str, op: str, a: Operand, b: Operand, explicit: bool = False) -> str:
    """A call with both arguments converted to the result's type, so that the overload of that type is chosen."""
    ctype = compute_type(_dtype(op, a, b))
    if ctype == "bool" and not explicit:
        ctype = "uint8_t"
    return f"{function}{f'<{ctype}>' if explicit else ''}({_cast(ctype, a, b)})"


# Their results on integers are the integers.
_ROUNDING = ("floor", "ceil", "trunc", "round")


def _function(op: str, function: str) -> staticmethod[..., str]:
    def call(*args: Operand) -> str:
        dtypes = [a.dtype for a in args if isinstance(a, CSEVariable)]
        if op in _ROUNDING and dtypes and not dtypes[0].is_floating_point:
            return str(args[0])
        wide = any(d == torch.float64 for d in dtypes)
        ctype = "double" if wide else "float"
        return f"{function}({_cast(ctype, *args)})"

    call.__name__ = op
    return staticmethod(call)


for _op, _name in FUNCTIONS.items():
    setattr(SyclOverrides, _op, _function(_op, _name))


def _made_by(x: Any, op: str) -> bool:
    return isinstance(x, Variable) and x.made_by == op


def _whole(function: str, op: str, x: Any, first: str = "", scale: str = "") -> Expr:
    """A call in the place of two operations, of what the first of them was made of."""
    ctype = "double" if x.dtype == torch.float64 else "float"
    start = f"{ctype}({first}), {ctype}({scale}) * " if first else ""
    return Expr(f"{function}({start}{_cast(ctype, x)})", op, (ir.name(str(x)),))


def _softplus(log1p: Any) -> Any:
    """log(1 + exp(x)) by one polynomial for the logarithm, whatever x is."""

    def call(x: Any) -> Any:
        return _whole("xpu::log_one_plus_exp", "log1p", x.made_of) if _made_by(x, "exp") else log1p(x)

    return staticmethod(call)


def _logistic(add: Any) -> Any:
    """1 + tanh(x), as in gelu, is 2 / (1 + exp(-2 x)): one branch, and no cancellation."""

    def call(a: Any, b: Any) -> Any:
        for t, one in ((a, b), (b, a)):
            if _made_by(t, "tanh") and _made_by(one, "constant") and one.made_of == 1:
                return _whole("xpu::over_one_plus_exp", "sigmoid", t.made_of, "2", "-2")
        return add(a, b)

    return staticmethod(call)


SyclOverrides.log1p = _softplus(SyclOverrides.log1p)
SyclOverrides.add = _logistic(SyclOverrides.add)
for _op, _name in PAIRS.items():
    setattr(SyclOverrides, _op, staticmethod(functools.partial(_typed, _name, _op)))
SyclOverrides.lshift, SyclOverrides.rshift = SyclOverrides.bitwise_left_shift, SyclOverrides.bitwise_right_shift

for _op in ("floor_to_int", "ceil_to_int", "trunc_to_int", "round_to_int"):

    def _to_int(a: CSEVariable, dtype: torch.dtype, op: str = _op.removesuffix("_to_int")) -> str:
        if not a.dtype.is_floating_point:
            return str(a)
        return f"xpu::convert<{compute_type(dtype)}>(sycl::{'rint' if op == 'round' else op}({a}))"

    setattr(SyclOverrides, _op, staticmethod(_to_int))
