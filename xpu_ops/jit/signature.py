"""Parameter lists of user-written kernels: C++ declarations to names and types."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

import torch

from xpu_ops.block.parameters import Field, number, pointer
from xpu_ops.block.types import ELEMENTS

_TAKEN = ("f32", "f64", "f16", "bf16", "b8", "i8", "u8", "i16", "i32", "i64")
DTYPES = tuple(getattr(torch, ELEMENTS[name].torch) for name in _TAKEN)  # of tensors
POINTED: dict[str, torch.dtype | None] = {
    **{ELEMENTS[name].cpp: dtype for name, dtype in zip(_TAKEN, DTYPES, strict=True)},
    "int": torch.int32,
    "long": torch.int64,
    "void": None,
}
SCALARS = ("float", "double", "bool", "int", "int32_t", "int64_t", "long")
BITS = {"int": 32, "int32_t": 32, "int64_t": 64, "long": 64}  # of the integers
_TRUTHS = {"true": True, "false": False}
_DECLARATION = re.compile(r"^(?P<const>const\s+)?(?P<type>[A-Za-z_]\w*)\s*(?P<star>\*)?\s*(?P<name>[A-Za-z_]\w*)$")


@dataclass(frozen=True)
class Parameter:
    """One parameter: a pointer (to `ctype`, written through unless `const`) or a scalar, maybe with a default."""

    name: str
    ctype: str
    pointer: bool
    const: bool
    default: Any = None
    has_default: bool = False

    @property
    def field(self) -> Field:
        """Its field in the argument struct."""
        return pointer(self.name, self.ctype, self.const) if self.pointer else number(self.name, self.ctype)

    @property
    def dtype(self) -> torch.dtype | None:
        """The type of the tensor that the pointer takes; None where any will do."""
        return POINTED[self.ctype]


def _default(text: str, what: str) -> bool | int | float:
    """The value of a C++ literal, such as 1e-3f, -2 or true."""
    if text in _TRUTHS:
        return _TRUTHS[text]
    try:
        value = ast.literal_eval(re.sub(r"(?<=[\d.])[fFlL]$", "", text))
    except (SyntaxError, ValueError):
        value = None
    if not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number, true or false, not {text!r}")
    return value


def parse(declarations: str, kernel: str, extra_types: tuple[str, ...] = ()) -> list[Parameter]:
    """Parameters from "const float* x, long n, float scale = 1".

    Raises:
        ValueError: where a declaration cannot be read or its type is not one that a kernel can take.
    """
    parameters = []
    for text in filter(None, (part.strip() for part in declarations.split(","))):
        declared, _, default = (s.strip() for s in text.partition("="))
        found = _DECLARATION.match(declared)
        if not found:
            raise ValueError(f"{kernel}: cannot read the parameter {text!r}; write it as 'const float* x' or 'long n'")
        ctype, pointer = found["type"], found["star"] is not None
        known = POINTED if pointer else (*SCALARS, *extra_types)
        if ctype not in known:
            raise ValueError(f"{kernel}: parameter {found['name']} has the type {ctype}; known are {', '.join(known)}")
        value = _default(default, f"{kernel}: the default of parameter {found['name']}") if default else None
        parameters.append(Parameter(found["name"], ctype, pointer, bool(found["const"]), value, bool(default)))
    names = [p.name for p in parameters]
    if duplicate := next((n for n in names if names.count(n) > 1), None):
        raise ValueError(f"{kernel}: two parameters are named {duplicate}")
    return parameters
