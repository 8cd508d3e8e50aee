"""The hook that checks subjects of commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.commit_subject import problems

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "message",
    [
        "embedding_bag: check indices per group",
        "bindings: one guard for registering a second kernel\n\nThe reason.\n",
        "\n# a comment of git\ntools: `make first-calls` times the first calls of new processes",
        "torch 2.15: signatures of what is replaced",
        "Merge branch 'main' into x",
        'Revert "sort: ' + "x" * 80 + '"',
        "fixup! sort: x",
        "a" * 66 + ": zzzz",
    ],
)
def test_accepted(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("sort: " + "x" * 67, "73 characters"),
        ("Faster sort", "family: what changes"),
        ("sort:faster", "family: what changes"),
        ("", "family: what changes"),
        ("sort: faster; topk: too", "';'"),
        ("sort: faster.", "full stop"),
        ("sort: faster\nbecause", "second line"),
    ],
)
def test_refused(message: str, text: str) -> None:
    assert any(text in p for p in problems(message)), problems(message)


def test_as_the_hook_runs_it(tmp_path: Path) -> None:
    """Without the packages of the environment, from the repository's root."""
    message = tmp_path / "COMMIT_EDITMSG"
    for text, code in (("sort: faster\n", 0), ("sort: faster; x\n", 1)):
        message.write_text(text)
        command = [sys.executable, "-I", "tools/commit_subject.py", str(message)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
    assert "entry: python3 tools/commit_subject.py" in (ROOT / ".pre-commit-config.yaml").read_text()
