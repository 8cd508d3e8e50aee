"""Families as packages: right in a process of their own, without a fallback. Exporting one takes seconds of g++."""

from __future__ import annotations

import shutil
from pathlib import Path

import exported
import modes
import pytest
import torch
import zoo
from torch.export.passes import move_to_device_pass

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="exporting a model needs g++")
SAMPLE = {"llama"}
REFUSED = {"switch": "torch.export refuses it on the CPU, too"}  # its router moves a weight, and it loops over data


def families(sample: set[str]) -> list[object]:
    return [pytest.param(n, marks=() if n in sample else pytest.mark.slow) for n in zoo.FAMILIES]


@pytest.mark.parametrize("name", families(SAMPLE))
def test_family(name: str, tmp_path: Path) -> None:
    if name in REFUSED:
        with pytest.raises(exported.Refused, match=REFUSED[name]):
            exported.check(name, tmp_path)
        return
    row = exported.check(name, tmp_path)
    assert row.fallbacks == 0 and row.seconds < 20


@pytest.mark.parametrize("name", ["gpt2", "vit"])
@pytest.mark.slow
def test_bfloat16(name: str, tmp_path: Path) -> None:
    assert exported.check(name, tmp_path, torch.bfloat16).fallbacks == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n == "lstm" else pytest.mark.slow)
        for n in ("detr", "llama", "lstm", "resnet50", "t5", "unet")
    ],
)
def test_programs(name: str, tmp_path: Path) -> None:
    """An exported program as torch's tools change it: decomposed, saved and loaded, moved from the CPU and back."""
    reference, exact = modes.inference_reference(name, torch.float32)
    data = modes.batch(name, labels=False)

    def check(program: torch.export.ExportedProgram, device: str) -> None:
        assert all(t.device.type == device for t in (*program.state_dict.values(), *program.constants.values()))
        with torch.no_grad():
            results = modes.named_tensors(program.module()(**modes.move(data, device)))
        modes.check(results, reference, exact, exported.TOL[torch.float32])

    there = exported.program(name, "xpu")
    with modes.no_fallback():
        check(there.run_decompositions(), "xpu")
        torch.export.save(there, tmp_path / "p.pt2")
        check(torch.export.load(tmp_path / "p.pt2"), "xpu")
        check(move_to_device_pass(exported.program(name, "cpu"), "xpu"), "xpu")
    check(move_to_device_pass(there, "cpu"), "cpu")
