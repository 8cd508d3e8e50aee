"""Families as packages: right in a process of their own, without a fallback. Exporting one takes seconds of g++."""

from __future__ import annotations

import shutil
from pathlib import Path

import exported
import pytest
import torch
import zoo

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="exporting a model needs g++")
SAMPLE = {"llama", "mixtral", "swin", "detr"}
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


@pytest.mark.parametrize("name", ["gpt2", pytest.param("vit", marks=pytest.mark.slow)])
def test_bfloat16(name: str, tmp_path: Path) -> None:
    assert exported.check(name, tmp_path, torch.bfloat16).fallbacks == 0
