"""The API pages: pdoc renders them without a warning, and every public function has documentation."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import xpu_ops
from xpu_ops import fused, jit, onednn


def test_pages_render_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc is in requirements/docs.txt, which is not installed here")
    from tools import api_docs

    names = {str(p.relative_to(tmp_path)) for p in api_docs.render(tmp_path)}
    assert {"xpu_ops.html", "xpu_ops/fused.html", "xpu_ops/jit.html", "xpu_ops/onednn.html"} <= names
    page = (tmp_path / "xpu_ops.html").read_text()
    assert [n for n in xpu_ops.__all__ if n not in page] == []


@pytest.mark.parametrize("module", [xpu_ops, fused, jit, onednn], ids=lambda m: m.__name__)
def test_public_functions_are_documented(module) -> None:
    public = {n: getattr(module, n) for n in module.__all__}
    assert public
    assert [n for n, value in public.items() if not inspect.getdoc(value)] == []
