"""Fixtures of the tests of native operators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import xpu_ops


@pytest.fixture(params=[True, False], ids=["inline", "device"])
def here_or_launched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small work may run on the calling thread, and all of it on the device."""
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(before and request.param)
    yield
    xpu_ops.set_inline(before)
