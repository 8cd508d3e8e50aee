"""Plans of kernels/ops, checked by a program that links neither torch nor needs a device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(os.environ.get("XPU_OPS_BUILD_DIR", "build")).resolve() / "plan_test"


def test_plans() -> None:
    if not PROGRAM.exists():
        pytest.skip("no build folder")
    # No driver is found: a plan that asked for a device would throw.
    environment = {**os.environ, "OCL_ICD_FILENAMES": "/nonexistent", "ONEAPI_DEVICE_SELECTOR": "level_zero:99"}
    run = subprocess.run([str(PROGRAM)], capture_output=True, text=True, env=environment, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 failures" in run.stdout


def test_links_no_torch() -> None:
    if not PROGRAM.exists():
        pytest.skip("no build folder")
    assert "libtorch" not in subprocess.run(["ldd", str(PROGRAM)], capture_output=True, text=True, check=True).stdout
