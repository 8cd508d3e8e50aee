"""Other policies on the CPU device. A sample of the suite runs under it here; make test-full runs the operators."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import script
from support.modes import GPU_POLICY

TESTS = Path(__file__).resolve().parents[1]
# Families whose launches differ most between the two policies, and what failed under the GPU's once.
SAMPLE = (
    "aten/test_scan.py",
    "aten/test_embedding.py",
    "aten/test_scatter.py::test_add_dtypes",
    "aten/test_indexing.py::test_index_put",
    "aten/test_sort.py::test_topk",
    "aten/test_reduction.py::test_layouts",
    "aten/test_rnn.py",
    "aten/test_softmax.py",
    "aten/test_fours.py",
)
# Families with plans of their own where there are more cores than a few.
MANY_CORES = ("aten/test_scan.py", "aten/test_scatter.py", "aten/test_sort.py", "aten/test_search.py")


def test_unknown_policy() -> None:
    done = script.run("import torch; torch.ones(1, device='xpu')", XPU_OPS_POLICY="tpu")
    assert done.returncode != 0
    assert "XPU_OPS_POLICY is 'tpu', expected cpu or gpu." in done.stderr


@pytest.mark.skipif(GPU_POLICY, reason="the whole run is under this policy")
@pytest.mark.skipif(torch.xpu.get_device_properties().type != "cpu", reason="the device has the GPU's policy anyway")
@pytest.mark.parametrize(
    ("policy", "sample"),
    [
        pytest.param("gpu", SAMPLE, id="gpu"),
        pytest.param("cpu,units=16", MANY_CORES, id="16 cores", marks=pytest.mark.slow),
    ],
)
def test_sample_under_another_policy(policy: str, sample: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sample]
    run = subprocess.run(
        command, cwd=TESTS, env={**os.environ, "XPU_OPS_POLICY": policy}, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed and int(passed[1]) > 100


def test_sizes_of_a_gpu() -> None:
    """Plans that a GPU would execute are made here for its compute units."""
    program = "import torch; torch.ones(1, device='xpu')"
    assert script.run(program, XPU_OPS_POLICY="gpu,units=132,cache_mb=50,local_kb=48").returncode == 0
    for wrong in ("gpu,units=0", "gpu,units", "gpu,lanes=8", "cpu,cache_mb=4"):
        done = script.run(program, XPU_OPS_POLICY=wrong)
        assert done.returncode != 0 and f"XPU_OPS_POLICY is '{wrong}', expected cpu or gpu" in done.stderr
