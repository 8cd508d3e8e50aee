"""A queue against the model of it in queue_test.cpp. The table of its states alone: test_plans.py."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.kernelc.digest import cpu_runtime

PROGRAM = Path(os.environ.get("XPU_OPS_BUILD_DIR", "build")).resolve() / "queue_test"


@pytest.mark.parametrize("seed", [0, 1000, 2000])
def test_queue_does_as_its_model(seed: int) -> None:
    if not PROGRAM.exists():
        pytest.skip("no build folder")
    env = {key: value for key, value in os.environ.items() if not key.startswith("XPU_OPS_")}
    env |= {"OCL_ICD_FILENAMES": str(cpu_runtime()), "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}
    run = subprocess.run([str(PROGRAM), str(seed)], env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 0 failures" in run.stdout
