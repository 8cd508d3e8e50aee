"""A pytest plugin for the scorecard's runs: takes each n-th test, names xpu to suites that list their devices, writes results.

`python -m pytest -p tools.scorecard.part --results results.jsonl --each 10`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, help="file that gets a line per test")
    parser.addoption("--each", type=int, default=1, help="take each n-th test")
    parser.addoption("--default-device", help="torch's default device")
    parser.addoption("--only-ids", type=Path, help="file of the test ids to run, one per line")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    # kornia lists the devices that it knows in its conftest.py; `--device xpu` chooses one of them.
    for module in list(sys.modules.values()):
        listed = getattr(module, "TEST_DEVICES", None)
        if isinstance(listed, dict) and "cpu" in listed and "torch" in sys.modules:
            import torch

            listed.setdefault("xpu", torch.device("xpu:0"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if path := config.option.only_ids:
        wanted = set(path.read_text().splitlines())
        items[:] = [item for item in items if item.nodeid in wanted]
    items[:] = items[:: config.option.each]


def pytest_runtest_logstart(nodeid: str) -> None:
    _write({"id": nodeid, "started": True})


def pytest_runtest_logreport(report: Any) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    line: dict[str, Any] = {"id": report.nodeid, "when": report.when, "outcome": report.outcome}
    if hasattr(report, "wasxfail"):
        line["outcome"] = "xfailed" if report.skipped else "xpassed"
    elif report.failed:
        line["error"] = _first_line(report.longrepr)
    _write(line)


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(
            {
                "id": report.nodeid or "collection",
                "when": "collect",
                "outcome": "failed",
                "error": _first_line(report.longrepr),
            }
        )


def _first_line(longrepr: Any) -> str:
    crash = getattr(longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(longrepr)
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if crash is not None else lines[-1])[:300] if lines else "?"


_path: Path | None = None


def pytest_configure(config: pytest.Config) -> None:
    global _path
    _path = config.option.results
    if config.option.default_device:
        import torch

        torch.set_default_device(config.option.default_device)


def _write(line: dict[str, Any]) -> None:
    if _path is not None:
        with _path.open("a") as out:
            out.write(json.dumps(line) + "\n")
