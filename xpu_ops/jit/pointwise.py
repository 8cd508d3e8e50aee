"""Element-wise operators from one C++ expression: broadcasting, any strides, type promotion."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from xpu_ops.block import nests, printer
from xpu_ops.block.ir import Expr, Kernel, call
from xpu_ops.block.nests import Form
from xpu_ops.block.parameters import number
from xpu_ops.block.types import compute_type
from xpu_ops.jit import tensors

_MOST_DIMS = 6  # behind what dimensions can be joined; operands with more are copied first


class Elementwise(tensors.Operator):
    """A callable over tensors; made by :func:`elementwise`."""

    def __init__(self, name: str, parameters: str, expression: str, result: torch.dtype | None, preamble: str) -> None:
        super().__init__(name, parameters, result, preamble)
        self._expression = expression

    def __call__(self, *operands: torch.Tensor, **scalars: Any) -> torch.Tensor:
        values = self._checked(operands, scalars)
        out = self._fake(*operands)
        if out.numel() > 0:
            self._write(out, operands, values)
        return out

    _run = __call__

    def _fake(self, *operands: torch.Tensor, **scalars: Any) -> torch.Tensor:
        shape = torch.broadcast_shapes(*(t.shape for t in operands))
        dtype = self._dtypes(operands)[1]
        for t in operands:
            if t.shape == shape:
                return torch.empty_like(t, dtype=dtype)  # keeps dense strides
        return torch.empty(shape, dtype=dtype, device=operands[0].device)

    def _write(self, out: torch.Tensor, operands: tuple[torch.Tensor, ...], values: list[Any]) -> None:
        compute = self._dtypes(operands)[0]
        views = [t.expand(out.shape) for t in operands]
        sizes, strides = _joined(out, views)
        if len(sizes) > _MOST_DIMS:
            copies = [v.contiguous() for v in views]
            flat = torch.empty(out.shape, dtype=out.dtype, device=out.device)
            self._write(flat, tuple(copies), values)
            out.copy_(flat)
            return
        device = out.device.index or 0
        form, (groups, rows, each, tiles) = tensors.plan(math.prod(sizes[:-1]), sizes[-1], False, device)
        dtypes = [v.dtype for v in views]
        key = (device, form.name, out.dtype, compute, len(sizes), *dtypes)
        launch = self._launcher(key, device, lambda: self._block(form, out.dtype, dtypes, compute, len(sizes)))
        launch(groups, out, *views, *values, rows, each, tiles, *sizes, *itertools.chain(*strides))

    def _block(
        self, form: Form, result: torch.dtype, dtypes: list[torch.dtype], compute: torch.dtype, dims: int
    ) -> Kernel:
        names = [p.name for p in self.operands]
        fields = tensors.fields(result, dict(zip(names, dtypes, strict=True)), self.scalars)
        fields += [*map(number, ("rows", "each", "tiles")), number("size", count=dims)]
        fields += [number(f"step_{n}", count=dims) for n in ("out", *names)]
        head = f"{self.name}({self._declared})"
        own = printer.function(head, compute_type(result), self._expression, "xpu::convert")
        scalars = [s.field.value for s in self.scalars]

        def element(load: Callable[[str], Expr]) -> Expr:
            return call(self.name, *(call(f"xpu::convert<{p.ctype}>", load(p.name)) for p in self.operands), *scalars)

        body = nests.pointwise(form, dims, names, element)
        before = printer.preface(self._preamble, compute_type(compute)) + own
        return Kernel(f"{self.name}_kernel", tuple(fields), body, before, form.items)


def _joined(out: torch.Tensor, views: list[torch.Tensor]) -> tuple[list[int], list[list[int]]]:
    """Sizes and the strides of each tensor, by falling stride of the result, neighbours joined where all allow it."""
    every = [out, *views]
    joined: list[tuple[int, list[int]]] = []  # of the dimensions so far: the size, the stride of each tensor
    for d in sorted(range(out.dim()), key=out.stride, reverse=True):
        size, strides = out.shape[d], [t.stride(d) for t in every]
        if size == 1:
            continue
        if joined and joined[-1][1] == [s * size for s in strides]:
            size *= joined.pop()[0]
        joined.append((size, strides))
    if not joined:
        return [1], [[1] for _ in every]
    return [size for size, _ in joined], [[strides[i] for _, strides in joined] for i in range(len(every))]


def elementwise(
    name: str, parameters: str, expression: str, *, result: torch.dtype | None = None, preamble: str = ""
) -> Elementwise:
    """Make an element-wise operator of a C++ expression.

    Args:
        name: a C++ identifier.
        parameters: "float a, float b, float alpha = 1": tensors first, then numbers, which have defaults and are given by
            keyword. An element is converted to its parameter's type; T is the type that the promoted dtype is computed
            in (float for half and bfloat16).
        expression: of these names; the functions of kernels/sycl/math/math.hpp are there (xpu::exp, xpu::gelu_erf, ...).
        result: dtype of the result; by default what torch promotes the tensors to, integers to float where a parameter
            is a float.
        preamble: C++ in front, for functions that the expression calls.

    Returns:
        A callable over tensors of shapes that broadcast, any strides, real dtypes. It compiles for each combination of
        dtypes at its first use.

    Raises:
        ValueError: where a parameter cannot be read. CompileError at the first call where the expression has an error.

    Source: as CuPy's ElementwiseKernel; the types follow at::result_type.
    """
    return Elementwise(name, parameters, expression, result, preamble)
