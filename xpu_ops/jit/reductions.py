"""Reductions from C++ expressions: what an element becomes, how two partial results join, what the result becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from xpu_ops.block import ir, nests, printer
from xpu_ops.block.ir import Kernel, call
from xpu_ops.block.nests import Form
from xpu_ops.block.parameters import number, pointer
from xpu_ops.block.types import compute_type, memory_type
from xpu_ops.jit import tensors

_LONG_ROW = 65536  # from here on few rows are cut into parts
_PARTS = 64


class Reduction(tensors.Operator):
    """A callable over tensors of one shape; made by :func:`reduction`."""

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
        tensors.check_tensors(self.name, self.operands, operands)
        values = tensors.scalar_values(self.name, self.scalars, scalars)
        dims = _dimensions(self.name, operands[0].dim(), dim)
        compute, result = tensors.promoted(self.operands, operands)
        result = self._result or result
        kept, flat = _rows(operands, dims)
        shape = [operands[0].shape[d] for d in kept]
        columns = flat[0].shape[1]
        out = self._reduce(flat, values, compute, result, columns).view(shape)
        return _unsqueezed(out, dims) if keepdim else out

    def register(
        self,
        qualified_name: str,
        backward: Callable[..., Any] | None = None,
        setup_context: Callable[..., Any] | None = None,
    ) -> Any:
        """Define the operator `namespace::name` of torch.library with arguments `int[]? dim=None, bool keepdim=False`
        after the tensors; see Elementwise.register."""
        schema = tensors.schema(self.operands, self.scalars, "int[]? dim=None, bool keepdim=False")
        count = len(self.operands)

        def run(*args: Any, **scalars: Any) -> torch.Tensor:
            dim, keepdim = [*args[count:], None, False][:2] if len(args) > count else (None, False)
            return self(*args[:count], dim=dim, keepdim=bool(keepdim), **scalars)

        def fake(*args: Any, **scalars: Any) -> torch.Tensor:
            dim, keepdim = ([*args[count:], False][:2]) if len(args) > count else (None, False)
            first = torch.broadcast_tensors(*args[:count])[0]
            dims = _dimensions(self.name, first.dim(), dim)
            shape = [1 if d in dims else s for d, s in enumerate(first.shape) if keepdim or d not in dims]
            dtype = self._result or tensors.promoted(self.operands, args[:count])[1]
            return first.new_empty(shape, dtype=dtype)

        return tensors.register(qualified_name, schema, run, fake, backward, setup_context)

    def _reduce(
        self, flat: list[torch.Tensor], values: list[Any], compute: torch.dtype, result: torch.dtype, count: int
    ) -> torch.Tensor:
        rows, columns = flat[0].shape
        device = flat[0].device
        if rows < _PARTS and columns >= _LONG_ROW and columns % _PARTS == 0:
            parts = [t.view(rows * _PARTS, columns // _PARTS) for t in flat]
            partial = self._pass(parts, values, compute, None, count)
            return self._pass([partial.view(rows, _PARTS)], [], compute, result, count, mapped=True)
        if rows == 0:
            return torch.empty(0, dtype=result, device=device)
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
        stored = result or _partial_dtype(compute)
        out = torch.empty(rows, dtype=stored, device=flat[0].device)
        device = out.device.index or 0
        form, (groups, _, each, _) = tensors.plan(rows, columns, True, device)
        key = (device, form.name, compute, result, mapped, *(t.dtype for t in flat))
        dtypes = [t.dtype for t in flat]
        launch = self._launcher(key, device, lambda: self._block(form, dtypes, compute, result, mapped))
        launch(groups, out, *flat, *values, rows, columns, each, count)
        return out

    def _block(
        self, form: Form, dtypes: list[torch.dtype], compute: torch.dtype, result: torch.dtype | None, mapped: bool
    ) -> Kernel:
        """`mapped`: the elements are partial results. Results are those where `result` is None."""
        operands, scalars = ([], []) if mapped else (self.operands, self.scalars)
        names = ["part"] if mapped else [p.name for p in operands]
        fields = [pointer("ptr_out", memory_type(result or _partial_dtype(compute)))]
        fields += [pointer(f"ptr_{n}", memory_type(d), True) for n, d in zip(names, dtypes, strict=True)]
        fields += [*(s.field for s in scalars), *map(number, ("rows", "columns", "each", "count"))]
        loads = [ir.load(f"p.ptr_{n}", ir.name("at") + "c") for n in names]
        if mapped:
            element = call("static_cast<T>", *loads)
        else:
            converted = (call(f"xpu::convert<{p.ctype}>", x) for p, x in zip(operands, loads, strict=True))
            element = call(f"{self.name}_map", *converted, *(s.field.value for s in scalars))
        declared = ", ".join(f"{p.ctype} {p.name}" for p in (*self.operands, *self.scalars))
        join, finish = f"{self.name}_join", f"{self.name}_finish"
        before = printer.preface(self._preamble, compute_type(compute)) + printer.functor(join, "T", self._combine)
        before += printer.function("T", f"{self.name}_map", declared, self._expression)
        if result is not None:
            before += printer.function(compute_type(result), finish, "T x, long n", self._finish, "xpu::convert")
        identity = f"static_cast<T>({self._identity})"
        finished = (lambda x: x) if result is None else (lambda x: call(finish, x, "p.count"))
        body = nests.reduction(form, "T", identity, join, element, finished)
        return Kernel(f"{self.name}_kernel", tuple(fields), body, before, form.items, form.together)


def _partial_dtype(compute: torch.dtype) -> torch.dtype:
    return torch.float32 if compute in (torch.float16, torch.bfloat16) else compute


def _dimensions(name: str, rank: int, dim: int | Sequence[int] | None) -> list[int]:
    """The reduced dimensions, counted from 0.

    Raises:
        IndexError: for one that does not exist. RuntimeError: for one that is named twice.
    """
    given = [] if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if not given:  # as torch.sum
        return list(range(rank))
    bound = max(rank, 1)
    for d in given:
        if not -bound <= d < bound:
            raise IndexError(
                f"{name}: Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {d})"
            )
    dims = [d % bound for d in given]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: dim {dims} appears multiple times in the list of dims")
    return sorted(dims) if rank else []


def _rows(operands: Sequence[torch.Tensor], dims: list[int]) -> tuple[list[int], list[torch.Tensor]]:
    """The dimensions that stay, and the operands as matrices whose rows are reduced."""
    views = torch.broadcast_tensors(*operands)
    kept = [d for d in range(views[0].dim()) if d not in dims]
    columns = 1
    for d in dims:
        columns *= views[0].shape[d]
    rows = 1
    for d in kept:
        rows *= views[0].shape[d]
    return kept, [v.permute(*kept, *dims).reshape(rows, columns).contiguous() for v in views]


def _unsqueezed(out: torch.Tensor, dims: list[int]) -> torch.Tensor:
    for d in dims:
        out = out.unsqueeze(d)
    return out


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
