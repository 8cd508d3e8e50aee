"""`xpu-ops prelink`, in processes whose driver has a lower target than the installed native modules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xpu_ops import prelink

LOWER = {"CL_CONFIG_CPU_TARGET_ARCH": "corei7", "ONEAPI_DEVICE_SELECTOR": "opencl:cpu"}
COUNTS = re.compile(r"(\d+) kernel modules for xpu:0: (\d+) linked, (\d+) cached, (\d+) native, (\d+) failed")


def start(cache: Path, *args: str, **env: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "XPU_OPS_CACHE_DIR": str(cache), **env}
    return subprocess.Popen(
        [sys.executable, "-m", "xpu_ops.cli", "prelink", *args],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[list[int], str]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    found = COUNTS.search(out)
    assert found is not None, out + err
    return [int(n) for n in found.groups()], err


def modules(cache: Path) -> list[str]:
    return sorted(f.name.rsplit("-", 1)[0] for f in cache.glob("*.bin") if not f.name.startswith("jit-"))


def test_links_once_and_a_program_links_nothing(tmp_path: Path) -> None:
    (total, *first), err = finish(start(tmp_path, "search", "--jobs", "2", **LOWER))
    assert total > 1 and first == [total, 0, 0, 0]
    assert len(modules(tmp_path)) == total and all(name.startswith("search") for name in modules(tmp_path))
    assert "linking kernel module" not in err
    (_, *second), _ = finish(start(tmp_path, "search", **LOWER))
    assert second == [0, total, 0, 0]
    program = """import torch, xpu_ops
x = torch.linspace(0, 1, 1 << 18)
assert torch.equal(torch.bucketize(x.to("xpu"), x.to("xpu")).cpu(), torch.bucketize(x, x))
print(xpu_ops._C.module_stats())"""
    environment = {**os.environ, **LOWER, "XPU_OPS_CACHE_DIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert "'cached': 1" in run.stdout and "'linked': 0" in run.stdout, run.stdout + run.stderr


@pytest.mark.slow
def test_two_at_once_link_each_module_once(tmp_path: Path) -> None:
    both = [finish(p)[0] for p in [start(tmp_path, "search", "--jobs", "2", **LOWER) for _ in range(2)]]
    total = both[0][0]
    assert sum(counts[1] for counts in both) == total
    assert sum(counts[2] for counts in both) == total


def test_native_modules_are_left(tmp_path: Path) -> None:
    """The build machine's own code: nothing to do."""
    if "CL_CONFIG_CPU_TARGET_ARCH" in os.environ:
        pytest.skip("the driver has another target than the build")
    (total, *counts), _ = finish(start(tmp_path, "search"))
    assert counts == [0, 0, total, 0] and modules(tmp_path) == []


@pytest.mark.parametrize("lower", [pytest.param(False, marks=pytest.mark.slow), True])
def test_doctor_says_which_code_serves(tmp_path: Path, lower: bool) -> None:
    if "CL_CONFIG_CPU_TARGET_ARCH" in os.environ:
        pytest.skip("the driver has another target than the build")
    program = """import json
from dataclasses import asdict
from xpu_ops import doctor
print(json.dumps([asdict(f) for f in doctor.devices()]))"""
    environment = {**os.environ, "XPU_OPS_CACHE_DIR": str(tmp_path), **(LOWER if lower else {})}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    (found,) = [f for f in json.loads(run.stdout) if f["name"] == "xpu:0 modules"]
    assert (found["state"] == "note") == lower, found
    assert ("xpu-ops prelink" in str(found)) == lower, found


@pytest.mark.parametrize("gpu", [False, True])
def test_modules_of_a_gpu_are_linked_for_its_plans_alone(tmp_path: Path, gpu: bool) -> None:
    (tmp_path / "modules.tsv").write_text("target\tcpu\nmodule\tscan\t0\nmodule\tscan_gpu\t1\tgpu\n")
    for name, size in (("scan", 1), ("scan_gpu", 2)):
        (tmp_path / f"{name}.spv.syclbin").write_bytes(bytes(size))
    assert prelink.module_names(tmp_path, gpu) == ["scan_gpu", "scan"][not gpu :]


def test_unknown_family(tmp_path: Path) -> None:
    process = start(tmp_path, "no_such_family")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "no kernel module belongs to no_such_family" in err
