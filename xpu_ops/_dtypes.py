"""Element types as the manifest names them, read from the table that codegen wrote (tools/codegen/types.py)."""

from __future__ import annotations

import json
from functools import cache

from ._paths import release_dir


@cache
def names() -> dict[str, str]:
    """The manifest's name of each type -> torch's: {"f32": "float32"}."""
    return {t["name"]: t["torch"] for t in _table()}


@cache
def short_names() -> dict[str, str]:
    """The name in torch's messages (c10::toString) -> the manifest's: {"Float": "f32"}."""
    return {t["scalar"]: t["name"] for t in _table()}


@cache
def _table() -> list[dict[str, str]]:
    table: list[dict[str, str]] = json.loads((release_dir() / "manifest.json").read_text())["types"]
    return table
