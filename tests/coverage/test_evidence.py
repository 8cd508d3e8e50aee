"""How comparisons are turned into a verdict for each operator, on recordings written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xpu_ops.coverage import evidence
from xpu_ops.coverage.evidence import Evidence, Status, combine


def call(overload: str, how: str = "native", dtype: str = "f32", below: str = "", grad: bool = False) -> list[Any]:
    return [overload, dtype, "contiguous", how, below, grad]


def judge(*units: tuple[str, list[tuple[bool | None, list[Any]]]], backward: bool = False) -> dict[str, Status]:
    """Statuses by overload; a unit is its outcome and its windows."""
    made = {
        f"t{i}": {
            "unit": f"t{i}",
            "outcome": outcome,
            "windows": [{"agree": agree, "backward": backward, "n": 1, "calls": calls} for agree, calls in windows],
        }
        for i, (outcome, windows) in enumerate(units)
    }
    return {cell[0]: status for cell, status in Evidence(Path(), {}, made).judge().items()}


def test_alone_and_together() -> None:
    got = judge(
        ("passed", [(True, [call("sin"), call("copy_")])]), ("passed", [(True, [call("mul.Tensor"), call("sum")])])
    )
    assert (got["sin"].state, got["sin"].direct) == ("verified", True)
    assert (got["mul.Tensor"].state, got["mul.Tensor"].direct) == ("verified", False)
    assert (got["copy_"].state, got["copy_"].direct) == ("verified", False)


def test_one_wrong_result_outweighs_right_ones() -> None:
    got = judge(("passed", [(True, [call("sin")])] * 5), ("failed", [(False, [call("sin"), call("copy_")])]))
    assert (got["sin"].state, got["sin"].why) == ("failed", "t1")
    assert got["copy_"].state == "executed"


def test_blame_falls_on_what_nothing_cleared() -> None:
    cleared = ("passed", [(True, [call("sin")])])
    got = judge(cleared, ("known", [(False, [call("sin"), call("cos")])]))
    assert (got["sin"].state, got["cos"].state) == ("verified", "failed")


def test_doubt_where_two_may_be_wrong() -> None:
    got = judge(("failed", [(False, [call("sin"), call("cos")])]), ("passed", [(True, [call("sin"), call("tan")])]))
    assert (got["sin"].state, got["cos"].state, got["tan"].state) == ("unclear", "unclear", "verified")


def test_composites_are_blamed_last() -> None:
    cleared = ("passed", [(True, [call("mm"), call("linear", "composite")])])
    got = judge(cleared, ("failed", [(False, [call("mm"), call("cos"), call("linear", "composite")])]))
    assert (got["cos"].state, got["linear"].state) == ("failed", "verified")
    got = judge(cleared, cleared, ("passed", [(True, [call("cos")])]), ("failed", [(False, [call("mm"), call("cos"), call("linear", "composite")])]))  # fmt: skip
    assert (got["mm"].state, got["cos"].state, got["linear"].state) == ("verified", "verified", "unclear")


def test_fallback_in_any_form() -> None:
    got = judge(
        (
            "passed",
            [
                (True, [call("a", "fallback")]),
                (True, [call("b", "native+fallback")]),
                (True, [call("c", "composite+fallback")]),
                (True, [call("d", below="d")]),
            ],
        )
    )
    assert {name: status.state for name, status in got.items()} == dict.fromkeys("abcd", "fallback")


def test_raised_counts_only_in_a_test_that_fails_and_without_a_pass() -> None:
    raised = [(None, [call("sin", "raised"), call("mul.Tensor")])]
    assert "sin" not in judge(("passed", raised))
    assert judge(("failed", raised))["sin"].state == "failed"
    assert judge(("failed", raised))["mul.Tensor"].state == "executed"
    assert judge(("failed", raised), ("passed", [(True, [call("sin")])]))["sin"].state == "verified"


def test_backward_needs_gradient_and_node() -> None:
    unit = ("passed", [(True, [call("sin", grad=True), call("cos")])])
    got = judge(unit, backward=True)
    assert (got["sin"].backward, got["cos"].backward) == (True, False)
    assert judge(unit)["sin"].backward is False


def test_combine() -> None:
    ok, ran, bad = Status("verified", direct=True), Status("executed"), Status("failed", why="t")
    assert combine([ok, ran]).state == "verified"
    assert combine([ran]).state == "executed"
    assert combine([ok, ran, bad]) == Status("failed", why="t")


def test_a_shipped_recording_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts for its release of torch and its libraries, on any machine."""
    key = {"build": "b", "tests": "t", "torch": "2.13.0+cpu", "libraries": "l", "device": "d", "imports": ""}
    units = {"t": {"unit": "t", "outcome": "passed", "windows": [
        {"agree": True, "backward": True, "n": 1, "calls": [call("add.Tensor", grad=True), call("abs", how="fallback")]}]}}  # fmt: skip
    own = Evidence(tmp_path / "e.jsonl", {"schema": evidence.SCHEMA, "key": key, "date": "today"}, units)
    path = tmp_path / "recording.json"
    path.write_text(json.dumps(own.for_shipping()))
    monkeypatch.setattr(evidence, "shipped_path", lambda: path)
    found = Evidence.load(path)
    assert found is not None
    assert found.judge() == own.judge()
    assert found.outcomes() == {"passed": 1}
    assert found.stale_because(key | {"build": "x", "tests": None, "device": "y", "torch": "2.13.1"}) == []
    assert found.stale_because(key | {"torch": "2.14.0", "libraries": "m"}) == ["the oneAPI libraries", "torch"]
    monkeypatch.setattr(evidence, "default_path", lambda: tmp_path / "none.jsonl")
    assert evidence.reading_path() == path


def test_no_file_and_no_header(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    assert Evidence.load(path) is None
    path.write_text("")
    assert Evidence.load(path) is None
    path.write_text("{not json\n")
    assert Evidence.load(path) is None
