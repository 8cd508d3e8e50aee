"""Two reports compared: what counts as a regression, and the exit code."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from xpu_ops.coverage import diff, report
from xpu_ops.coverage.commands import app


def row(name: str, **changes: Any) -> dict[str, Any]:
    usual = {"name": name, "verdict": "native", "backward": "formula", "autocast": True, "evidence": None}
    return {**usual, **changes}


def evidence(**states: str) -> dict[str, Any]:
    return {"stale": False, "state": "partly", "dtypes": {d: {"state": s} for d, s in states.items()}}


def document(*rows: dict[str, Any], recording: str = "current") -> dict[str, Any]:
    return {"schema": report.SCHEMA, "recording": {"state": recording}, "overloads": list(rows)}


@pytest.mark.parametrize(
    ("old", "new", "what", "regression"),
    [
        (row("a"), row("a", verdict="fallback"), "verdict", True),
        (row("a"), row("a", verdict="failed"), "verdict", True),
        (row("a"), row("a", verdict="composite"), "verdict", True),
        (row("a", verdict="fallback"), row("a"), "verdict", False),
        (row("a", verdict="missing"), row("a", verdict="fallback"), "verdict", False),
        (row("a"), row("a", backward="none"), "backward", True),
        (row("a"), row("a", autocast=False), "autocast", True),
        (row("a", autocast=False), row("a"), "autocast", False),
        (row("a", evidence=evidence(f16="verified")), row("a", evidence=evidence(f16="failed")), "dtype f16", True),
        (row("a", evidence=evidence(f16="verified")), row("a", evidence=evidence(f32="verified")), "dtype f16", False),
    ],
)
def test_one_change(old: Any, new: Any, what: str, regression: bool) -> None:
    changes = diff.compare(document(old), document(new))
    assert (changes[0].what, changes[0].regression) == (what, regression)


def test_same_added_and_removed() -> None:
    assert diff.compare(document(row("a")), document(row("a"))) == []
    changes = diff.compare(document(row("a")), document(row("b")))
    assert {(c.name, c.what, c.regression) for c in changes} == {("a", "removed", False), ("b", "added", False)}


def test_evidence_of_a_stale_recording_does_not_count() -> None:
    old, new = row("a", evidence=evidence(f16="verified")), row("a", evidence=evidence(f16="failed"))
    assert diff.compare(document(old), document(new, recording="stale")) == []


def test_command(tmp_path: Path) -> None:
    old = report.build(with_evidence=False)
    new = copy.deepcopy(old)
    files = [tmp_path / "old.json", tmp_path / "new.json"]
    run = CliRunner()

    def compared() -> Any:
        for path, content in zip(files, (old, new), strict=True):
            path.write_text(json.dumps(content))
        return run.invoke(app, ["diff", *map(str, files)])

    assert compared().exit_code == 0
    changed = next(r for r in new["overloads"] if r["name"] == "sin")
    changed["verdict"] = "fallback"
    result = compared()
    assert result.exit_code == 1
    assert "1 changes, 1 regressions" in result.output
    old, new = new, old
    assert compared().exit_code == 0
    files[0].write_text(json.dumps({"schema": 1}))
    result = run.invoke(app, ["diff", *map(str, files)])
    assert result.exit_code == 2
    assert f"schema {report.SCHEMA}" in result.output.replace("\n", " ").replace("│", "")
