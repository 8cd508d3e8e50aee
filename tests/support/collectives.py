"""Kernels compiled at run time are given to tools/lint_collectives as they are compiled: a fixture for their tests."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # tools/

from tools.lint_collectives import check_text, headers, program_of
from tools.lint_collectives.program import Program

_seen: set[str] = set()


@functools.cache
def _headers() -> Program:
    program = program_of(headers())
    program.run()
    return program


@pytest.fixture(autouse=True)
def converged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every kernel that the test has compiled or looked up calls its collectives in converged flow."""
    from xpu_ops.jit import service

    sources: list[str] = []
    digest = service.source_digest

    def noted(source: str) -> str:
        if source and source not in _seen:
            _seen.add(source)
            sources.append(source)
        return digest(source)

    monkeypatch.setattr(service, "source_digest", noted)
    yield
    found = [f"{f}\n{source}" for source in sources for f in check_text(source, _headers())]
    assert not found, "\n".join(found)
