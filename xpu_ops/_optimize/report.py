"""The record of what :func:`xpu_ops.optimize` did to a model, and how to take it back."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclasses.dataclass
class Entry:
    """One module: its path in the model, its class, and the operators that serve it, or the reason why none does."""

    path: str
    kind: str
    text: str


@dataclasses.dataclass
class Report:
    """The modules that were replaced and left; `error` is the relative error of the example's outputs, None without one.

    Source: xpu_ops/_optimize, which fills it while it replaces modules.
    """

    replaced: list[Entry] = dataclasses.field(default_factory=list)
    left: list[Entry] = dataclasses.field(default_factory=list)
    error: float | None = None
    # Run in reverse by undo.
    steps: list[Callable[[], None]] = dataclasses.field(default_factory=list, repr=False)

    def __str__(self) -> str:
        lines = []
        for title, entries in (("replaced", self.replaced), ("left", self.left)):
            counts: dict[tuple[str, str], list[str]] = {}
            for e in entries:
                counts.setdefault((e.kind, e.text), []).append(e.path)
            lines.append(f"{title}: {len(entries)} modules")
            lines += [f"  {len(p)} x {kind}: {text} ({p[0] or 'the model'})" for (kind, text), p in counts.items()]
        if self.error is not None:
            lines.append(f"relative error of the example's outputs: {self.error:.2g}")
        return "\n".join(lines)
