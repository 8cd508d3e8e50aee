"""The pytest plugin behind `pytest --xpu`: fallbacks fail, known differences are held to, and a summary says what ran.

`xpu_ops_pytest` has the options and installs this module's plugin with them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch

import xpu_ops

MODES = {
    "XPU_OPS_DISCRETE": "memory of its own",
    "XPU_OPS_POLICY": "plans of a GPU",
    "XPU_OPS_REDZONE": "red zones",
    "XPU_OPS_POISON": "poisoned memory",
    "XPU_OPS_EMULATE": "emulates",
    "XPU_OPS_INLINE": "small work on the calling thread",
    "XPU_OPS_SYNC_ERRORS": "a wait per launch",
    "PYTORCH_ENABLE_XPU_FALLBACK": "fallbacks",
}
SEED = 0


def install(config: pytest.Config) -> None:
    """Register the plugin. Raises UsageError where there is no xpu device."""
    if not torch.xpu.is_available():
        raise pytest.UsageError(
            "--xpu: torch finds no xpu device, and tests that ask for one would be skipped; `xpu-ops doctor` says why. "
            + unavailable()
        )
    config.pluginmanager.register(Plugin(config), "xpu_ops_testing")


def unavailable() -> str:
    """The first line of the error that the use of a device raises."""
    try:
        torch.xpu.init()
    except (ImportError, RuntimeError, ValueError) as error:
        return str(error).strip().partition("\n")[0]
    return ""


def modes() -> str:
    """How the device runs, from the environment."""
    said = []
    for name, text in MODES.items():
        value = os.environ.get(name, "")
        if value in ("", "0") and not (value == "0" and name in ("XPU_OPS_INLINE", "PYTORCH_ENABLE_XPU_FALLBACK")):
            continue
        said.append(
            f"{text} ({value})"
            if name in ("XPU_OPS_POLICY", "XPU_OPS_EMULATE")
            else text
            if value != "0"
            else f"no {text}"
        )
    return ", ".join(said) or "default: memory shared with the host, plans of the CPU device"


def devices() -> list[str]:
    names = [torch.xpu.get_device_properties(i) for i in range(torch.xpu.device_count())]
    return [f"{p.name}, {p.total_memory / 2**30:.1f} GiB" for p in names]


def known_differences(paths: list[str], root: Path = Path()) -> list[tuple[re.Pattern[str], str]]:
    """Pairs of pattern and reason from files of `test id: reason`. An id may have `*` for any text. A file is looked for from the root, too."""
    found = []
    for path in paths:
        try:
            text = (Path(path) if Path(path).exists() else root / path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise pytest.UsageError(f"--xpu-known-differences: {path}: {error}") from None
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, separator, reason = line.partition(": ")
            if not separator or not reason.strip():
                raise pytest.UsageError(f"{path}:{number}: expected `test id: reason`, got {line!r}")
            pattern = ".*".join(re.escape(part) for part in name.strip().split("*"))
            found.append((re.compile(pattern), reason.strip()))
    return found


class Plugin:
    """Counts fallbacks and device work per test, in the process that runs it, and adds both up from the tests' reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.strict = bool(config.option.xpu_strict)
        self.allowed = {*(config.option.xpu_allow_fallback or ()), *config.getini("xpu_allow_fallback")}
        self.differences = known_differences(config.option.xpu_known_differences or [], config.rootpath)
        self.before = 0
        self.told: Counter[str] = Counter()  # of this process's fallbacks, those that a report has
        self.outside: Counter[str] = Counter()  # fallbacks before a test, as a file's import has them
        self.calls: Counter[str] = Counter()
        self.calls_outside: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.on_device = self.off_device = 0
        self.refused: set[str] = set()

    def pytest_report_header(self) -> str:
        return f"xpu: {torch.xpu.device_count()} x {devices()[0]}; {modes()}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            mark = item.get_closest_marker("xpu_known_difference")
            if mark is not None:
                reason = reason_of(mark)
            else:
                reason = next((text for pattern, text in self.differences if pattern.fullmatch(item.nodeid)), None)
            if reason:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.outside = Counter(xpu_ops.fallback.counts()) - self.told
        xpu_ops.fallback.reset()
        self.told = Counter()
        self.before = allocations()
        if self.strict:
            torch.manual_seed(SEED)
        wrong = misused(item)
        if wrong:
            pytest.fail(wrong, pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        result = yield
        self.finish(item)
        return result

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        before = Counter(xpu_ops.fallback.counts())
        try:
            result = yield
        except BaseException:
            drain()  # a fixture's own error says more than that of the device
            raise
        self.finish(item, before)
        return result

    def finish(self, item: pytest.Item, before: Counter[str] | None = None) -> None:
        """Wait for the devices, so that a kernel's error is this test's, and fail on a fallback since `before` that nobody allowed."""
        errors = drain()
        if errors:
            raise errors[0]
        calls = Counter(xpu_ops.fallback.counts()) - (before or Counter())
        refused = {op: n for op, n in calls.items() if not self.may_fall_back(item, op)}
        if refused:
            pytest.fail(
                f"ran on the CPU, without a kernel for xpu: {_listed(refused)}. PYTORCH_ENABLE_XPU_FALLBACK=0 raises "
                "where that happens; the marker xpu_allow_fallback or --xpu-allow-fallback permits it.",
                pytrace=False,
            )

    def may_fall_back(self, item: pytest.Item, op: str) -> bool:
        allowed = self.allowed
        for mark in item.iter_markers("xpu_allow_fallback"):
            if not mark.args and not mark.kwargs:
                return True
            allowed = allowed | {name for name in mark.args if isinstance(name, str)}
        names = {op, op.removeprefix("aten::"), op.split(".")[0], op.split(".")[0].removeprefix("aten::"), "all"}
        return bool(names & allowed)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        report = yield
        if call.when == "teardown":
            # Attributes of a report travel from pytest-xdist's workers to the process that prints the summary.
            counts = xpu_ops.fallback.counts()
            self.told = Counter(counts)
            report.xpu_fallbacks = counts
            report.xpu_outside = dict(self.outside)
            report.xpu_refused = [op for op in counts if not self.may_fall_back(item, op)]
            report.xpu_used = allocations() != self.before  # fewer where the test reset the statistics
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        counts = getattr(report, "xpu_fallbacks", None)
        if counts is None:
            return
        self.calls.update(counts)
        self.calls_outside.update(report.xpu_outside)
        self.tests.update(counts.keys())
        self.refused.update(report.xpu_refused)
        self.on_device += report.xpu_used
        self.off_device += not report.xpu_used

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.write_sep("=", "xpu")
        for index, text in enumerate(devices()):
            write(f"xpu:{index}: {text}")
        write(f"mode: {modes()}")
        write(f"tests: {self.on_device} used the device, {self.off_device} did not")
        for op, calls in self.calls_outside.most_common():
            write(f"outside of tests, as in the import of a file: {op}: {calls} on the CPU")
        if not self.calls:
            write("fallbacks to the CPU: none")
            return
        write(f"fallbacks to the CPU: {sum(self.calls.values())} calls of {len(self.calls)} operators")
        for op, calls in self.calls.most_common():
            allowed = "" if op in self.refused else ", allowed"
            write(f"  {op}: {calls} in {self.tests[op]} tests{allowed}")


def reason_of(mark: pytest.Mark) -> str | None:
    reason = mark.kwargs.get("reason") or (mark.args[0] if mark.args else None)
    return reason.strip() or None if isinstance(reason, str) else None


def misused(item: pytest.Item) -> str | None:
    """A marker of ours that says nothing sensible. It fails its test alone: an error of the collection hides its text in workers of pytest-xdist."""
    difference = item.get_closest_marker("xpu_known_difference")
    if difference is not None and reason_of(difference) is None:
        return "xpu_known_difference needs a reason"
    for mark in item.iter_markers("xpu_allow_fallback"):
        if mark.kwargs or not all(isinstance(name, str) for name in mark.args):
            given = ", ".join([*map(repr, mark.args), *(f"{name}={value!r}" for name, value in mark.kwargs.items())])
            return f"xpu_allow_fallback takes names of operators, such as 'aten::histc', got {given}"
    return None


def drain() -> list[Exception]:
    """Wait for all devices. Their deferred errors, which the next test would raise otherwise; red zones are looked at, too."""
    errors: list[Exception] = []
    if torch.xpu.is_initialized():
        for index in range(torch.xpu.device_count()):
            try:
                torch.xpu.synchronize(index)
            except (RuntimeError, IndexError, ValueError) as error:
                errors.append(error)
    return errors


def allocations() -> int:
    """Blocks that the allocators of all devices have given out so far."""
    if not torch.xpu.is_initialized():
        return 0
    stats = (torch.xpu.memory_stats(i) for i in range(torch.xpu.device_count()))
    return sum(int(s.get("allocation.all.allocated", 0)) for s in stats)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{op} ({n})" for op, n in counts.items())
