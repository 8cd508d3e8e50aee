"""Parameter lists of user-written kernels: C++ declarations to names and types."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

import torch

POINTED: dict[str, torch.dtype | None] = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bf16": torch.bfloat16,
    "bool": torch.bool,
    "int8_t": torch.int8,
    "uint8_t": torch.uint8,
    "int16_t": torch.int16,
    "int32_t": torch.int32,
    "int": torch.int32,
    "int64_t": torch.int64,
    "long": torch.int64,
    "void": None,
}
CTYPES = {dtype: name for name, dtype in reversed(POINTED.items()) if dtype is not None}
_SCALARS = {"float": "f", "double": "d", "bool": "i", "int": "i", "int32_t": "i", "int64_t": "i", "long": "i"}
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
    def letter(self) -> str:
        return "p" if self.pointer else _SCALARS[self.ctype]

    @property
    def field(self) -> str:
        """The declaration of a field of 8 bytes."""
        if self.pointer:
            return f"{'const ' if self.const else ''}{self.ctype}* {self.name};"
        kind = {"f": "float", "d": "double", "i": "int64_t"}[self.letter]
        return f"alignas(8) {kind} {self.name};"

    @property
    def dtype(self) -> torch.dtype | None:
        """The type of the tensor that the pointer takes; None where any will do."""
        return POINTED[self.ctype]


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
        known = POINTED if pointer else {**_SCALARS, **dict.fromkeys(extra_types)}
        if ctype not in known:
            raise ValueError(f"{kernel}: parameter {found['name']} has the type {ctype}; known are {', '.join(known)}")
        value = ast.literal_eval(default.rstrip("fF") if default[-1:] in "fF" else default) if default else None
        parameters.append(Parameter(found["name"], ctype, pointer, bool(found["const"]), value, bool(default)))
    names = [p.name for p in parameters]
    if duplicate := next((n for n in names if names.count(n) > 1), None):
        raise ValueError(f"{kernel}: two parameters are named {duplicate}")
    return parameters
