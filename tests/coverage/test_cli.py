"""The command `xpu-ops` as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points

from support import script
from typer.testing import CliRunner

from xpu_ops import cli


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})


def test_console_script_is_there() -> None:
    (script_,) = [e for e in entry_points(group="console_scripts") if e.name == "xpu-ops"]
    assert callable(script_.load())


def test_importing_torch_imports_no_command_line() -> None:
    code = """
        import sys, torch, xpu_ops
        torch.ones(1, device="xpu")
        print([m for m in ("typer", "click", "rich", "pytest", "xpu_ops.cli", "xpu_ops.coverage", "xpu_ops.doctor") if m in sys.modules])
    """
    assert script.out(code) == "[]"


def test_commands() -> None:
    invoke = CliRunner().invoke
    done = invoke(cli.app, ["--help"])
    assert done.exit_code == 0
    assert all(name in done.output for name in ("coverage", "doctor", "bench"))
    done = invoke(cli.app, ["coverage", "--help"])
    assert all(name in done.output for name in ("report", "run", "trace", "diff", "html"))
    assert invoke(cli.app, ["no-such-command"]).exit_code == 2


def test_bench_takes_its_own_options() -> None:
    done = run("bench", "--help")
    assert done.returncode == 0, done.stderr
    assert "--threads" in done.stdout
    assert "--compare" in done.stdout
