"""Runs a program under torchrun, and tells whether any of its processes is left."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

MARK = "XPU_OPS_TEST_STARTED"


def torchrun(
    program: Path, *arguments: str, processes: int = 2, options: tuple[str, ...] = (), timeout: float = 300, **env: str
) -> subprocess.CompletedProcess[str]:
    """Exit code and output. Keyword arguments are environment variables.

    Raises AssertionError where a process of the run outlives it.
    """
    mark = uuid.uuid4().hex
    command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes), *options, str(program), *arguments]
    full = {**os.environ, "OMP_NUM_THREADS": "1", "XPU_OPS_CPU_DEVICES": str(processes), **env, MARK: mark}
    done = subprocess.run(command, env=full, capture_output=True, text=True, timeout=timeout)
    assert not (left := marked(mark)), f"processes that outlive torchrun: {left}"
    return done


def marked(mark: str) -> list[str]:
    """Processes, zombies too, that were started with the mark in their environment, by id and state."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_text(errors="replace"):
                found.append(f"{folder.name} {(folder / 'stat').read_text().rpartition(')')[2].split()[0]}")
        except OSError:
            continue
    return found
