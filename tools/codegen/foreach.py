"""Multi-tensor operators: every overload of a row in terms of one kernel over the row's expression."""

from __future__ import annotations

from torchgen.model import SchemaKind

from .model import ForeachKernel, Operator
from .torch_ops import Overload


def kernel_text(kernel: ForeachKernel, name: str, functor: str) -> str:
    return f"XPU_KERNEL(1) {name}(xpu_ops::{kernel.args} p) {{ foreach_pointwise<{functor}>(p); }}"


def op_definition(kernel: ForeachKernel, promotes: bool) -> str:
    """The constant that host code launches by."""
    inputs = len(kernel.base.inputs)
    flag = str(promotes).lower()
    return f'const ForeachOp k_{kernel.name}{{"{kernel.name}", {inputs}, {flag}, kernels::{kernel.name}}};'


def call_arguments(kernel: ForeachKernel, o: Overload) -> tuple[list[str], str]:
    """The operands of the kernel and its scalar, by what the overload's arguments are.

    Lists of tensors are operands. A scalar is the operand that is missing, else the expression's own scalar.
    """
    operands, scalar = [], "at::Scalar(1)"
    lists = sum(a.schema_type == "Tensor[]" for a in o.args)
    missing = len(kernel.base.inputs) - lists
    for a in o.args:
        if a.schema_type == "Tensor[]":
            operands.append(a.name)
        elif missing > 0:
            operands.append(a.name)
            missing -= 1
        else:
            scalar = a.name
    return operands, scalar


def body(op: Operator, o: Overload) -> list[str]:
    """The fast path, and torch's own composition where it does not apply."""
    assert op.foreach is not None
    operands, scalar = call_arguments(op.foreach, o)
    names, slow = ", ".join(a.name for a in o.args), op.composite[o.name]
    call = f"foreach_pointwise(k_{op.foreach.name}, {{{', '.join(operands)}}}, {scalar}"
    if o.kind == SchemaKind.inplace:
        return [f"if (!{call}, nullptr)) at::native::{slow}({names});"]
    return [
        "std::vector<at::Tensor> result;",
        f"if ({call}, &result)) return result;",
        f"return at::native::{slow}({names});",
    ]
