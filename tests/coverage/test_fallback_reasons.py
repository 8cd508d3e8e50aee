"""docs/coverage.md names every overload that falls back, with a reason, and none that does not."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from xpu_ops import onemkl
from xpu_ops.coverage import dispatcher

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coverage.md"


@pytest.mark.skipif(not onemkl.available(), reason="without oneMKL its operators fall back")
def test_every_fallback_has_a_reason() -> None:
    section = PAGE.read_text().split("## Fallbacks that remain")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    patterns = [p for row in rows for p in re.findall(r"`([^`]+)`", row.split("|")[1])]
    overloads = dispatcher.scan()
    found = [r.name for r in overloads if r.registration == "fallback"]
    assert patterns and found
    assert [n for n in found if not any(fnmatch.fnmatchcase(n, p) for p in patterns)] == []
    # A row goes when its operators have become native; another torch may lack them.
    kinds = {p: {r.registration for r in overloads if fnmatch.fnmatchcase(r.name, p)} for p in patterns}
    assert [p for p, kind in kinds.items() if kind and kind <= {"native", "composite"}] == []
