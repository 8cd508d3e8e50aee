"""The build tree: `import torch` finds the device from it, also where the sources come first on Python's path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "import torch, xpu_ops; print(torch.ones(2, device='xpu').cpu().tolist(), xpu_ops.__file__)"


def run(build: Path, folder: Path) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(build / "python")}
    got = subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, env=env, capture_output=True, text=True)
    assert got.returncode == 0, got.stderr
    assert got.stdout.startswith("[1.0, 1.0] ")
    return got.stdout.split()


@pytest.mark.parametrize("where", ["elsewhere", "source tree"])
def test_import_torch(build_dir: Path, tmp_path: Path, where: str) -> None:
    found = Path(run(build_dir, tmp_path if where == "elsewhere" else ROOT)[-1])
    # `python -c` puts the working directory first, so in the source tree the sources themselves are found.
    assert found.is_relative_to(build_dir / "python" if where == "elsewhere" else ROOT / "xpu_ops")


def test_every_source_is_in_the_tree(build_dir: Path) -> None:
    sources = {p.name for p in (ROOT / "xpu_ops").iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    tree = build_dir / "python" / "xpu_ops"
    assert sources
    assert {n for n in sources if (tree / n).resolve() == (ROOT / "xpu_ops" / n)} == sources
