"""The API pages: pdoc renders them without a warning, and every public function has documentation."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import xpu_ops

MODULES = [
    xpu_ops,
    *(importlib.import_module(f"xpu_ops.{name}") for name in ("fused", "jit", "onednn", "onemkl", "vision")),
]


def test_pages_render_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc is in requirements/docs.txt, which is not installed here")
    from tools import api_docs

    names = {str(p.relative_to(tmp_path)) for p in api_docs.render(tmp_path)}
    assert {"xpu_ops.html", *(f"{m.__name__.replace('.', '/')}.html" for m in MODULES)} <= names
    page = (tmp_path / "xpu_ops.html").read_text()
    assert [n for n in xpu_ops.__all__ if n not in page] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_public_functions_are_documented(module) -> None:
    """CONTRIBUTING.md, rule 7: a function and a class also say where what they do comes from."""
    public = {n: getattr(module, n) for n in module.__all__}
    assert public
    assert [n for n, value in public.items() if not inspect.getdoc(value)] == []
    callables = {n: value for n, value in public.items() if callable(value)}
    assert [n for n, value in callables.items() if "\nSource: " not in inspect.getdoc(value)] == []


def test_public_names_are_listed() -> None:
    """Completion shows them, a fresh process has them, and what is not listed is no attribute."""
    code = (
        "import sys, xpu_ops; before = set(sys.modules); names = dir(xpu_ops);"
        "assert set(sys.modules) == before and set(xpu_ops.__all__) | {'__version__'} <= set(names), names;"
        "assert not [n for n in names if not n.startswith('_') and n not in xpu_ops.__all__], names;"
        "[getattr(xpu_ops, n) for n in names]; print(hasattr(xpu_ops, 'bench'), hasattr(xpu_ops, 'cli'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr
