"""A stage whose items fail in every way: for tests of the parent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

from xpu_ops.bringup.stages import Figures, Item, Skipped


def stage() -> Iterator[Item]:
    def fine(figures: Figures) -> str:
        figures["answer"] = 42
        print("what an item prints does not disturb the protocol")
        return ""

    def raises(figures: Figures) -> str:
        raise ValueError("no")

    def missing(figures: Figures) -> str:
        raise Skipped("not installed")

    def crashes(figures: Figures) -> str:
        os.kill(os.getpid(), signal.SIGSEGV)
        return ""

    def hangs(figures: Figures) -> str:
        time.sleep(600)
        return ""

    yield from {"crashes": crashes, "fine": fine, "wrong": lambda figures: "differs", "raises": raises}.items()
    yield from {"hangs": hangs, "missing": missing, "last": fine}.items()
