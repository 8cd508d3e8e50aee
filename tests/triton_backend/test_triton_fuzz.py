"""Random kernels against Triton's interpreter, which runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import triton_fuzz

pytest.importorskip("triton")

COUNT = 25


def run(folder: Path, seed: int, count: int, **env: str) -> dict[str, np.ndarray]:
    program = [sys.executable, str(Path(triton_fuzz.__file__)), str(folder), str(seed), str(count)]
    done = subprocess.run(program, env={**os.environ, **env}, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    name = "expected" if "TRITON_INTERPRET" in env else "actual"
    return dict(np.load(folder / f"{name}_{seed}.npz"))


def compare(folder: Path, seed: int, count: int, policy: str) -> None:
    expected = run(folder, seed, count, TRITON_INTERPRET="1")
    wrong = triton_fuzz.differences(expected, run(folder, seed, count, XPU_OPS_POLICY=policy))
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong) + f"\n{folder}/kernels_{seed}.py"


@pytest.mark.parametrize("policy", ["cpu", "gpu"])
def test_a_sample(tmp_path: Path, policy: str) -> None:
    compare(tmp_path, 1000, COUNT, policy)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_ten_thousand(tmp_path: Path, seed: int) -> None:
    compare(tmp_path, seed, 100, "gpu" if seed % 4 == 3 else "cpu")
