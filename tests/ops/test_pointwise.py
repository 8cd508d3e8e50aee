"""Every pointwise row of the manifest against the CPU, on inputs that Hypothesis draws.

Shapes from 0-d to 5-d and empty, broadcasting, permuted, stepped, expanded and offset views, values with NaN, infinities,
subnormals and the edges of the row's domain.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from support.compare import assert_same, clone, cpu_refuses, narrowed, reference, to_device
from support.manifest import TORCH_TYPES, overload, rows
from support.pointwise import build, tolerance

import xpu_ops

ROWS = [r for r in rows() if r["kind"] == "pointwise"]
CASES = [pytest.param(r, t, id=f"{r['op']}-{t}") for r in ROWS for t in r["types"] if t not in r["test"]["skip_types"]]


@pytest.mark.parametrize(("row", "type_name"), CASES)
def test_values(row: dict[str, Any], type_name: str) -> None:
    op, dtype = overload(row["functional"]), TORCH_TYPES[type_name]
    inplace_first = op._schema.name.endswith("_")

    @given(st.data())
    def run(data: Any) -> None:
        args = build(data.draw, row, op._schema, dtype)
        if inplace_first and any(s == 0 and n > 1 for s, n in zip(args[0].stride(), args[0].shape, strict=True)):
            args[0] = args[0].contiguous()
        xargs = to_device(args)
        tol = tolerance(row, type_name)
        try:
            expected = op(*clone(args))
        except Exception as error:
            wide = reference(op, *args) if cpu_refuses(error) else None
            if wide is None:
                with pytest.raises(type(error)), xpu_ops.fallback.forbid():
                    op(*xargs)
                return
            # The row declares a type that the CPU lacks.
            expected = narrowed(wide, dtype)
        results = []
        try:
            for inline in (False, True):
                xpu_ops.set_inline(inline)
                with xpu_ops.fallback.forbid():
                    results.append(op(*to_device(args)))
        finally:
            xpu_ops.set_inline(True)
        assert_same(results[0], expected, tol=tol, strides=True, reference=lambda: reference(op, *args))
        # Where small work runs cannot be seen in its bits.
        assert_same(results[1], to_device(results[0], "cpu"), tol=(0.0, 0.0), strides=True)

    run()
