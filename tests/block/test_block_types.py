"""The table of element types against the manifest's and torch's, and literals by their value."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
import torch

from xpu_ops import _dtypes
from xpu_ops.block import types

BLOCK = Path(types.__file__).parent


def test_names_are_those_of_the_manifest() -> None:
    names = _dtypes.names()
    assert {e.name: e.torch for e in types.ELEMENTS.values()} == {n: names[n] for n in types.ELEMENTS}


@pytest.mark.parametrize("element", types.ELEMENTS.values(), ids=lambda e: e.name)
def test_sizes_and_bounds_are_torchs(element: types.Element) -> None:
    dtype = getattr(torch, element.torch)
    assert types.of(dtype) is element and dtype.itemsize == element.size
    assert dtype.is_floating_point == (element.kind == "float") and dtype.is_complex == (element.kind == "complex")
    if element.kind in ("int", "uint"):
        info = torch.iinfo(dtype)
        assert types.bound(element, above=False) == types.literal(info.min, element)
        assert types.bound(element, above=True) == types.literal(info.max, element)


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (1.0, "f32", "1.0f"),
        (1.0, "f16", "1.0f"),
        (1, "bf16", "1.0f"),
        (-0.0, "f32", "-0.0f"),
        (1e300, "f32", "__builtin_inff()"),
        (3.4028234e38, "f32", "3.4028234e+38f"),
        (3.4028235e38, "f32", "3.4028234663852886e+38f"),
        (-math.inf, "f64", "-__builtin_inf()"),
        (math.nan, "f32", '__builtin_nanf("")'),
        (0.1, "f64", "double(0.1)"),
        (True, "b8", "true"),
        (3, "i8", "int8_t(3L)"),
        (-(2**63), "i64", "(-9223372036854775807L - 1)"),
        (2**64 - 1, "u64", "uint64_t(18446744073709551615UL)"),
        (math.inf, "i16", "int16_t(32767L)"),
        (1 + 2j, "c64", "xpu::cplx<float>(1.0f, 2.0f)"),
    ],
)
def test_literals(value: complex, name: str, text: str) -> None:
    assert types.literal(value, types.ELEMENTS[name]) == text


def test_nothing_of_torch_or_of_a_front_end_is_imported() -> None:
    for path in BLOCK.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                modules = [a.name for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            wrong = ("torch", "triton", "xpu_ops.inductor", "xpu_ops.triton", "xpu_ops.jit")
            assert not [m for m in modules if m.startswith(wrong)], path
