"""Runs one program in several processes that form a group, and collects what each of its checks found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

WORKER = Path(__file__).with_name("rank_worker.py")
PREAMBLE = """
import os, sys, time, torch
import torch.distributed as dist
from datetime import timedelta
rank, rendezvous = int(sys.argv[1]), sys.argv[2]
def group(seconds):
    dist.init_process_group(backend, init_method="file://" + rendezvous, rank=rank, world_size=ranks,
                            timeout=timedelta(seconds=seconds))
"""


def start_code(
    folder: Path, body: str, *, ranks: int = 2, backend: str = "xccl", **env: str
) -> list[subprocess.Popen[str]]:
    """Processes that run Python code with the names of PREAMBLE, in an empty folder. Keyword arguments are environment variables."""
    program = folder / "program.py"
    program.write_text(PREAMBLE + f"ranks, backend = {ranks}, {backend!r}\n" + textwrap.dedent(body))
    return [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", str(program), str(r), str(folder / "rendezvous")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        for r in range(ranks)
    ]


def start(program: Path, rank: int, ranks: int, rendezvous: Path, **env: str) -> subprocess.Popen[str]:
    """One process. Keyword arguments are environment variables, an empty one unsets it."""
    full = {**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks)}
    for key, value in env.items():
        full.pop(key, None)
        if value:
            full[key] = value
    command = [sys.executable, "-W", "ignore", str(WORKER), str(program), str(rendezvous)]
    return subprocess.Popen(command, env=full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(program: Path, *, ranks: int = 2, timeout: float = 240, **env: str) -> dict[str, list[str]]:
    """For each check of the program the messages of the ranks in which it failed, or did not come to run."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(program, r, ranks, Path(folder, "rendezvous"), **env) for r in range(ranks)]
        outcome: dict[str, list[str]] = {}
        for rank, process in enumerate(processes):
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                out, err = process.communicate()
            last = out.strip().splitlines()[-1] if out.strip() else ""
            if process.returncode or not last.startswith("{"):
                outcome.setdefault("process", []).append(
                    f"rank {rank} ended with {process.returncode}\n{out[-2000:]}\n{err[-4000:]}"
                )
                continue
            for name, message in json.loads(last).items():
                outcome.setdefault(name, []).extend([f"rank {rank}: {message}"] if message else [])
    return outcome


def verify(outcome: dict[str, list[str]], name: str) -> None:
    """Fail with the messages of one check, or of the processes where it has none."""
    assert not outcome.get("process"), "\n".join(message for found in outcome.values() for message in found)
    assert name in outcome, f"{name} did not run"
    assert not outcome[name], "\n".join(outcome[name])
