"""Actions that wait for a module of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpu_ops.upstream.after_import import after_import


def test_a_module_whose_code_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch._dynamo.utils is while it imports Triton, which imports this package's backend."""
    (tmp_path / "half_way.py").write_text(
        "from xpu_ops.upstream.after_import import after_import\n"
        "after_import('half_way', lambda module: module.seen.append(module.last))\n"
        "seen = []\nimport wave_before\nassert seen == []\nlast = 1\n"
    )
    for name in ("wave_before", "wave_after"):
        (tmp_path / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    import half_way

    assert half_way.seen == []
    import wave_after  # noqa: F401

    assert half_way.seen == [1]


def test_a_module_that_is_there() -> None:
    seen: list[str] = []
    after_import("sys", lambda module: seen.append(module.__name__))
    assert seen == ["sys"]
