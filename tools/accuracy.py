"""python -m tools.accuracy [--page docs/accuracy.md] [NAME ...]: errors of pointwise functions in units of the last place.

Every float16 and bfloat16 number, and float32 numbers of every exponent at even distances of their bits, against torch's
CPU in float64. Results that are subnormal in float64's view are left out. torch's CPU in the type itself stands beside.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tools.doc_tables import filled, marks
from xpu_ops._paths import manifest

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
STEP = 4099  # between the bits of float32 inputs: a million of them
WRITER = "python -m tools.accuracy --page"
MARKS = marks("accuracy", WRITER)


@dataclass
class Error:
    """The largest error of one function and type: units in the last place, where, and that of torch's CPU."""

    units: float
    at: float
    cpu: float
    classes: int  # results that are NaN or infinite where the reference is a number, or the reverse


def inputs(dtype: torch.dtype) -> torch.Tensor:
    """Numbers of every exponent and both signs, and multiples of pi / 2 where there is room for them."""
    if dtype != torch.float32:
        return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    bits = torch.arange(-(1 << 31), 1 << 31, STEP).to(torch.int32).view(dtype)
    turns = (torch.arange(-4096, 4097, dtype=torch.float64) * (math.pi / 2)).float()
    return torch.cat([bits, turns, torch.arange(-4096, 4097).float()])


def _worst(actual: torch.Tensor, exact: torch.Tensor, x: torch.Tensor) -> tuple[float, float, int]:
    info = torch.finfo(actual.dtype)
    rounded, wide = exact.to(actual.dtype), actual.double()
    other = int((rounded.isfinite() != actual.isfinite()).sum())
    kept = rounded.isfinite() & actual.isfinite() & (exact.abs() >= info.tiny)
    if not bool(kept.any()):
        return 0.0, 0.0, other
    # The distance of numbers with the exponent of the exact result.
    unit = torch.exp2(torch.floor(torch.log2(exact[kept].abs()))) * info.eps
    error = (wide[kept] - exact[kept]).abs() / unit
    worst = int(error.argmax())
    return float(error[worst]), float(x[kept][worst]), other


def measured(op: Any, args: list[Any], dtype: torch.dtype) -> Error:
    """The errors of `op(x, *args)` over the inputs of a type."""
    x = inputs(dtype)
    exact = op(x.double(), *args)
    units, at, classes = _worst(op(x.to("xpu"), *args).cpu(), exact, x)
    return Error(units, at, _worst(op(x, *args), exact, x)[0], classes)


def functions() -> Iterator[tuple[str, Any, list[Any], list[str]]]:
    """Name, overload, further arguments and types of each pointwise row of one floating tensor."""
    for row in manifest()["rows"]:
        types = [t for t in TYPES if t in row["types"]]
        if row["kind"] != "pointwise" or not types or not row["deterministic"] or row["key"] != "XPU":
            continue
        if "::" in row["functional"] or row["functional"].startswith("_foreach"):
            continue
        base, _, overload = row["functional"].partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        given = [a for a in op._schema.arguments if not a.is_out]
        if len(op._schema.returns) != 1 or [str(a.type) for a in given].count("Tensor") != 1:
            continue
        rest, sample = [], row["test"]["sample"]
        for a in given[1:]:
            value = sample.get(a.name, a.default_value if a.has_default_value() else None)
            rest.append(value[0] if isinstance(value, list) and value else value)
        try:
            result = op(torch.ones(2), *rest)
        except (RuntimeError, TypeError):  # it needs an argument that has no default
            continue
        if result.is_floating_point() and result.shape == (2,):
            yield row["functional"], op, rest, types


def _figure(units: float) -> str:
    return f"{units:.2f}" if units < 1000 else f"{units:.1e}"


def table(names: list[str]) -> str:
    """Functions whose result is not always the exact one rounded, in rows; the others in a line below."""
    lines = [
        "| function | f32 | at | torch CPU | f16 | torch CPU | bf16 | torch CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rounded, unlike = [], []
    for name, op, rest, types in functions():
        if names and name not in names:
            continue
        errors = {t: measured(op, rest, TYPES[t]) for t in types}
        unlike += [f"{name} {t}: {e.classes}" for t, e in errors.items() if e.classes]
        if all(e.units <= 0.5 for e in errors.values()):
            rounded.append(name)
            continue
        cells = [name]
        for t in TYPES:
            e = errors.get(t)
            cells += [
                _figure(e.units) if e else "",
                *([f"{e.at:.9g}" if e else ""] if t == "f32" else []),
                _figure(e.cpu) if e else "",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + f"\n\nRounded exactly in every type ({len(rounded)}): {', '.join(rounded)}.\n"
    if unlike:
        text += f"\nNaN or infinity where float64 gives a number of the type, or the reverse: {', '.join(unlike)}.\n"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--page", type=Path, help="write the table between the marks of this page")
    given = parser.parse_args()
    text = table(given.names)
    if given.page is None:
        print(text)
        return
    given.page.write_text(filled(given.page.read_text(), "accuracy", text, WRITER))


if __name__ == "__main__":
    main()
