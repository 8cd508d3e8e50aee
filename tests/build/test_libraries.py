"""The libraries of a build need what the wheel's tag promises, and no library that neither it nor a requirement brings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools import torch_release

# The newest versions of manylinux_2_35.
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}
SYSTEM = {
    "libstdc++.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "ld-linux-x86-64.so.2",
    "libpthread.so.0",
    "libdl.so.2",
}
TORCH = {"libc10.so", "libtorch.so", "libtorch_cpu.so"}
MKL = {"libmkl_intel_ilp64.so.3", "libmkl_tbb_thread.so.3", "libmkl_core.so.3"}
NEEDED = {
    # nothing of Python: a C++ program loads it
    "torch*/libxpu_ops_torch.so": {"libxpu_ops_kernels.so", "libsycl.so.9"} | TORCH | SYSTEM,
    "torch*/_C.*": {"libxpu_ops_torch.so", "libxpu_ops_kernels.so", "libsycl.so.9", "libtorch_python.so"}
    | TORCH
    | SYSTEM,
    "libxpu_ops_kernels.so": {"libsycl.so.9", "libdnnl.so.3"} | SYSTEM,
    "libxpu_ops_mkl.so": {"libtbb.so.12"} | MKL | SYSTEM,
    "libxpu_ops_mkl_queue.so": {"libsycl.so.9", "libmkl_sycl_dft.so.6"} | MKL | SYSTEM,
    "kernelc": {"libsycl.so.9"} | SYSTEM,
}


def readelf(option: str, path: Path) -> str:
    return subprocess.run(["readelf", option, path], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("pattern", NEEDED)
def test_needs_no_more_than_the_tag_says(build_dir: Path, pattern: str) -> None:
    assert torch_release.PLATFORM == "manylinux_2_35_x86_64"
    files = sorted((build_dir / "python" / "xpu_ops").glob(pattern))
    if not files and pattern.startswith("libxpu_ops_mkl"):
        pytest.skip("built without oneMKL")
    (path,) = [f for f in files if f.suffix != ".pyi"]
    found = re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)", readelf("-V", path))
    newer = {f"{name}_{v}" for name, v in found if tuple(int(x) for x in v.split(".")) > NEWEST[name]}
    assert found
    assert newer == set()
    assert set(re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", path))) - NEEDED[pattern] == set()
