"""`xpu-ops profile`: runs a program and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import torch
assert sys.argv[1:] == ["--steps", "3"], sys.argv
x = torch.ones(1 << 20, device="xpu")
for _ in range(int(sys.argv[2])):
    x = x + 1
print("sum", x.sum().item())
sys.exit(5)
"""


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "xpu_ops.cli", "profile", *arguments],
        capture_output=True, text=True, timeout=300, cwd=folder, env=dict(os.environ),
    )  # fmt: skip


def test_a_program_with_arguments(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run(
        "--html", "page.html", "--json", "out.json", "--trace", "trace.json", "program.py", "--steps", "3", folder=tmp_path
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "sum 4194304.0" in done.stdout
    for heading in ("What to look at first", "Operators", "Kernels", "host waiting"):
        assert heading in done.stdout
    found = json.loads((tmp_path / "out.json").read_text())
    kernels = {k["name"]: k for k in found["kernels"]}
    assert kernels["add f32"]["calls"] == 3
    assert kernels["add f32"]["operators"] == {"aten::add": 3}
    assert found["wall_ms"] > 0 and found["memory"]["peak"] >= 4 << 20
    page = (tmp_path / "page.html").read_text()
    assert "add f32" in page and "https:" not in page and "http:" not in page
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_program_that_raises(tmp_path):
    (tmp_path / "program.py").write_text("import torch\ntorch.ones(3, device='xpu') + 1\nraise ValueError('mine')\n")
    done = run("program.py", folder=tmp_path)
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr and "Summary" in done.stdout
