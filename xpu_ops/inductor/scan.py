"""Scans by a function of the program, torch's associative_scan. Those that ATen has (cumsum and its kin) stay operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor.codegen.common import CSEVariable

from xpu_ops.block import ir, printer
from xpu_ops.block.ir import Expr
from xpu_ops.block.types import compute_type

if TYPE_CHECKING:
    from xpu_ops.inductor.kernel import SyclKernel


class Scan:
    """One scan of a kernel: the struct of its values, the function, the place of what is carried."""

    def __init__(self, kernel: SyclKernel, number: int, dtypes: Sequence[torch.dtype]) -> None:
        self._kernel, self._number, self._dtypes = kernel, number, dtypes
        self._ctypes = [compute_type(t) for t in dtypes]
        self.struct, self.carry = f"KERNEL_NAME_scan{number}", f"carry{number}"

    def declaration(self) -> list[str]:
        """In front of the kernel: member templates and functions that others call."""
        return printer.carried(self.struct, [(ctype, f"f{i}") for i, ctype in enumerate(self._ctypes)])

    def _value(self, values: Sequence[CSEVariable]) -> Expr:
        fields = (f"static_cast<{c}>({v})" for c, v in zip(self._ctypes, values, strict=True))
        return Expr(f"{self.struct}{{{', '.join(fields)}}}", "struct", tuple(ir.name(str(v)) for v in values))

    def _function(self, name: str, combine: Callable[..., Any]) -> ir.Node:
        kernel = self._kernel
        body: list[ir.Node] = []
        with kernel.swap_buffers(body):
            sides = []
            for side in ("a", "b"):
                named = [kernel.cse.newvar(dtype=t) for t in self._dtypes]
                for i, (ctype, var) in enumerate(zip(self._ctypes, named, strict=True)):
                    field = Expr(f"{side}.f{i}", "field", (side, i))
                    body.append(ir.Let(str(var), f"const {ctype}", field, cast=False))
                sides.append(tuple(named))
            result = self._value(combine(*sides))
        return ir.Function(name, self.struct, tuple(body), result)

    def write(self, combine: Callable[..., Any], values: Sequence[CSEVariable]) -> list[CSEVariable]:
        """The results, in the loop over the scanned range that is being written."""
        kernel, scan, function = self._kernel, f"scan{self._number}", f"combine{self._number}"
        kernel.compute.append(self._function(function, combine))
        kernel.compute.append(ir.ScanStep(scan, self.carry, self._value(values), function))
        fields = (Expr(f"{scan}.f{i}", "field", (ir.name(scan), i)) for i in range(len(self._dtypes)))
        return [kernel.cse.generate(kernel.compute, f, dtype=t) for f, t in zip(fields, self._dtypes, strict=True)]
