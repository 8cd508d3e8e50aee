"""The parameters of a kernel: one struct of 8-byte fields, and one letter per argument of a call (KernelSpec.signature)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# The letter of KernelSpec.signature -> the type in the struct. Pointers keep theirs.
_STORED = {"i": "int64_t", "f": "float", "d": "double"}
_LETTERS = {"float": "f", "half": "f", "bf16": "f", "double": "d"}
REPORTS = "error"  # the name of the error record in a kernel


@dataclass(frozen=True)
class Field:
    """A field of a kernel's argument struct: 8 bytes, or an array of such.

    `ctype` is the type of the value in the kernel. `letter` is "" where the service adds the value itself.
    """

    name: str
    ctype: str
    letter: str
    count: int = 0  # elements of an array

    @property
    def stored(self) -> str:
        """The type in the struct."""
        return _STORED.get(self.letter, self.ctype)

    @property
    def declaration(self) -> str:
        array = f"[{self.count}]" if self.count else ""
        return f"alignas(8) {self.stored} {self.name}{array};"

    @property
    def value(self) -> str:
        """Of the struct `p`, with the kernel's type."""
        return f"p.{self.name}" if self.stored == self.ctype else f"static_cast<{self.ctype}>(p.{self.name})"


def pointer(name: str, ctype: str, const: bool = False) -> Field:
    """The address of elements of that type."""
    return Field(name, f"{'const ' if const else ''}{ctype}*", "p")


def number(name: str, ctype: str = "int64_t", count: int = 0) -> Field:
    """A float, double or integer, or an array of integers."""
    return Field(name, ctype, _LETTERS.get(ctype, "i"), count)


def reports(messages: int) -> list[Field]:
    """Fields that the service fills for a kernel that may report so many texts."""
    if messages == 0:
        return []
    return [Field(REPORTS, "xpu::DeviceError*", ""), *(Field(f"text{i}", "int64_t", "") for i in range(messages))]


def signature(fields: Iterable[Field]) -> str:
    """The letters of the call's arguments, one per element of an array."""
    return "".join(f.letter * max(f.count, 1) for f in fields)


def values(fields: Iterable[Field]) -> list[str]:
    """The fields as constants of the kernel."""
    return [f"{f.ctype} const {f.name} = {f.value};" for f in fields if not f.count]
