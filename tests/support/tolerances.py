"""Widened tolerances of single operators, from tests/known_failures.yaml's neighbour tests/tolerances.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
import yaml


@cache
def _table() -> dict[str, dict[str, list[float]]]:
    path = Path(__file__).resolve().parents[1] / "tolerances.yaml"
    return yaml.safe_load(path.read_text()) or {}


def opinfo_tolerance(name: str, dtype: torch.dtype) -> tuple[float, float] | None:
    """(rtol, atol) of an operator for a dtype, None for the usual ones."""
    entry = _table().get(name, {})
    values = entry.get(str(dtype).removeprefix("torch."))
    return (values[0], values[1]) if values else None
