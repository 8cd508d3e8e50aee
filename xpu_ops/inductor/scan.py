"""Scans by a function of the program, torch's associative_scan. Those that ATen has (cumsum and its kin) stay operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer

from xpu_ops.block.types import compute_type

if TYPE_CHECKING:
    from xpu_ops.inductor.forms import Form
    from xpu_ops.inductor.kernel import SyclKernel


class Carried:
    """The value of a scan so far; a column has its own, in the form that is chosen last."""

    def __init__(self, name: str) -> None:
        self._name = name

    def text(self, form: Form) -> str:
        return f"{self._name}[{'j' if form.column_slots else '0'}]"


class Scan:
    """One scan of a kernel: the struct of its values, the function, the place of what is carried."""

    def __init__(self, kernel: SyclKernel, number: int, dtypes: Sequence[torch.dtype]) -> None:
        self._kernel, self._number, self._dtypes = kernel, number, dtypes
        self._ctypes = [compute_type(t) for t in dtypes]
        self.struct, self.carry = f"KERNEL_NAME_scan{number}", f"carry{number}"

    def declaration(self) -> list[str]:
        """In front of the kernel: member templates and functions that others call."""
        fields = [f"f{i}" for i in range(len(self._ctypes))]
        others = ", ".join(f"other_lane({f}, m)" for f in fields)
        return [
            f"struct {self.struct} {{",
            *(f"{ctype} {field};" for ctype, field in zip(self._ctypes, fields, strict=True)),
            f"GEN_FN {self.struct} other(uint32_t m) const {{ return {{{others}}}; }}",
            "};",
        ]

    def _value(self, values: Sequence[Any]) -> str:
        fields = (f"static_cast<{c}>({v})" for c, v in zip(self._ctypes, values, strict=True))
        return f"{self.struct}{{{', '.join(fields)}}}"

    def _function(self, combine: Callable[..., Any]) -> list[str]:
        kernel, text = self._kernel, IndentedBuffer()
        with kernel.swap_buffers(text), text.indent():
            sides = []
            for side in ("a", "b"):
                named = [kernel.cse.newvar(dtype=t) for t in self._dtypes]
                for i, (ctype, var) in enumerate(zip(self._ctypes, named, strict=True)):
                    text.writeline(f"const {ctype} {var} = {side}.f{i};")
                sides.append(tuple(named))
            text.writeline(f"return {self._value(combine(*sides))};")
        head = f"const auto combine{self._number} = [&]({self.struct} a, {self.struct} b) GEN_INLINE {{"
        return [head, *text.getvalue().splitlines(), "};"]

    def write(self, combine: Callable[..., Any], values: Sequence[CSEVariable], token: str) -> list[CSEVariable]:
        """The results, in the loop over the scanned range that is being written."""
        kernel, n = self._kernel, self._number
        kernel.compute.writelines(self._function(combine))
        step = "scan_lanes" if kernel.form.across else "scan_next"
        lane = "lane, " if kernel.form.across else ""
        kernel.compute.writeline(f"const auto scan{n} = {step}({token}, {self._value(values)}, {lane}combine{n});")
        return [
            kernel.cse.generate(kernel.compute, f"scan{n}.f{i}", dtype=dtype) for i, dtype in enumerate(self._dtypes)
        ]
