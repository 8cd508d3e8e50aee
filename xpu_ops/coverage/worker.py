"""A pytest plugin that runs tests one by one on request and records what each comparison with the CPU executed.

The parent (runner.py) starts `python -m pytest -p xpu_ops.coverage.worker` with two pipes and sends ids of tests. A window
is what ran on xpu between two calls of the suite's own `assert_same` or `assert_near`; its outcome is that of the comparison that ends it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from . import observe
from .runner import IMPORTS, PIPES


class Windows:
    """Calls that the running test has executed, by comparison."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def close(self, agree: bool | None, ran: tuple[list[observe.Call], bool] | None = None) -> None:
        """Ends a window. agree: True and False as the comparison said, None where there was none."""
        calls, backward = observe.drain() if ran is None else ran
        # Calls that raised count at the end of a test alone: before, it is an error that the test expects.
        rows = sorted(
            {
                (c.overload, c.dtype, c.layout, c.how, " ".join(c.cpu_below), c.grad)
                for c in calls
                if not c.inner and (c.how != "raised" or agree is None)
            }
        )
        if rows:
            self.seen[json.dumps({"agree": agree, "backward": backward, "calls": rows})] += 1

    def take(self) -> list[dict[str, Any]]:
        windows = [{**json.loads(text), "n": n} for text, n in self.seen.items()]
        self.seen.clear()
        return windows

    def watched(self, assertion: Callable[..., None]) -> Callable[..., None]:
        """One of the suite's comparisons, which also ends a window where its reference is the CPU's."""

        def compare(actual: Any, expected: Any, **options: Any) -> None:
            ran = observe.drain()
            references = [t for t in tree_leaves(expected) if isinstance(t, (torch.Tensor, int, float, complex))]
            on_cpu = all(t.device.type == "cpu" for t in references if isinstance(t, torch.Tensor))
            # Of the CPU against itself: whatever ran on xpu meanwhile was not what is compared.
            results = [t for t in tree_leaves(actual) if isinstance(t, torch.Tensor)]
            of_xpu = not results or any(t.device.type == "xpu" for t in results)
            agree: bool | None = False
            try:
                assertion(actual, expected, **options)
                agree = True
            finally:
                observe.drain()  # the comparison's own copies to the CPU
                self.close(agree if references and on_cpu and of_xpu else None, ran)

        return compare


class Worker:
    def __init__(self, requests: Iterator[str], reply: Callable[[dict[str, Any]], None]) -> None:
        self.requests, self.reply = requests, reply
        self.windows = Windows()
        self.reports: list[pytest.TestReport] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        for name in filter(None, os.environ.get(IMPORTS, "").split(",")):
            importlib.import_module(name)
        # Before any test module binds the name.
        compare: Any = importlib.import_module("support.compare")
        for name in ("assert_same", "assert_near"):
            setattr(compare, name, self.windows.watched(getattr(compare, name)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        self.reply({"collected": list(items)})
        torch.xpu.init()
        with observe.observing():
            for unit in self.requests:
                self.reply(self.run(items[unit]))
        return True

    def run(self, item: pytest.Item) -> dict[str, Any]:
        self.reports.clear()
        observe.drain()
        start = time.perf_counter()
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        seconds = time.perf_counter() - start
        self.windows.close(None)
        outcome, message = self.outcome()
        return {
            "unit": item.nodeid,
            "outcome": outcome,
            "seconds": round(seconds, 3),
            "message": message,
            "windows": self.windows.take(),
        }

    def outcome(self) -> tuple[str, str]:
        """passed, failed, known (an expected failure of the ledger) or skipped, and why."""
        for report in self.reports:
            if hasattr(report, "wasxfail"):
                return ("known" if report.skipped else "failed"), str(report.wasxfail)[:300]
            if report.skipped:
                return "skipped", str(report.longrepr)[-300:]
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                return "failed", str(crash.message if crash else report.longrepr)[:500]
        return "passed", ""


def _end_with_the_parent() -> None:
    """Has Linux end this process if the run is killed: a test that hangs would not notice that its pipe has closed."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def pytest_configure(config: pytest.Config) -> None:
    pipes = os.environ.get(PIPES)
    if not pipes:
        raise pytest.UsageError("xpu_ops.coverage.worker is started by `xpu-ops coverage run`")
    _end_with_the_parent()
    read, write = (int(fd) for fd in pipes.split(","))
    out = os.fdopen(write, "w", buffering=1)

    def reply(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")

    config.pluginmanager.register(Worker(map(str.rstrip, os.fdopen(read)), reply), "xpu_ops_coverage_worker")
