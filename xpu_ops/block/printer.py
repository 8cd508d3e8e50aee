"""The C++ of kernels that are made at run time: the argument struct, the head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xpu_ops.block.parameters import Field
from xpu_ops.block.types import LANES


def struct(name: str, fields: Sequence[Field], before: Sequence[str] = ()) -> list[str]:
    """The argument struct of a kernel; `before` are members in front of the fields."""
    return [f"struct {name}_args {{", *(f"  {b}" for b in before), *(f"  {f.declaration}" for f in fields), "};"]


def head(name: str, lanes: int | None = LANES, mark: str = "") -> str:
    """The first line of a kernel: of sub-groups of `lanes` items, or of items that exchange nothing."""
    attribute = "XPU_KERNEL(1)" if lanes is None else f"XPU_KERNEL_SG(1, {lanes})"
    return f"{attribute} {mark}{name}({name}_args p) {{"


def kernel(
    name: str,
    fields: Sequence[Field],
    body: Iterable[str],
    *,
    lanes: int | None = LANES,
    before: Sequence[str] = (),
    mark: str = "",
) -> str:
    """The argument struct and the kernel around `body`, which reads the fields as p.NAME."""
    lines = [*struct(name, fields, before), head(name, lanes, mark), *(f"  {line}" for line in body), "}", ""]
    return "\n".join(lines)
