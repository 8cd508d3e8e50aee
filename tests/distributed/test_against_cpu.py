"""Every collective x dtype x size with 2 and 4 processes: xpu against CPU tensors and gloo in the same processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ranks

PROGRAM = Path(__file__).with_name("against_cpu.py")


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_against_cpu(count: int) -> None:
    ranks.verify(ranks.run(PROGRAM, ranks=count, timeout=900), "check_all")


@pytest.mark.slow
def test_against_cpu_with_memory_of_its_own() -> None:
    ranks.verify(ranks.run(PROGRAM, timeout=900, XPU_OPS_DISCRETE="1"), "check_all")
