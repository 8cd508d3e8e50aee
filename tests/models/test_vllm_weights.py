"""vLLM with weights of 4 and 8 bits: log-probabilities are those of transformers with the weights that the checkpoint stands for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import vllm_weights
from support.vllm_process import BUDGET, needs_vllm

pytestmark = needs_vllm
REFUSED = {
    "fp8": r"xpu_ops\.vllm does not serve weights of fp8; XPU_OPS_VLLM=0 takes",
    "w3a16": r"weights of uint3b4 are not served",
    "fp8 compressed": r"does not serve model\.layers\.0\.self_attn\.qkv_proj with the format float-quantized, weights of float 8",
    "w4a16 groups of 8": r"groups and columns need to be multiples of 16, not 8 and 128",
}


def run(folder: Path, form: str, dtype: str = "float32", **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", vllm_weights.__file__, str(folder / "model"), form, dtype, json.dumps(options)],
        capture_output=True, text=True, env=os.environ | BUDGET, timeout=900,
    )  # fmt: skip


def errors(*args: object, **options: object) -> dict:
    done = run(*args, **options)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"error"')))


@pytest.mark.parametrize("form", [f for f in vllm_weights.FORMATS if f not in REFUSED])
def test_formats(tmp_path: Path, form: str) -> None:
    found = errors(tmp_path, form)
    assert found["same"] == 5 and found["error"] < 2e-5


@pytest.mark.parametrize("form", ["w8a8", "w4a16", "gptq 8 groups"])
def test_bfloat16(tmp_path: Path, form: str) -> None:
    found = errors(tmp_path, form, "bfloat16")
    assert found["same"] >= 4 and found["error"] < 0.3


def test_two_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_CPU_DEVICES", "2")
    found = errors(tmp_path, "w4a16 zeros", tensor_parallel_size=2)
    assert found["same"] == 5 and found["error"] < 2e-5


@pytest.mark.parametrize("form", REFUSED)
def test_what_does_not_fit_is_said(tmp_path: Path, form: str) -> None:
    done = run(tmp_path, form)
    assert done.returncode
    assert re.search(REFUSED[form], done.stderr + done.stdout), done.stderr[-3000:]
