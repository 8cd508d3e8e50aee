"""Accuracy of pointwise functions (tools/accuracy.py, docs/accuracy.md)."""

from __future__ import annotations

import pytest
import torch

from tools import accuracy

FUNCTIONS = {name: (op, rest, types) for name, op, rest, types in accuracy.functions()}


@pytest.mark.parametrize("type_name", ["f16", "bf16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sixteen_bits_are_rounded_once(name: str, type_name: str) -> None:
    """Functions compute in float32: over all numbers of a type the result is the exact one rounded, or no worse than torch's CPU."""
    op, rest, types = FUNCTIONS[name]
    if type_name not in types:
        return
    error = accuracy.measured(op, rest, accuracy.TYPES[type_name])
    assert error.units <= max(0.51, 1.001 * error.cpu), error


def test_errors_are_found() -> None:
    """The measure itself: one unit more than the exact result is an error of one unit."""

    def off(x: torch.Tensor, factor: float) -> torch.Tensor:
        if x.device.type != "xpu":
            return x * 1.0
        return torch.nextafter(x.cpu(), torch.full_like(x.cpu(), torch.inf))

    error = accuracy.measured(off, [1.0], torch.float32)
    assert error.units == 1.0 and error.cpu == 0.0


def test_the_page_has_a_row_for_each_function_that_is_not_exact() -> None:
    text = (accuracy.Path(accuracy.__file__).parents[1] / "docs/accuracy.md").read_text()
    begin, end = (text.index(m) for m in accuracy.MARKS)
    named = text[begin:end]
    assert not [n for n in FUNCTIONS if n not in named]
