"""Collectives on XPU tensors in two processes: on the memory of the CPU device, and with memory of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ranks

PROGRAM = Path(__file__).with_name("collectives.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module", params=["shared", pytest.param("discrete", marks=pytest.mark.slow)])
def outcome(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    return ranks.run(PROGRAM, XPU_OPS_DISCRETE="1" if request.param == "discrete" else "")


@pytest.mark.parametrize("name", CHECKS)
def test_collectives(outcome: dict[str, list[str]], name: str) -> None:
    ranks.verify(outcome, name)
