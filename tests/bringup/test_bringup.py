"""`xpu-ops bringup`: faults cost one item each, a second run goes on, and the archive holds what a person needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from xpu_ops.bringup.commands import Results, run_stage, summary
from xpu_ops.bringup.stages import STAGES


@pytest.mark.slow
def test_each_fault_costs_one_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    results = Results(tmp_path)
    with (tmp_path / "log.txt").open("w") as log:
        run_stage("faulty", "faulty:stage", 10, results, log, time.monotonic() + 300, lambda text: None)
    states = {r["name"]: r["state"] for r in results.records}
    assert states == {
        "crashes": "crash", "fine": "ok", "wrong": "wrong", "raises": "error", "hangs": "hang", "missing": "skipped", "last": "ok",
    }  # fmt: skip
    texts = {r["name"]: r["text"] for r in results.records}
    assert "SIGSEGV" in texts["crashes"] and "ValueError: no" in texts["raises"] and "within 10 s" in texts["hangs"]
    assert next(r for r in results.records if r["name"] == "fine")["figures"] == {"answer": 42}
    assert "does not disturb" in (tmp_path / "log.txt").read_text()
    again = Results(tmp_path)
    with (tmp_path / "log.txt").open("a") as log:
        run_stage("faulty", "faulty:stage", 10, again, log, time.monotonic() + 300, lambda text: None)
    assert len(again.records) == len(results.records)


def test_time_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    results, said = Results(tmp_path), list[str]()
    with (tmp_path / "log.txt").open("w") as log:
        run_stage("faulty", "faulty:stage", 600, results, log, time.monotonic() - 1, said.append)
    assert said == ["out of time"] and not results.records


@pytest.mark.parametrize("policy", ["cpu", pytest.param("gpu", marks=pytest.mark.slow)])
def test_the_command(policy: str, tmp_path: Path) -> None:
    """The short stages, under both policies; the archive can be read, and the summary names the device."""
    folder = tmp_path / "found"
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.cli", "bringup", "--out", str(folder), "--minutes", "5"]
    env = {**os.environ, "XPU_OPS_POLICY": policy}
    done = subprocess.run([*command, "--stages", "devices,memory"], capture_output=True, text=True, env=env)
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    wrong = [r for r in records if r["state"] != "ok"]
    assert done.returncode == 0 and not wrong, (done.stderr, wrong)
    assert {r["stage"] for r in records} == {"devices", "memory"}
    assert "| memory |" in done.stdout and f"'XPU_OPS_POLICY': '{policy}'" in done.stdout
    with tarfile.open(f"{folder}.tar.gz") as tar:
        names = {Path(n).name for n in tar.getnames()}
    assert {"results.jsonl", "summary.md", "about.json", "log.txt"} <= names


def test_a_stage_that_does_not_exist(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.cli", "bringup", "--out", str(tmp_path), "--stages", "x"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "no stage x" in done.stderr


def test_items_have_names_of_their_own() -> None:
    """A name stands for one item: results are looked up by it."""
    for stage in ("families", "libraries"):
        names = [name for name, _ in STAGES[stage][0]()]
        assert len(names) == len(set(names)) > 10


@pytest.mark.parametrize(
    "name",
    ["add", "empty_like", "new_empty", "randn_like", "bernoulli", "svd_lowrank", "nn.functional.dropout", "nn.functional.multi_head_attention_forward"],
)  # fmt: skip
def test_draws_are_not_compared(name: str) -> None:
    """A draw is known by the kernel that ran: the attention of nn.MultiheadAttention drops out in some samples."""
    figures: dict[str, int] = {}
    assert dict(STAGES["opinfo"][0]())[name](figures) == ""
    assert figures["samples"] > 0


def test_summary_names_faults_and_times() -> None:
    ok = {
        "stage": "benchmark",
        "name": "a",
        "state": "ok",
        "text": "",
        "seconds": 1,
        "figures": {"section": "matmul", "ratio": 4.0},
    }
    crash = {
        "stage": "memory",
        "name": "b",
        "state": "crash",
        "text": "the process died of SIGBUS",
        "seconds": 2,
        "figures": {},
    }
    text = summary([ok, {**ok, "figures": {"section": "matmul", "ratio": 1.0}}, crash], {"device": "D"})
    assert "- device: D" in text and "- memory, b: crash, the process died of SIGBUS" in text
    assert "| matmul | 2 | 2.00 | 1.00 |" in text and "| memory | 0 | 0 | 0 | 1 | 0 | 0 | 2 |" in text
