"""The programs of pages for users run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["porting.md"]
SNIPPETS = [
    pytest.param(text, id=f"{page}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.S | re.M))
]


def test_pages_have_programs() -> None:
    assert len(SNIPPETS) > len(PAGES)


@pytest.mark.parametrize("text", SNIPPETS)
def test_program_runs(text: str, tmp_path: Path) -> None:
    if "transformers" in text:
        pytest.importorskip("transformers")
        pytest.importorskip("accelerate")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
