"""Element types as the manifest names them, read from the table that codegen wrote (tools/codegen/types.py)."""

from __future__ import annotations

from functools import cache

from ._paths import manifest


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
    table: list[dict[str, str]] = manifest()["types"]
    return table
