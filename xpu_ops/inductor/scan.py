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
        return ir.struct(self.struct, *(ir.cast(c, str(v)) for c, v in zip(self._ctypes, values, strict=True)))

    def _function(self, name: str, combine: Callable[..., Any]) -> ir.Node:
        kernel = self._kernel
        body: list[ir.Node] = []
        with kernel.swap_buffers(body):
            sides = []
            for side in ("a", "b"):
                named = [kernel.cse.newvar(dtype=t) for t in self._dtypes]
                for i, (ctype, var) in enumerate(zip(self._ctypes, named, strict=True)):
                    body.append(ir.Let(str(var), f"const {ctype}", ir.member(side, f"f{i}")))
                sides.append(tuple(named))
            result = self._value(combine(*sides))
        return ir.Function(name, (f"{self.struct} a", f"{self.struct} b"), tuple(body), result)

    def write(self, combine: Callable[..., Any], values: Sequence[CSEVariable]) -> list[CSEVariable]:
        """The results, in the loop over the scanned range that is being written."""
        kernel, scan, function = self._kernel, f"scan{self._number}", f"combine{self._number}"
        kernel.compute.append(self._function(function, combine))
        kernel.compute.append(ir.ScanStep(scan, self.carry, self._value(values), function))
        fields = ((ir.member(scan, f"f{i}"), t) for i, t in enumerate(self._dtypes))
        return [kernel.cse.generate(kernel.compute, field, dtype=t) for field, t in fields]
