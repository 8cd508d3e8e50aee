"""The API pages: pdoc renders them without a warning, and every public function has documentation."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import xpu_ops

ROOT = Path(__file__).resolve().parents[2]


def with_names() -> Iterator[str]:
    """The modules of the package that list public names in __all__."""
    for path in sorted((ROOT / "xpu_ops").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                parts = path.relative_to(ROOT).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


LISTED = list(with_names())
MODULES = [xpu_ops, *(m for n in xpu_ops.__all__ if isinstance(m := getattr(xpu_ops, n), ModuleType))]


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names that a module lists, with the members of its namespaces and the functions that a callable object carries."""
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            continue
        if isinstance(value, SimpleNamespace):
            yield from ((f"{name}.{n}", v) for n, v in vars(value).items())
            continue
        yield name, value
        if not isinstance(value, type):
            attached = (n for n, v in vars(type(value)).items() if isinstance(v, staticmethod) and n[0] != "_")
            yield from ((f"{name}.{n}", getattr(value, n)) for n in attached)


def test_pages_render_without_warnings(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc is in requirements/docs.txt, which is not installed here")
    from tools import api_docs

    names = {str(p.relative_to(tmp_path)) for p in api_docs.render(tmp_path)}
    assert {"xpu_ops.html", *(f"{m.__name__.replace('.', '/')}.html" for m in MODULES)} <= names
    page = (tmp_path / "xpu_ops.html").read_text()
    assert [n for n in xpu_ops.__all__ if n not in page] == []


@pytest.mark.parametrize("name", LISTED)
def test_public_names_say_their_source(name: str) -> None:
    """CONTRIBUTING.md, rule 7: where what a name does comes from."""
    values = dict(public(importlib.import_module(name)))
    assert values
    assert [n for n, v in values.items() if not re.search(r"\nSource: \S.*\.(\n|$)", inspect.getdoc(v) or "")] == []


def test_public_modules_are_described() -> None:
    described = re.findall(r":mod:`([\w.]+)`", xpu_ops.__doc__)
    assert sorted(described) == sorted(m.__name__ for m in MODULES[1:])
    assert [m.__name__ for m in MODULES if not m.__doc__ or m.__name__ not in LISTED] == []
    assert {"fallback.counts", "ipex.llm.optimize", "optimize.undo", "onednn.weight_cache"} <= {
        f"{m.__name__}.{n}".removeprefix("xpu_ops.") for m in MODULES for n, _ in public(m)
    }


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


OLD = "|".join(xpu_ops._RENAMED)


def uses_of_old_names(path: str, text: str) -> list[str]:
    """Old public names in a text. The extension has functions of these names, too."""
    before = r"xpu_ops\." if path.endswith((".cpp", ".hpp")) else r"(?<!_C\.)\b"
    return re.findall(rf"{before}(?:{OLD})\b", text)


def test_nothing_of_ours_uses_an_old_name() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()  # fmt: skip
    assert "xpu_ops/fallback.py" in listed
    # The table itself, the extension's own names, the tests of the old names, and pages that tell of the change.
    own = (
        "xpu_ops/__init__.py",
        "xpu_ops/_C.pyi",
        "tests/docs/test_api.py",
        "tests/runtime/test_fallback.py",
        "CHANGELOG.md",
    )
    found = {}
    for name in listed:
        if name in own or name.startswith("docs/notes/") or not (ROOT / name).is_file():
            continue
        if used := uses_of_old_names(name, (ROOT / name).read_text(errors="replace")):
            found[name] = used
    assert found == {}


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("a.py", "from xpu_ops import forbid_fallback, jit", 1),
        ("a.py", "xpu_ops.reset_fallback_counts(); x.fallback_counts()", 2),
        ("a.py", "_C.fallback_counts(); xpu_ops.fallback.counts()", 0),
        ("a.cpp", '"xpu_ops.fallback_counts() lists them"', 1),
        ("a.cpp", "void reset_fallback_counts() {", 0),
    ],
)
def test_an_old_name_is_found(path: str, text: str, count: int) -> None:
    assert len(uses_of_old_names(path, text)) == count
