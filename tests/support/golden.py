"""Texts that a reviewer reads as they change: files beside the tests, which `make golden` rewrites."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "block" / "golden"


def check(name: str, text: str) -> None:
    """Compare with the file of that name."""
    path = FOLDER / name
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    changes = "\n".join(
        difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "written", lineterm="")
    )
    assert not changes, f"{path.name} is written in another way; `make golden` takes it over:\n{changes}"
