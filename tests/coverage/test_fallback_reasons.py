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
    found = [r.name for r in dispatcher.scan() if r.registration == "fallback"]
    assert patterns and found
    assert [n for n in found if not any(fnmatch.fnmatchcase(n, p) for p in patterns)] == []
    assert [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in found)] == []
