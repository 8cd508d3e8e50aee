"""A pytest plugin that records the launches of the tests it runs; tools/gpu/record.py starts it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.gpu.record import Mode, Recorder, keep_jit_sources

_recorder: Recorder | None = None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of this process."""
    env = os.environ
    part, _, parts = env["GPU_RECORD_PART"].partition("/")
    items[:] = items[int(part) :: int(parts)]


def pytest_sessionstart() -> None:
    """Before the tests are imported: some use the device then, and memory comes from the recorder from the first use on."""
    global _recorder
    env = os.environ
    keep_jit_sources(Path(env["GPU_RECORD_JIT"]))
    _recorder = Recorder(
        Path(env["GPU_RECORD_LIBRARY"]),
        Path(env["GPU_RECORD_FILE"]),
        Mode.RECORD,
        int(env["GPU_RECORD_EACH"]),
        int(env["GPU_RECORD_MOST"]),
    )
    for line in Path(env["GPU_RECORD_COUNTS"]).read_text().splitlines():
        kernel, _, count = line.rpartition(" ")
        _recorder.count(kernel, int(count))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _recorder is not None:
        _recorder.mark(item.nodeid)


def pytest_sessionfinish() -> None:
    if _recorder is not None:
        _recorder.stop()
