"""DDP, FSDP, DTensor, pipelines and checkpoints of torch.distributed in two processes, against one process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ranks

PROGRAM = Path(__file__).with_name("training.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def outcome() -> dict[str, list[str]]:
    return ranks.run(PROGRAM, XPU_OPS_CPU_DEVICES="2")


@pytest.mark.parametrize("name", CHECKS)
def test_training(outcome: dict[str, list[str]], name: str) -> None:
    ranks.verify(outcome, name)
