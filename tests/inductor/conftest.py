"""Compiled against eager, in one place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.collectives import converged  # noqa: F401

# Graphs compiled by an earlier run must not stand for those of this one.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="xpu_ops-inductor-"))

Check = Callable[..., Any]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def run(f: Callable[..., Any], *args: Any, dynamic: bool | None = None, **tolerance: float) -> Any:
    """The compiled result, after a comparison with the eager one."""
    expected = f(*args)
    got = torch.compile(f, dynamic=dynamic, fullgraph=True)(*args)
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)
    return got


@pytest.fixture
def same() -> Check:
    return run


@pytest.fixture
def kernels() -> Callable[[], int]:
    """How many kernels were built since the test began."""
    from xpu_ops.jit import service

    before = len(service.records)
    return lambda: sum(r.kernels for r in service.records[before:])
