"""The document as one page that needs no network and no other file: page.html with the JSON in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .._dtypes import names
from .report import SETS, VERDICTS


def dtypes_of(document: dict[str, Any]) -> list[str]:
    """The element types that a kernel is registered for or a recording has seen."""
    known: set[str] = set()
    for row in document["overloads"]:
        known.update(row["types"])
        known.update((row["evidence"] or {"dtypes": ()})["dtypes"])
    return [d for d in names() if d in known]


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
