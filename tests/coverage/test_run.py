"""Executed evidence: wrong and pretended kernels are found out, crashes and hangs are survived, runs are taken up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from xpu_ops.coverage import evidence, report, runner
from xpu_ops.coverage.commands import app

FIXTURES = Path(__file__).parent / "fixtures"


def command_line(*arguments: str) -> Any:
    """The command line, in this process: only its workers start Python anew."""
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """A recording of the fixture's tests: first some of them, then the rest by the same command."""
    path = tmp_path_factory.mktemp("coverage") / "evidence.jsonl"
    run = ["run", "--tests", str(FIXTURES / "misregistered.py"), "--recording", str(path), "--workers", "1"]
    return path, [command_line(*run, "--ops", "acosh,right"), command_line(*run)]


@pytest.fixture(scope="module")
def rows(executed: Any) -> dict[str, dict[str, Any]]:
    document = report.build(executed[0])
    assert document["recording"]["state"] == "current"
    return {r["name"]: r for r in document["overloads"]}


@pytest.mark.slow
def test_exit_codes_and_resuming(executed: Any) -> None:
    path, (first, second) = executed
    assert first.exit_code == 0, first.output
    assert "2 of 11 tests: 2 passed; 0 were recorded before" in first.output
    assert second.exit_code == 1, second.output
    assert "11 of 11 tests" in second.output
    assert "2 were recorded before" in second.output
    recorded = [json.loads(line)["unit"] for line in path.read_text().splitlines()[1:]]
    assert len(recorded) == len(set(recorded)) == 11


def test_crash_costs_one_test(executed: Any) -> None:
    units = {u.rpartition("::")[2]: r["outcome"] for u, r in evidence.Evidence.load(executed[0]).units.items()}
    assert units["test_crash"] == "crash"
    assert units["test_after_the_crash"] == "passed"
    assert "crash " in executed[1][1].output


def test_hang_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "evidence.jsonl"
    done = command_line("run", "--tests", str(FIXTURES / "hangs.py"), "--recording", str(path), "--timeout", "2")
    assert done.exit_code == 1
    assert "1 of 1 tests: 1 timeout" in done.output
    assert "no answer in 2 s" in done.output


def children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for f in files for child in f.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)], ids=lambda s: s.name
)
@pytest.mark.slow
def test_ended_from_outside(tmp_path: Path, how: signal.Signals) -> None:
    """Its workers end with it, even one that hangs; nothing is recorded of the test they were at."""
    path, started = tmp_path / "evidence.jsonl", tmp_path / "started"
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.coverage", "run", "--tests", str(FIXTURES / "hangs.py")]
    process = subprocess.Popen(
        [*command, "--recording", str(path)], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XPU_OPS_TEST_STARTED": str(started)},
    )  # fmt: skip
    workers: list[int] = []
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        deadline = time.monotonic() + 300
        while not started.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        workers = children(process.pid)
        assert len(workers) == 1
        # While it runs, nobody else may write there.
        second = command_line("run", "--tests", str(FIXTURES / "hangs.py"), "--recording", str(path))
        assert second.exit_code == 2
        assert "another run is writing" in second.output
        process.send_signal(how)
        errors = process.communicate(timeout=60)[1]
        deadline = time.monotonic() + 30
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(alive, workers))
        assert bystander.poll() is None
        if how == signal.SIGTERM:
            assert process.returncode == 1
            assert "stopped after 0 of 1 tests" in errors
            assert evidence.Evidence.load(path).units == {}
    finally:
        process.kill()
        bystander.kill()
        for pid in workers:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("name", "verdict", "why"),
    [
        ("sinh", "failed", "test_wrong"),
        ("cosh", "fallback", "ran cosh on CPU tensors in"),
        ("log1p", "fallback", "ran copy_to_the_CPU_and_back on CPU tensors in"),
        ("asinh", "fallback", "fell back in"),
        ("atanh", "failed", "test_raises"),
    ],
)
def test_misregistered_is_never_native(rows: Any, name: str, verdict: str, why: str) -> None:
    row = rows[name]
    assert row["registration"] == "native"  # the dispatcher has a kernel for it
    assert row["verdict"] == verdict
    assert row["evidence"]["state"] == verdict
    assert why in row["evidence"]["dtypes"]["f32"]["why"]


def test_right_kernels_are_verified_by_layout(rows: Any) -> None:
    found = rows["tan"]["evidence"]
    assert rows["tan"]["verdict"] == "native"
    assert found["state"] == "verified"
    assert found["dtypes"]["f32"]["layouts"] == {"contiguous": "verified", "dense": "verified", "strided": "verified"}
    assert found["dtypes"]["f32"]["direct"] is True
    assert found["dtypes"]["f32"]["backward"] is True
    assert rows["acosh"]["evidence"]["dtypes"]["f32"]["backward"] is False


def test_what_is_not_compared_is_not_verified(rows: Any) -> None:
    assert rows["special_erfinv"]["evidence"] is None or rows["special_erfinv"]["evidence"]["state"] != "verified"
    assert rows["erfinv"]["evidence"]["state"] == "executed"
    assert rows["tan.out"]["evidence"] is None


def test_totals_count_evidence(executed: Any) -> None:
    path, _ = executed
    plain, with_evidence = report.build(path, with_evidence=False)["totals"], report.build(path)["totals"]
    for name in report.SETS:
        before, after = plain[name]["verdicts"], with_evidence[name]["verdicts"]
        assert before["failed"] == 0
        assert after["failed"] == 2
        assert after["fallback"] - before["fallback"] == 3
        assert before["native"] - after["native"] == 5
        assert plain[name]["registered"] == with_evidence[name]["registered"]


def test_goes_stale(executed: Any, tmp_path: Path) -> None:
    lines = executed[0].read_text().splitlines()
    header = json.loads(lines[0])
    for what, change in {
        "the library": "build",
        "torch": "torch",
        "the oneAPI libraries": "libraries",
        "the device": "device",
        "the tests": "tests",
    }.items():
        other = {**header, "key": {**header["key"], change: "another"}}
        path = tmp_path / f"{change}.jsonl"
        path.write_text("\n".join([json.dumps(other), *lines[1:]]) + "\n")
        document = report.build(path)
        assert document["recording"]["state"] == "stale"
        assert document["recording"]["stale_because"] == [what]
        assert document["totals"]["torch"]["native_verified"] == 0
        assert all(r["verdict"] == r["registration"] for r in document["overloads"])


def test_half_written_line_is_left_out(executed: Any, tmp_path: Path) -> None:
    text = executed[0].read_text()
    path = tmp_path / "killed.jsonl"
    path.write_text(text[: text.rindex("\n", 0, len(text) - 1) + 40])
    assert len(evidence.Evidence.load(path).units) == 10


def test_choice() -> None:
    units = [
        f"tests/x.py::test_{f}[{o}-f32]"
        for f in ("forward", "out")
        for o in ("add", "add.Tensor", "addmm", "nn.functional.add")
    ]
    options = runner.Options(tests=[], path=Path())

    def chosen(**changes: Any) -> list[str]:
        return [u.partition("::")[2] for u in runner.choose(units, runner.Options(**{**vars(options), **changes}))]

    assert len(chosen()) == 8
    assert chosen(ops=["addmm"]) == ["test_forward[addmm-f32]", "test_out[addmm-f32]"]
    assert "test_out[addmm-f32]" not in chosen(ops=["add"])
    assert "test_out[add.Tensor-f32]" in chosen(ops=["add"])
    assert len(chosen(ops=["out"])) == 4
    assert len(chosen(sample=3)) == 3
    assert chosen(sample=100) == chosen()


def test_tests_that_cannot_be_collected(tmp_path: Path) -> None:
    path = tmp_path / "test_broken.py"
    path.write_text("import there_is_no_such_module\n")
    done = command_line("run", "--tests", str(path), "--recording", str(tmp_path / "evidence.jsonl"))
    assert done.exit_code == 2
    assert "cannot be collected" in done.output
