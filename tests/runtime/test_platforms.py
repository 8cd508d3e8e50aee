"""Other OpenCL runtimes beside Intel's: listed in the environment, and never taken silently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import script

from xpu_ops._autoload import _schedule, _with_own_runtime

USE = "import torch; x = torch.rand(1000, 100, device='xpu'); print(x.sort()[0].shape, torch.xpu.get_device_properties().platform_name)"
POCL = next(Path("/usr/lib").glob("*/libpocl.so.2*"), None)


def test_own_runtime_is_added() -> None:
    own = Path(sys.executable)  # any file that exists
    assert _with_own_runtime("", own) == str(own)
    assert _with_own_runtime("libpocl.so.2:libnvidia-opencl.so.1", own) == f"{own}:libpocl.so.2:libnvidia-opencl.so.1"
    assert _with_own_runtime("/nonexistent/libintelocl.so", own) == f"{own}:/nonexistent/libintelocl.so"


def test_an_installed_one_of_intel_stays(tmp_path: Path) -> None:
    other = tmp_path / "libintelocl.so"
    other.touch()
    assert _with_own_runtime(str(other), Path("/own/libintelocl.so")) == str(other)


@pytest.mark.skipif(torch.xpu.get_device_properties().type != "cpu", reason="a GPU comes first")
@pytest.mark.parametrize("listed", ["libpocl.so.2:libnvidia-opencl.so.1", "libnothing.so"])
def test_the_device_is_intels(listed: str) -> None:
    done = script.run(USE, OCL_ICD_FILENAMES=listed)
    assert done.returncode == 0, done.stderr
    assert "Intel" in done.stdout


@pytest.mark.skipif(POCL is None, reason="no PoCL is installed")
def test_pocl_is_left_out_and_said() -> None:
    done = script.run(USE, OCL_ICD_FILENAMES=str(POCL))
    assert done.returncode == 0 and "Intel" in done.stdout, done.stderr
    doctor = subprocess.run(
        [sys.executable, "-m", "xpu_ops.cli", "doctor", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "OCL_ICD_FILENAMES": str(POCL)},
    )
    found = [f["value"] for f in json.loads(doctor.stdout)["findings"] if f["section"] == "devices"]
    assert any("left out: the kernels are compiled for Intel's runtimes" in value for value in found), found


def test_how_the_driver_spreads_work_is_set_where_nobody_did() -> None:
    assert [_schedule(n) for n in (1, 2, 7, 8, 64)] == [None, None, None, "affinity", "affinity"]
    code = "import os, torch; torch.ones(1, device='xpu'); print(os.environ.get('DPCPP_CPU_SCHEDULE'))"
    assert script.out(code, DPCPP_CPU_SCHEDULE="static") == "static"
    environment = {k: v for k, v in os.environ.items() if k != "DPCPP_CPU_SCHEDULE"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(_schedule(len(os.sched_getaffinity(0))))
