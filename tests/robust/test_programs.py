"""Random programs, eager and compiled, beside the CPU's: sequences that no test of one operator has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from support import compiled_programs, programs

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"


@pytest.mark.parametrize("first", range(0, 400 if FULL else 20, 20))
def test_programs(first: int) -> None:
    found = [f"{seed}: {finding}" for seed in range(first, first + 20) for finding in programs.check(seed)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(0, 60 if FULL else 3, 3))
def test_compiled_programs(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Torch's cache takes a graph for another's whose inputs are views of other tensors.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    try:
        found = [f"{seed}: {finding}" for seed in range(first, first + 3) for finding in compiled_programs.check(seed)]
    finally:
        torch._inductor.config.emulate_precision_casts = False
        torch._dynamo.reset()
    # A difference that Inductor has on the CPU, too, is torch's.
    found = [f for f in found if ": Inductor: " not in f]
    assert not found, "\n".join(found)
