"""The wheel: installs in a new environment and works without a compiler in PATH."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import torch_release
from xpu_ops import _built, _paths

ROOT = Path(__file__).resolve().parents[2]
LIMIT_MB = 40
PROGRAM = """
import shutil
assert shutil.which("g++") is None and shutil.which("gcc") is None and shutil.which("c++") is None
import torch
x = torch.randn(3, 3, device="xpu")
y = (x @ x + x.sin()).cpu()
import xpu_ops
assert "site-packages" in xpu_ops.__file__, xpu_ops.__file__
# Without the extra `mkl`: the library is there, oneMKL is not, and the CPU takes the call.
from xpu_ops import onemkl
assert onemkl.missing() == "no libmkl_core.so.3", onemkl.missing()
assert torch.linalg.inv(2 * torch.eye(2, device="xpu")).tolist() == [[0.5, 0], [0, 0.5]]
assert list(xpu_ops.fallback.counts()) == ["aten::linalg_inv_ex"], xpu_ops.fallback.counts()
print(tuple(y.shape), torch.xpu.get_device_name())
"""
COMPILED = """
import torch
f = torch.compile(lambda x: torch.softmax(x * 2, -1))
x = torch.randn(8, 32, device="xpu")
torch.testing.assert_close(f(x), torch.softmax(x * 2, -1))
"""


def wheel_file() -> Path:
    tag = torch_release.wheel_tag()
    wheels = sorted((ROOT / "dist").glob(f"xpu_ops-*+{tag}-*.whl"))
    if len(wheels) != 1:
        pytest.fail(f"one wheel with {tag} is expected in dist/, found {len(wheels)}; run `make wheel`")
    return wheels[0]


def test_sdist_holds_every_file_of_the_tree(tmp_path: Path) -> None:
    """One that lacks a source of the build fails in `pip install` alone."""
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert set(listed) - held == set()


@pytest.mark.slow
def test_contents_and_size() -> None:
    path = wheel_file()
    assert path.stat().st_size < LIMIT_MB * 1e6
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
        metadata = archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode().splitlines()
    assert path.name.endswith(f"-{torch_release.PLATFORM}.whl")
    for line in (
        f"Version: {torch_release.wheel_version(_built.VERSION, _paths.torch_release())}",
        f"Requires-Dist: torch=={_paths.torch_release()}.*",
        "License-Expression: Apache-2.0",
        "Provides-Extra: mkl",
        "Description-Content-Type: text/markdown",
    ):
        assert line in metadata
    assert "[torch.backends]" in entry_points
    assert "xpu_ops._autoload:_autoload" in entry_points
    assert "xpu-ops = xpu_ops.cli:main" in entry_points.replace("xpu-ops=", "xpu-ops = ")
    assert any(n.startswith(f"xpu_ops/torch{_paths.torch_release()}/_C.") for n in names)
    for wanted in (
        "xpu_ops/libxpu_ops_kernels.so",
        "xpu_ops/libxpu_ops_mkl.so",
        "xpu_ops/libxpu_ops_mkl_queue.so",
        "xpu_ops/modules/modules.tsv",
        f"xpu_ops/torch{_paths.torch_release()}/libxpu_ops_torch.so",
        f"xpu_ops/torch{_paths.torch_release()}/aoti/xpu_ops_model.h",
        f"xpu_ops/torch{_paths.torch_release()}/aoti/xpu_ops_operators.h",
        f"xpu_ops/torch{_paths.torch_release()}/aoti/sycl/sycl.hpp",
        f"xpu_ops/torch{_paths.torch_release()}/manifest.json",
        "xpu_ops/_built.py",
        "xpu_ops/kernelc",
        "xpu_ops/linker",
        "xpu_ops/include/kernels/sycl/source/generated.hpp",
        "xpu_ops/include/kernels/sycl/shim/cstdint",
        "xpu_ops/coverage/page.html",
    ):
        assert wanted in names
    portable = {n.removesuffix(".spv.syclbin") for n in names if n.endswith(".spv.syclbin")}
    native = {n.removesuffix(".native.syclbin") for n in names if n.endswith(".native.syclbin")}
    assert portable
    assert portable == native
    # Of sources, only what kernels compiled at run time include.
    own = [n for n in names if not n.startswith("xpu_ops/include/")]
    extra = [n for n in own if n.endswith((".cpp", ".hpp", ".o", ".pyc"))]
    assert extra == []


@pytest.mark.slow
def test_installs_and_runs_without_a_compiler(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    install = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Without PYTHONPATH: pip would find the package in the build tree and install nothing.
    subprocess.run(
        [*install, str(wheel_file())], check=True, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    )
    keep = {k: v for k, v in os.environ.items() if k in ("HOME", "LANG", "TMPDIR")}
    env = {**keep, "PATH": str(venv / "bin"), "XPU_OPS_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run(
        [str(venv / "bin" / "python"), "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("(3, 3) ")
    # This machine built it: every module loads natively and nothing is linked.
    assert not (tmp_path / "cache").exists()
    compiled = subprocess.run(
        [str(venv / "bin" / "python"), "-c", COMPILED], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr
