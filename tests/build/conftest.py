"""Files of the build, for its own tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # tools/


@pytest.fixture(scope="session")
def build_dir() -> Path:
    return Path(os.environ.get("XPU_OPS_BUILD_DIR", ROOT / "build"))
