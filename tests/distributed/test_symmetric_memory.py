"""Symmetric memory of xpu tensors in two and four processes of one host."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ranks

PROGRAM = Path(__file__).with_name("symmetric.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.MULTILINE)
OF_THE_HOST = {"XPU_OPS_DISCRETE": "", "XPU_OPS_POLICY": ""}
BEGIN = """
import torch.distributed._symmetric_memory as symmetric
group(60)
"""
REFUSED = """
try:
    symmetric.empty(4, device="xpu")
except NotImplementedError as error:
    assert "XPU_OPS_DISCRETE" in str(error)
    print("refused")
"""
ENDED = """
handle = symmetric.rendezvous(symmetric.empty(4, device="xpu"), "0")
dist.barrier()
if rank == 1:
    os._exit(0)
try:
    handle.barrier()
except RuntimeError as error:
    assert "ended: barrier waits for it" in str(error)
    print("told", flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def outcome(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    number = request.param
    return ranks.run(PROGRAM, ranks=number, XPU_OPS_CPU_DEVICES=str(number), **OF_THE_HOST)


@pytest.mark.parametrize("name", CHECKS)
def test_symmetric_memory(outcome: dict[str, list[str]], name: str) -> None:
    ranks.verify(outcome, name)


@pytest.mark.parametrize("mode", [{"XPU_OPS_DISCRETE": "1"}, {"XPU_OPS_POLICY": "gpu"}], ids=str)
def test_memory_of_its_own_is_refused(tmp_path: Path, mode: dict[str, str]) -> None:
    for process in ranks.start_code(tmp_path, BEGIN + REFUSED, **mode):
        out, err = process.communicate(timeout=120)
        assert out.strip() == "refused", err[-3000:]


def test_a_process_that_ended_is_named(tmp_path: Path) -> None:
    first, second = ranks.start_code(tmp_path, BEGIN + ENDED, **OF_THE_HOST)
    out, err = first.communicate(timeout=120)
    second.communicate(timeout=120)
    assert out.strip() == "told", err[-3000:]
