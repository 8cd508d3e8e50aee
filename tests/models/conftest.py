"""Collects what the model tests measured; XPU_OPS_MODELS_REPORT=<file> writes it as the table of docs/models.md."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TARGET = os.environ.get("XPU_OPS_MODELS_REPORT")
_rows: list[tuple[list[Any], bool]] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Times are measured for the table only."""
    if not TARGET:
        dropped = [i for i in items if i.get_closest_marker("measure")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [i for i in items if not i.get_closest_marker("measure")]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "measure: runs only where the table of models is written")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _rows.extend((value, report.passed) for key, value in report.user_properties if key == "model")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if TARGET and _rows and not hasattr(session.config, "workerinput"):
        import report

        report.write(Path(TARGET), _rows)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[..., None]:
    """record(family, mode, error, error of the CPU): kept with the test's report, which xdist hands to its controller."""

    def add(family: str, mode: str, *values: float) -> None:
        request.node.user_properties.append(("model", [family, mode, *values]))

    return add
