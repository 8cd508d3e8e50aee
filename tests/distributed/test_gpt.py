"""The loss curve of a small GPT spread over 2 and 4 processes is that of one process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ranks

PROGRAM = Path(__file__).with_name("gpt.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module", params=[2, 4])
def outcome(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    return ranks.run(PROGRAM, ranks=request.param, timeout=600, XPU_OPS_CPU_DEVICES=str(request.param))


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_gpt(outcome: dict[str, list[str]], name: str) -> None:
    ranks.verify(outcome, name)
