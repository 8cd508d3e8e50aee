"""Every example runs as a program of its own, with nothing but the package in its path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
# A part of what each prints last, so that a program that ends early fails.
LAST = {
    "gaussian_process": r"error of the mean at most .*",
    "pca": r"\d+ of \d+ components rebuild the samples to .*",
    "ddp": r"epoch 3: mean loss [\d.]+ on 2 processes",
    "fsdp": r"step 19: loss [\d.]+, saved in fsdp-checkpoint",
    "serve_bf16": r"oneDNN primitives: \d+ created, \d+ reused",
    "share_memory": r"copied: 1000\.0",
    "spectrogram": r"signal after stft and istft: off by .*",
    "trace_model": r"counted without a trace: \{.*\}",
    "train": r"last step: xpu [\d.]+, cpu [\d.]+",
}


def test_every_program_has_an_expectation() -> None:
    assert [p.stem for p in PROGRAMS] == sorted(LAST)


def command(program: Path) -> list[str]:
    """As its first line says: under torchrun where that is named."""
    if "torchrun" not in program.read_text():
        return [sys.executable, "-W", "ignore", str(program)]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]


@pytest.mark.parametrize(
    "program", [pytest.param(p, id=p.stem, marks=pytest.mark.slow if p.stem == "fsdp" else ()) for p in PROGRAMS]
)
def test_example(program: Path, tmp_path: Path) -> None:
    if program.stem == "share_memory":
        from xpu_ops import _C

        if not _C.host_accessible(torch.xpu.current_device()):
            pytest.skip("the host does not read device memory in this mode")
    several = {"XPU_OPS_CPU_DEVICES": "2"} if "torchrun" in program.read_text() else {}
    done = subprocess.run(
        command(program), cwd=tmp_path, env={**os.environ, **several}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(LAST[program.stem], done.stdout.splitlines()[-1])


def test_readme_example() -> None:
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert block is not None
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", block.group(1)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"\d+\.\d+ \S", done.stdout)
