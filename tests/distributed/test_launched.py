"""Programs under torchrun: restart after a killed process, checkpoints for other numbers of processes, no process left."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import torch.distributed as dist
from support import launch

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.slow
def test_restart_resumes_from_the_checkpoint(tmp_path: Path) -> None:
    """The run with a killed rank has the losses of the one without, bit for bit, and computes no saved step again."""
    whole = launch.torchrun(PROGRAMS / "elastic.py", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr[-3000:]
    broken = launch.torchrun(
        PROGRAMS / "elastic.py", str(tmp_path / "broken"), "3", options=("--max-restarts", "1"), timeout=400
    )
    assert broken.returncode == 0, broken.stderr[-3000:]
    losses = re.findall(r"step (\d) loss (\S+)", whole.stdout)
    assert [int(s) for s, _ in losses] == list(range(6))
    again = re.findall(r"attempt (\d) step (\d) loss (\S+)", broken.stdout)
    assert [(a, s) for a, s, _ in again] == [("0", "0"), ("0", "1"), ("0", "2"), ("1", "3"), ("1", "4"), ("1", "5")]
    assert [(s, v) for _, s, v in again] == losses


@pytest.mark.parametrize("attempt,agents,apart", [(0, 1, False), (1, 1, True), (2, 1, True), (1, 2, False)])
def test_a_restart_has_keys_of_its_own(attempt: int, agents: int, apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of the agent still has the addresses of the processes before."""
    agent = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    values = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": agent.port, "RANK": 0, "WORLD_SIZE": 1}
    values |= {"TORCHELASTIC_USE_AGENT_STORE": True, "TORCHELASTIC_RESTART_COUNT": attempt, "GROUP_WORLD_SIZE": agents}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    store, rank, size = next(dist.rendezvous("env://"))
    assert (rank, size) == (0, 1)
    agent.set("address", "old")
    assert agent.get("address") == b"old"  # a set is not answered
    assert store.check(["address"]) is not apart
    store.set("address", "new")
    assert store.get("address") == b"new"
    assert agent.get("address") == (b"old" if apart else b"new")


@pytest.mark.slow
def test_a_checkpoint_of_two_for_one_and_three(tmp_path: Path) -> None:
    saved = launch.torchrun(PROGRAMS / "reshard.py", str(tmp_path), "save", processes=2)
    assert saved.returncode == 0, saved.stderr[-3000:]
    assert len(saved.stdout.split()) > 20
    for processes in (1, 3):
        loaded = launch.torchrun(PROGRAMS / "reshard.py", str(tmp_path), "load", processes=processes)
        assert loaded.returncode == 0, loaded.stderr[-3000:]
        assert loaded.stdout == saved.stdout


@pytest.mark.slow
def test_a_killed_process_ends_the_launch() -> None:
    """Soon, with an exit code, and none of the four processes stays, as a zombie either."""
    begin = time.monotonic()
    done = launch.torchrun(PROGRAMS / "dies.py", processes=4)
    assert done.returncode == 1 and time.monotonic() - begin < 150
    assert "exitcode  : -9" in done.stderr and re.search(r"rank      : 2", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["accelerate", "trainer"])
def test_libraries_that_find_the_group_themselves(library: str, tmp_path: Path) -> None:
    """Two processes come to the weights of one, on an xpu each."""
    pytest.importorskip("accelerate" if library == "accelerate" else "transformers")
    weights = []
    for processes in (1, 2):
        done = launch.torchrun(
            PROGRAMS / "libraries.py", library, str(tmp_path), processes=processes, HF_HUB_OFFLINE="1"
        )
        assert done.returncode == 0, done.stderr[-3000:]
        line = next((s for s in done.stdout.splitlines() if s.startswith("weights")), "")
        assert line, (done.stdout, done.stderr[-3000:])
        weights.append([float(v) for v in line.split()[1:]])
        if processes == 2:
            assert "backend xccl" in done.stdout or "backend cpu:gloo,xpu:xccl" in done.stdout
    assert weights[1] == pytest.approx(weights[0], abs=2e-3)
