"""Reductions from C++ expressions: what an element becomes, how two partial results join, what the result becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import get_computation_dtype, reduction_dims

from xpu_ops.block import ir, nests, printer
from xpu_ops.block.ir import Kernel, call
from xpu_ops.block.nests import Form
from xpu_ops.block.parameters import number
from xpu_ops.block.types import compute_type
from xpu_ops.jit import tensors

_LONG_ROW = 65536  # from here on few rows are cut into parts
_PARTS = 64


class Reduction(tensors.Operator):
    """A callable over tensors of one shape; made by :func:`reduction`."""

    _after_tensors = "int[]? dim=None, bool keepdim=False"

    def __init__(
        self,
        name: str,
        parameters: str,
        expression: str,
        combine: str,
        identity: str,
        finish: str,
        result: torch.dtype | None,
        preamble: str,
    ) -> None:
        super().__init__(name, parameters, result, preamble)
        self._expression, self._combine, self._identity, self._finish = expression, combine, identity, finish

    def __call__(
        self, *operands: torch.Tensor, dim: int | Sequence[int] | None = None, keepdim: bool = False, **scalars: Any
    ) -> torch.Tensor:
        values = self._checked(operands, scalars)
        views = torch.broadcast_tensors(*operands)
        dims, shape = _dimensions(self.name, views[0].shape, dim, keepdim)
        kept = [d for d in range(views[0].dim()) if d not in dims]
        columns = math.prod(views[0].shape[d] for d in dims)
        rows = math.prod(views[0].shape[d] for d in kept)
        flat = [v.permute([*kept, *dims]).reshape(rows, columns).contiguous() for v in views]
        return self._reduce(flat, values, *self._dtypes(operands), columns).view(shape)

    def _run(self, *args: Any, **scalars: Any) -> torch.Tensor:
        tensors, dim, keepdim = self._split(args)
        return self(*tensors, dim=dim, keepdim=keepdim, **scalars)

    def _fake(self, *args: Any, **scalars: Any) -> torch.Tensor:
        tensors, dim, keepdim = self._split(args)
        first = torch.broadcast_tensors(*tensors)[0]
        _, shape = _dimensions(self.name, first.shape, dim, keepdim)
        return first.new_empty(shape, dtype=self._dtypes(tensors)[1])

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Sequence[int] | None, bool]:
        """Tensors, dim and keepdim of a call of the registered operator."""
        count = len(self.operands)
        rest = args[count:]
        return args[:count], rest[0] if rest else None, bool(rest[1:] and rest[1])

    def _reduce(
        self, flat: list[torch.Tensor], values: list[Any], compute: torch.dtype, result: torch.dtype, count: int
    ) -> torch.Tensor:
        rows, columns = flat[0].shape
        if rows < _PARTS and columns >= _LONG_ROW and columns % _PARTS == 0:
            parts = [t.view(rows * _PARTS, columns // _PARTS) for t in flat]
            partial = self._pass(parts, values, compute, None, count)
            return self._pass([partial.view(rows, _PARTS)], [], compute, result, count, mapped=True)
        if rows == 0:
            return flat[0].new_empty(0, dtype=result)
        return self._pass(flat, values, compute, result, count)

    def _pass(
        self,
        flat: list[torch.Tensor],
        values: list[Any],
        compute: torch.dtype,
        result: torch.dtype | None,
        count: int,
        mapped: bool = False,
    ) -> torch.Tensor:
        """One launch: partial results of the type they are computed in where `result` is None."""
        rows, columns = flat[0].shape
        out = flat[0].new_empty(rows, dtype=result or get_computation_dtype(compute))
        device = out.device.index or 0
        form, (groups, _, each, _) = tensors.plan(rows, columns, True, device)
        dtypes = [t.dtype for t in flat]
        key = (device, form.name, compute, result, mapped, *dtypes)
        launch = self._launcher(key, device, lambda: self._block(form, dtypes, compute, result, mapped))
        launch(groups, out, *flat, *values, rows, columns, each, count)
        return out

    def _block(
        self, form: Form, dtypes: list[torch.dtype], compute: torch.dtype, result: torch.dtype | None, mapped: bool
    ) -> Kernel:
        """`mapped`: the elements are partial results. Results are those where `result` is None."""
        operands, scalars = ([], []) if mapped else (self.operands, self.scalars)
        names = ["part"] if mapped else [p.name for p in operands]
        stored = result or get_computation_dtype(compute)
        fields = tensors.fields(stored, dict(zip(names, dtypes, strict=True)), scalars)
        fields += map(number, ("rows", "columns", "each", "count"))
        loads = [ir.load(f"p.ptr_{n}", ir.name("at") + "c") for n in names]
        if mapped:
            element = ir.cast("T", loads[0])
        else:
            converted = (call(f"xpu::convert<{p.ctype}>", x) for p, x in zip(operands, loads, strict=True))
            element = call(f"{self.name}_map", *converted, *(s.field.value for s in scalars))
        join, finish = f"{self.name}_join", f"{self.name}_finish"
        before = printer.preface(self._preamble, compute_type(compute)) + printer.functor(join, "T", self._combine)
        before += printer.function(f"{self.name}_map({self._declared})", "T", self._expression)
        if result is not None:
            before += printer.function(f"{finish}(T x, long n)", compute_type(result), self._finish, "xpu::convert")
        finished = (lambda x: x) if result is None else (lambda x: call(finish, x, "p.count"))
        body = nests.reduction(form, "T", self._identity, join, element, finished)
        return Kernel(f"{self.name}_kernel", tuple(fields), body, before, form.items, form.together)


def _dimensions(
    name: str, shape: Sequence[int], dim: int | Sequence[int] | None, keepdim: bool
) -> tuple[list[int], list[int]]:
    """The reduced dimensions, as torch.sum takes them: none are all; and the shape of the result.

    Raises:
        IndexError: for one that does not exist. RuntimeError: for one that is named twice.
    """
    given = [dim] if isinstance(dim, int) else list(dim or ())
    try:
        dims = sorted(reduction_dims(shape, given or None)) if shape else []
    except (IndexError, RuntimeError) as error:
        raise type(error)(f"{name}: {error}") from None
    return dims, [1 if d in dims else s for d, s in enumerate(shape) if keepdim or d not in dims]


def reduction(
    name: str,
    parameters: str,
    expression: str,
    *,
    combine: str = "a + b",
    identity: str = "0",
    finish: str = "x",
    result: torch.dtype | None = None,
    preamble: str = "",
) -> Reduction:
    """Make a reduction over any dimensions.

    Args:
        name: a C++ identifier.
        parameters: as for :func:`elementwise`; the tensors broadcast.
        expression: what an element becomes.
        combine: joins two partial results `a` and `b`, of the type T that the promoted dtype is computed in. It must be
            associative and commutative: the order is not that of the elements.
        identity: the value that changes nothing.
        finish: what the result `x` over `n` elements becomes.
        result: dtype of the result; by default what torch promotes the tensors to.
        preamble: C++ in front.

    Returns:
        A callable `f(*tensors, dim=None, keepdim=False)`; None reduces all dimensions.

    Raises:
        ValueError: where a parameter cannot be read. CompileError at the first call where an expression has an error.

    Source: as CuPy's ReductionKernel; dims and keepdim are those of at::sum.
    """
    return Reduction(name, parameters, expression, combine, identity, finish, result, preamble)
