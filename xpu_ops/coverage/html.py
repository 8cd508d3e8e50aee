"""The document as one page that needs no network and no other file: page.html with the JSON in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .report import SETS, VERDICTS

# Columns of the heat map; what no row knows is left out.
DTYPES = (
    "f32", "bf16", "f16", "f64", "i64", "i32", "i16", "i8", "u8", "b8", "c64", "c128", "c32", "u16", "u32", "u64",
    "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu",
)  # fmt: skip


def dtypes_of(document: dict[str, Any]) -> list[str]:
    """The element types that a kernel is registered for or a recording has seen."""
    known: set[str] = set()
    for row in document["overloads"]:
        known.update(row["types"])
        known.update((row["evidence"] or {"dtypes": ()})["dtypes"])
    return [d for d in DTYPES if d in known]


def page(document: dict[str, Any], traces: list[dict[str, Any]]) -> str:
    """The page.

    Args:
        document: of :func:`xpu_ops.coverage.report.build`.
        traces: of :meth:`Trace.as_dict`, each with a "name".
    """
    data = {
        "document": document,
        "traces": traces,
        "dtypes": dtypes_of(document),
        "sets": list(SETS.items()),
        "verdicts": VERDICTS,
    }
    # "</" would end the script element.
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return (Path(__file__).parent / "page.html").read_text().replace("__DATA__", text)
