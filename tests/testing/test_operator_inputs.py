"""Traced operator inputs: read without evaluating them, made smaller, filled with valid values, checked and timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tools.scorecard import fills, opinputs, traces
from tools.scorecard.traces import Row, Spec, dense

TRACE = """Operator: aten.add.Tensor
cnt: 2, ((T([4, 3], f16, stride=(1, 4)), 1e-05), {})
cnt: 1, ((T([4, 3], f32), T([], i64)), {})
Operator: aten.sum.SymInt
cnt: 3, ((T([64, 8], f16), [0], True), {'dtype': torch.float32})
Operator: aten.upsample_nearest2d_backward.vec
cnt: 1, ((T([2, 3, 8, 8], f32), None, [2, 3, 4, 4], [2.0, 2.0]), {})
Operator: aten.embedding.default
cnt: 1, ((T([5, 4], f32), T([7], i64), -inf), {})
"""


def spec(*shape: int, dtype: torch.dtype = torch.float16, stride: tuple[int, ...] | None = None) -> Spec:
    return Spec(shape, dtype, stride or dense(shape))


def test_traces_are_read() -> None:
    rows = traces.parse(TRACE)
    assert [r.count for r in rows] == [2, 1, 3, 1, 1]
    assert rows[0].args == (spec(4, 3, stride=(1, 4)), 1e-05)
    assert str(rows[0]) == "add.Tensor(T([4, 3], f16, stride=[1, 4]), 1e-05)"
    assert rows[2] == Row("sum.dim_IntList", (spec(64, 8), [0], True), {"dtype": torch.float32}, 3)
    assert rows[3].operator == "upsample_nearest2d_backward.default" and rows[3].args[1] == [8, 8]
    assert rows[4].args[2] == float("-inf")
    quoted = traces.parse("Operator: aten.neg.default\ncnt: 1, ((T([0, 4], 'f16'),), {})")
    assert quoted[0].args == (spec(0, 4),)


@pytest.mark.parametrize("text", ["(__import__('os').getcwd(),), {}", "(T.__class__,), {}", "(1 + 1,), {}"])
def test_nothing_else_is_read(text: str) -> None:
    with pytest.raises(ValueError, match="unknown in a trace"):
        traces.parse(f"Operator: aten.add.Tensor\ncnt: 1, ({text})")


def test_large_rows_get_smaller_leading_dimensions() -> None:
    row = Row("mul.Tensor", (spec(64, 32, 100), spec(64, 1, 100)), {})
    assert traces.smaller(row, 1 << 30) == [row]
    small = traces.smaller(row, 30000)[0]
    assert small.args == (spec(8, 32, 100), spec(8, 1, 100))
    weights = Row("mm.default", (spec(64, 64), spec(64, 64)), {})
    # The second operand does not shrink: one row alone would be another kind of product.
    assert traces.smaller(weights, 6000)[0].args == (spec(32, 64), spec(64, 64))
    across = Row("neg.default", (spec(64, 8, stride=(1, 64)),), {})
    assert traces.smaller(across, 300)[0].args == (spec(32, 8, stride=(1, 32)),)
    view = Row("_unsafe_view.default", (spec(64, 100), [8, 8, 100]), {})
    assert traces.smaller(view, 1000)[0].args == (spec(8, 100), [1, 8, 100])


def test_values_are_valid() -> None:
    row = Row("nll_loss_forward.default", (spec(50, 7), spec(50, dtype=torch.int64), None, 1, -100), {})
    args, _ = fills.arguments(row)
    assert args[1].min() >= 0 and args[1].max() < 7
    args, _ = fills.arguments(Row("sqrt.default", (spec(1000),), {}))
    assert args[0].min() > 0
    assert torch.equal(args[0], fills.arguments(Row("sqrt.default", (spec(1000),), {}))[0][0])


def silent(where: str) -> None:
    assert where in ("xpu", "the CPU")


def test_a_row_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Row("topk.default", (spec(3, 1000), 40, 1), {})  # equal values have no order
    assert opinputs.check(row, [row], silent)[0] == {"outcome": "passed"}
    unknown = Row("_fft_c2c.default", (spec(4, dtype=torch.int64), [0], 0, True), {})
    assert opinputs.check(unknown, [unknown], silent)[0]["outcome"] == "skipped"
    from support import compare

    monkeypatch.setattr(compare, "to_device", lambda nest: [t.add(1).to("xpu") for t in nest] if nest else nest)
    neg = Row("neg.default", (spec(3, 1000),), {})
    assert opinputs.check(neg, [neg], silent)[0]["outcome"] == "failed"


def test_the_program(tmp_path: Path) -> None:
    (tmp_path / "small_training.txt").write_text(TRACE)
    results = tmp_path / "results.jsonl"
    command = [
        sys.executable,
        "-m",
        "tools.scorecard.opinputs",
        str(tmp_path),
        "--results",
        str(results),
        "--repeats",
        "1",
    ]
    subprocess.run(command, check=True, cwd=opinputs.ROOT, timeout=300)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    ends = [line for line in lines if not line.get("started")]
    # The CPU refuses a padding index that is no integer.
    assert sorted(line["outcome"] for line in ends) == ["passed"] * 4 + ["skipped"]
    assert all(len(line["ms"]) == 2 for line in ends if line["outcome"] == "passed")
