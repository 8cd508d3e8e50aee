"""Threads of a machine with many processors, on any machine."""

from __future__ import annotations

import subprocess
from pathlib import Path


def pretend(count: int, folder: Path) -> dict[str, str]:
    """Variables of a process that starts the threads of so many processors; `folder` takes what is compiled for it."""
    library = folder / "processors.so"
    source = Path(__file__).with_name("processors.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "PRETENDED_PROCESSORS": str(count)}
