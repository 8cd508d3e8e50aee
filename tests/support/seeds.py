"""The command line of a fuzzer: seeds in a process of their own, which another follows where it dies.

python -m support.<fuzzer> SEED COUNT [--minutes=M] [--show]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable

import torch


def run(module: str, show: Callable[[int], str], check: Callable[[int], Iterable[str]], seconds: int) -> None:
    """`check` gives what is wrong with the program of a seed, and may take `seconds`; `show` is the program's text."""
    os.environ.setdefault("XPU_OPS_REDZONE", "1")
    numbers = [a for a in sys.argv[1:] if not a.startswith("--")]
    options = dict(a[2:].split("=", 1) if "=" in a else (a[2:], "") for a in sys.argv[1:] if a.startswith("--"))
    first, count = int(numbers[0]), int(numbers[1])
    if "show" in options:
        print(show(first))
    elif "worker" in options:
        torch.set_num_threads(1)
        for seed in range(first, first + count):
            print(f"seed {seed}", flush=True)
            signal.alarm(seconds)
            for finding in check(seed):
                print(f"FOUND {seed}: {finding}", flush=True)
    else:
        _supervise(module, first, count, time.time() + 60 * float(options.get("minutes", "1e9")))


def _supervise(module: str, first: int, count: int, end: float) -> None:
    seed = first
    while seed < first + count and time.time() < end:
        child = subprocess.Popen(
            [sys.executable, "-m", module, str(seed), str(first + count - seed), "--worker"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("seed "):
                seed = int(line.split()[1])
                if time.time() > end:
                    child.terminate()
                    break
            else:
                print(line, end="", flush=True)
        code = child.wait()
        if code == 0:
            break
        if code != -signal.SIGTERM:
            print(f"FOUND {seed}: exit code {code}", flush=True)
        seed += 1
    print(f"programs {first} to {seed}")
