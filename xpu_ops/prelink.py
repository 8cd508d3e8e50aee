"""`xpu-ops prelink`: links every kernel module for a device ahead of the programs that need them.

The driver links on one thread and under one lock of its process, so the modules are spread over processes.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from xpu_ops._paths import cache_dir, package_dir


def module_names(folder: Path, gpu: bool) -> list[str]:
    """Modules of modules.tsv, the largest first, so that no process is left with a long one at the end. Those that plans of a
    GPU alone use are left out unless `gpu`."""
    rows = [line.split("\t") for line in (folder / "modules.tsv").read_text().splitlines()]
    names = [row[1] for row in rows if row[0] == "module" and (gpu or row[3:] != ["gpu"])]
    return sorted(names, key=lambda name: -(folder / f"{name}.spv.syclbin").stat().st_size)


def link(name: str, device: int) -> str:
    """How the module came to be there: native, cached or linked."""
    import xpu_ops

    before = xpu_ops._C.module_stats()
    xpu_ops._C.prelink_module(name, device)
    after = xpu_ops._C.module_stats()
    return next(how for how in after if after[how] != before[how])


class Line:
    """One line that is written over on a terminal; elsewhere a line per 10 seconds."""

    def __init__(self, total: int) -> None:
        self._total, self._tty = total, sys.stderr.isatty()
        self._next = 0.0 if self._tty else time.monotonic() + 10

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now < self._next and not (self._tty and done == self._total):
            return
        self._next = now + (0.1 if self._tty else 10)
        text = f"xpu_ops: {done} of {self._total} kernel modules"
        if self._tty:
            filled = 30 * done // self._total
            text = f"\r{text} [{'#' * filled}{'.' * (30 - filled)}]" + ("\n" if done == self._total else "")
        print(text, end="" if self._tty else "\n", file=sys.stderr, flush=True)


def main(families: list[str], jobs: int = 0, device: int = 0) -> int:
    """Prints how many modules there were of each kind and the seconds; the exit code."""
    import xpu_ops

    gpu = not xpu_ops._C.device_policy(device)["single_items"]
    names = module_names(package_dir() / "modules", gpu)
    if families:
        names = [name for name in names if any(name == f or name.startswith(f + "_") for f in families)]
    if not names:
        print(f"xpu_ops: no kernel module belongs to {', '.join(families)}", file=sys.stderr)
        return 1
    jobs = min(jobs if jobs > 0 else len(os.sched_getaffinity(0)), len(names))
    counts: Counter[str] = Counter()
    line = Line(len(names))
    begin = time.monotonic()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = {pool.submit(link, name, device): name for name in names}
        for done, future in enumerate(as_completed(futures), 1):
            try:
                counts[future.result()] += 1
            except BrokenProcessPool:
                counts["failed"] += 1  # what broke the pool fails all that was left
            except RuntimeError as error:
                counts["failed"] += 1
                print(f"xpu_ops: {futures[future]}: {error}", file=sys.stderr)
            line.show(done)
    print(
        f"xpu_ops: {len(names)} kernel modules for xpu:{device}: {counts['linked']} linked, {counts['cached']} cached, "
        f"{counts['native']} native, {counts['failed']} failed; {time.monotonic() - begin:.1f} s in {jobs} processes; "
        f"cache folder {cache_dir()}"
    )
    return 1 if counts["failed"] else 0
