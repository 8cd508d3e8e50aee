"""Writes manifest.json: what tests, benchmarks and the coverage report read."""

from __future__ import annotations

from typing import Any

from .device import custom_instances
from .model import Family, functional_of
from .types import TYPES


def types() -> list[dict[str, str]]:
    """Element types that torch has, by name in kernels, in torch and in torch's messages."""
    return [{"name": t.name, "torch": t.torch, "scalar": t.scalar} for t in TYPES.values() if t.torch]


def rows(families: list[Family]) -> list[dict[str, Any]]:
    """One entry an operator row."""
    out: list[dict[str, Any]] = []
    for family in families:
        for op in family.operators:
            row = op.row
            types = list(dict.fromkeys(t for k in op.pointwise.values() for t in k.exprs))
            if not types:
                tuples = [types for k in row.kernels for _, types, _ in custom_instances(k)]
                types = list(dict.fromkeys(t.name for tt in tuples for t in tt))
            out.append(
                {
                    "family": family.name,
                    "op": row.op,
                    "functional": functional_of(op).name,
                    "overloads": [o.name for o in op.overloads],
                    "key": op.key,
                    "kind": "pointwise" if op.pointwise and not op.row.schemas else "adapter",
                    "by": "composite" if row.shared else row.by,
                    "types": types,
                    "scalars": row.scalars,
                    "inputs": row.inputs,
                    "deterministic": row.deterministic,
                    "test": row.test.model_dump(),
                    "note": row.note,
                }
            )
    return out
