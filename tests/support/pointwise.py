"""Draws the arguments of pointwise rows."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import torch

from support.compare import TOLERANCES
from support.drawing import shapes, views
from support.manifest import TORCH_TYPES

SCALARS = {"int": [0, 1, 2, 3, -1], "float": [0.5, 1.0, 2.0, -1.5], "bool": [True, False]}


def broadcast_shape(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`."""
    out = tuple(1 if draw(st.booleans()) and n != 1 and draw(st.booleans()) else n for n in shape)
    drop = draw(st.integers(0, len(shape))) if draw(st.booleans()) else 0
    return out[drop:]


def fixed_value(row: dict[str, Any], arg: Any, dtype: torch.dtype, draw: Any) -> Any:
    """A value for a non-tensor argument: the row's sample, the schema's default or a drawn number."""
    sample = row["test"]["sample"]
    if arg.name in sample:
        choice = sample[arg.name]
        return draw(st.sampled_from(choice)) if isinstance(choice, list) else choice
    kind = str(arg.type)
    if arg.has_default_value() and "number" not in kind and "Scalar" not in kind:
        return arg.default_value
    if "bool" in kind:
        return draw(st.booleans())
    if kind in ("int", "SymInt"):
        return draw(st.integers(0, 3))
    integral = not dtype.is_floating_point and not dtype.is_complex
    if kind == "float":
        return draw(st.sampled_from(SCALARS["float"]))
    return draw(
        st.sampled_from(SCALARS["int" if integral and dtype != torch.bool else "bool" if integral else "float"])
    )


def domain_of(row: dict[str, Any], position: int, name: str) -> Any:
    domain = row["test"]["domain"]
    if isinstance(domain, dict):
        return domain.get("abcdef"[position]) or domain.get(name)
    return domain


def tolerance(row: dict[str, Any], type_name: str) -> tuple[float, float] | None:
    tol = row["test"]["tol"].get(type_name)
    return (tol[0], tol[1]) if tol else TOLERANCES.get(TORCH_TYPES[type_name])


def build(draw: Any, row: dict[str, Any], schema: Any, dtype: torch.dtype) -> list[Any]:
    shape = draw(shapes)
    args: list[Any] = []
    halves = [name for name, kind in row["test"]["args"].items() if kind == "half"]
    position = 0
    for arg in schema.arguments:
        if arg.is_out:
            continue
        if str(arg.type) == "Tensor":
            fixed = row["inputs"].get(arg.name, "T") if "inputs" in row else "T"
            t = TORCH_TYPES.get({"bool": "b8"}.get(fixed, fixed), dtype)
            if halves:  # along the first dimension, which the row's sample names
                full = (2 * shape[0], *shape[1:]) if shape else shape
                this = shape if arg.name in halves else full
            else:
                this = shape if position == 0 else broadcast_shape(draw, shape)
            args.append(draw(views(this, t, domain_of(row, position, arg.name))))
            position += 1
        else:
            args.append(fixed_value(row, arg, dtype, draw))
    return args
