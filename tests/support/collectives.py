"""Kernels compiled at run time are given to tools/lint_collectives as they are compiled: a fixture for their tests."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    from xpu_ops.triton.lower import kernel

    sources: list[str] = []
    digest, lower = service.source_digest, kernel.lower

    def note(source: str) -> None:
        if source and source not in _seen:
            _seen.add(source)
            sources.append(source)

    def digested(source: str) -> str:
        note(source)
        return digest(source)

    def lowered(*args: Any, **options: Any) -> kernel.Lowered:
        out = lower(*args, **options)
        note(out.source)
        return out

    monkeypatch.setattr(service, "source_digest", digested)
    monkeypatch.setattr(kernel, "lower", lowered)
    yield
    found = [f"{f}\n{source}" for source in sources for f in check_text(source, _headers())]
    assert not found, "\n".join(found)
