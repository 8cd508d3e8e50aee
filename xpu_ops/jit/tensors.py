"""Parts of elementwise and reduction kernels: operands, their types, registration as operators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from xpu_ops.block import printer
from xpu_ops.block.device import policy
from xpu_ops.block.ir import Kernel
from xpu_ops.block.nests import Form, Problem, choose
from xpu_ops.block.parameters import Field, pointer
from xpu_ops.block.types import memory_type
from xpu_ops.jit import service
from xpu_ops.jit.signature import BITS, DTYPES, SCALARS, Parameter, parse

GENERIC = "T"  # the type that the promoted dtype is computed in


@functools.lru_cache(4096)
def plan(rows: int, length: int, reduce: bool, device: int) -> tuple[Form, tuple[int, int, int, int]]:
    """The form of a kernel for so many rows, and its numbers (Form.numbers)."""
    problem = Problem(rows, length, reduce)
    form = choose(problem, policy(device))
    return form, form.numbers(problem)


def operands_and_scalars(declarations: str, name: str) -> tuple[list[Parameter], list[Parameter]]:
    """Tensor operands, then numbers with a default: "float a, T b, float alpha = 1".

    Raises:
        ValueError: where there is no operand or a declaration does not fit.
    """
    parameters = parse(declarations, name, extra_types=(GENERIC, "half", "bf16"))
    if late := next((p for p in parameters if p.pointer), None):
        raise ValueError(f"{name}: parameter {late.name} is a pointer; elements are passed by value")
    operands = [p for p in parameters if not p.has_default]
    scalars = [p for p in parameters if p.has_default]
    if not operands:
        raise ValueError(f"{name}: at least one parameter without a default is needed: the tensors")
    if late := next((p for p in parameters[len(operands) :] if not p.has_default), None):
        raise ValueError(f"{name}: parameter {late.name} without a default comes after one with a default")
    if typed := next((p for p in scalars if p.ctype not in SCALARS), None):
        raise ValueError(f"{name}: parameter {typed.name} has the type {typed.ctype}; numbers are {', '.join(SCALARS)}")
    return operands, scalars


def fields(result: torch.dtype, operands: Mapping[str, torch.dtype], scalars: Sequence[Parameter]) -> list[Field]:
    """Of a kernel: pointers to the result and the operands, ptr_out and ptr_NAME, and numbers."""
    pointers = [pointer(f"ptr_{name}", memory_type(dtype), True) for name, dtype in operands.items()]
    return [pointer("ptr_out", memory_type(result)), *pointers, *(s.field for s in scalars)]


def check_tensor(name: str, p: Parameter, t: object) -> None:
    """Raises TypeError or ValueError for what is no dense tensor of an XPU device."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"{name}: argument {p.name} must be a tensor, not {type(t).__name__}")
    if t.device.type != "xpu":
        raise ValueError(f"{name}: argument {p.name} must be on an XPU device, not on {t.device}")
    if t.layout != torch.strided or t.is_nested:
        raise TypeError(
            f"{name}: argument {p.name} must be a dense tensor, not {'nested' if t.is_nested else t.layout}"
        )


def check_number(name: str, p: Parameter, value: object) -> None:
    """Raises TypeError for what is no number of the parameter's kind, ValueError for one that its type cannot hold."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name}: argument {p.name} must be a number, not {type(value).__name__}")
    if p.field.letter != "i":
        return
    if not isinstance(value, int):
        raise TypeError(f"{name}: argument {p.name} must be an integer, not {type(value).__name__}")
    high = 1 << BITS.get(p.ctype, 64) - 1
    if not -high <= value < high:
        raise ValueError(f"{name}: argument {p.name} is {value}, which {p.ctype} cannot hold")


class Operator:
    """The part of both kinds: name, operands, numbers, the launches that are compiled already."""

    _after_tensors = ""  # arguments of a registered operator between its tensors and its numbers

    def __init__(self, name: str, parameters: str, result: torch.dtype | None, preamble: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"the name of a kernel must be a C++ identifier, not {name!r}")
        self.name, self._result, self._preamble = name, result, preamble
        self.operands, self.scalars = operands_and_scalars(parameters, name)
        self._declared = ", ".join(f"{p.ctype} {p.name}" for p in (*self.operands, *self.scalars))
        self._launch: dict[tuple[object, ...], Callable[..., None]] = {}

    def register(
        self,
        qualified_name: str,
        backward: Callable[..., Any] | None = None,
        setup_context: Callable[..., Any] | None = None,
    ) -> Any:
        """Define the operator `namespace::name` of torch.library, for autograd and torch.compile.

        Args:
            qualified_name: such as "mylib::gelu_mul".
            backward, setup_context: as for torch.library.register_autograd; without them there is no gradient.

        Returns:
            The operator; calling it is the same as `torch.ops.mylib.gelu_mul`. That of a reduction takes
            `int[]? dim=None, bool keepdim=False` after the tensors.
        """
        op = torch.library.custom_op(
            qualified_name, self._run, mutates_args=(), device_types="xpu", schema=self._schema()
        )
        op.register_fake(self._fake)
        if backward is not None:
            op.register_autograd(backward, setup_context=setup_context)
        return op

    def _run(self, *args: Any, **scalars: Any) -> torch.Tensor:
        """The registered operator."""
        raise NotImplementedError

    def _fake(self, *args: Any, **scalars: Any) -> torch.Tensor:
        """An empty result."""
        raise NotImplementedError

    def _schema(self) -> str:
        types = ("bool" if p.ctype == "bool" else "int" if p.field.letter == "i" else "float" for p in self.scalars)
        keywords = [f"{t} {p.name}={p.default}" for t, p in zip(types, self.scalars, strict=True)]
        tail = filter(None, [self._after_tensors, "*" if keywords else "", *keywords])
        return f"({', '.join([*(f'Tensor {p.name}' for p in self.operands), *tail])}) -> Tensor"

    def _launcher(self, key: tuple[object, ...], device: int, make: Callable[[], Kernel]) -> Callable[..., None]:
        launch = self._launch.get(key)
        if launch is None:
            kernel = make()
            (launch,) = service.load(printer.source(kernel), [service.spec(kernel)], device)
            self._launch[key] = launch
        return launch

    def _checked(self, tensors: tuple[Any, ...], given: dict[str, Any]) -> list[Any]:
        """The numbers in the order of their parameters, with the defaults.

        Raises:
            TypeError, ValueError: for an argument that no kernel takes; the message names it.
        """
        if len(tensors) != len(self.operands):
            raise TypeError(f"{self.name}: expected {len(self.operands)} tensors, got {len(tensors)}")
        for p, t in zip(self.operands, tensors, strict=True):
            check_tensor(self.name, p, t)
            argument = f"{self.name}: argument {p.name}"
            if t.dtype not in DTYPES:
                raise TypeError(f"{argument} has the dtype {t.dtype}, which these kernels do not take")
            if t.device != tensors[0].device:
                raise ValueError(f"{argument} is on {t.device}, the first one on {tensors[0].device}")
        if unknown := set(given) - {p.name for p in self.scalars}:
            raise TypeError(f"{self.name}: unknown argument {sorted(unknown)[0]}")
        values = [given.get(p.name, p.default) for p in self.scalars]
        for p, v in zip(self.scalars, values, strict=True):
            check_number(self.name, p, v)
        return values

    def _dtypes(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.dtype, torch.dtype]:
        """Of values and of the result, as torch promotes: integers to float where a parameter is."""
        floats = any(p.ctype in ("float", "double") for p in self.operands)
        kind = Kind.INT_TO_FLOAT if floats else Kind.DEFAULT
        compute, result = elementwise_dtypes(*tensors, type_promotion_kind=kind)
        return compute, self._result or result
