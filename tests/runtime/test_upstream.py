"""Changes in torch and in other libraries: every target is there, and is what the change was written for."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tools import torch_release
from xpu_ops import upstream
from xpu_ops.upstream import registry

ROOT = Path(__file__).resolve().parents[2]
# Library and release -> target -> signature. `python -m xpu_ops.upstream --signatures torch` prints those of what is installed.
KNOWN = json.loads((Path(__file__).parent / "upstream_signatures.json").read_text())
LIBRARIES = ("torch", "torchvision", "torchao", "transformers", "lightning", "vllm")


def numbers(name: str) -> list[int]:
    return [int(n) for n in name.split()[-1].split(".")]


def written_for(release: str) -> dict[str, str]:
    """The signatures of a release of a library, or of the last before it that is known."""
    names = [n for n in KNOWN if n.split()[0] == release.split()[0] and numbers(n) <= numbers(release)]
    assert names, f"no signatures of {release} or an earlier one"
    return KNOWN[max(names, key=numbers)]


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, str]]:
    """Signatures by a process of its own: it imports all of the libraries and of Inductor that is changed."""
    installed = [n for n in LIBRARIES if importlib.util.find_spec(n) is not None]
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.upstream", "--signatures", *installed]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_target_is_what_the_change_was_written_for(found: dict[str, dict[str, str]], library: str) -> None:
    release = next((r for r in found if r.split()[0] == library), None)
    if release is None:
        pytest.skip(f"{library} is not installed")
    now, known = found[release], written_for(release)
    changed = {t: (known.get(t), now.get(t)) for t in known.keys() | now.keys() if known.get(t) != now.get(t)}
    assert changed == {}, "adapt the changes, then write the signatures of this release to upstream_signatures.json"


@pytest.mark.parametrize("release", torch_release.settings()["torch"])
def test_a_release_of_torch_has_what_is_changed_in_it(release: str) -> None:
    """Whichever is installed: a change of a function that a release lacks warns in each program there."""
    known = KNOWN[f"torch {release}"]
    given = {
        t
        for c in upstream.changes()
        if numbers(c.since) <= numbers(release) and (c.until is None or numbers(release) < numbers(c.until))
        for t in c.targets
        if t.startswith("torch.")
    }
    assert given - known.keys() == set()


def test_every_test_is_there() -> None:
    changes = upstream.changes()
    assert len(changes) > 50
    for path, name in {tuple(c.test.split("::")) for c in changes}:
        names = {n.name for n in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(n, ast.FunctionDef)}
        assert name in names, f"{path}::{name}"


def test_every_file_is_installed_by_somebody() -> None:
    files = {p.stem for p in (ROOT / "xpu_ops" / "upstream").glob("*.py")}
    own = {"__init__", "__main__", "registry", "after_import"}
    assert files - own == {*upstream.CORE, *upstream.AFTER_CORE, *upstream.DOORS.values(), *upstream.ON_REQUEST}
    assert {c.file for c in upstream.changes()} == files - own


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library of its own, and a registry that knows nothing else."""

    class Class:
        static = staticmethod(lambda x: x)
        kind = classmethod(lambda cls, x: (cls, x))

    module: Any = ModuleType("some_library")
    module.Class, module.function, module.table, module.value = Class, (lambda a, b=2, *, c: a), {"key": abs, 1: {}}, 3
    monkeypatch.setitem(sys.modules, "some_library", module)
    monkeypatch.setattr(registry, "CHANGES", [])
    return module


SAID = {"since": "1.0", "why": "a reason", "test": "a test"}


def test_functions_methods_and_entries_are_replaced(library: Any) -> None:
    targets = [f"some_library.{n}" for n in ("function", "Class.static", "Class.kind", "table['key']")]
    registry.replaces(*targets, **SAID)(lambda upstream: lambda *a, **k: ("ours", upstream(*a, **k)))
    before = library.Class
    registry.apply("test_upstream")
    assert library.function(1, c=0) == ("ours", 1)
    assert library.Class.static(2) == library.Class().static(2) == ("ours", 2)
    assert library.Class.kind(3) == ("ours", (before, 3))
    assert library.table["key"](-4) == ("ours", 4)
    assert registry.signatures("some_library")["some_library.function"] == "(a, b=, *, c)"


def test_two_names_of_one_function_get_one_function(library: Any) -> None:
    library.other = library.function
    registry.replaces("some_library.function", "some_library.other", **SAID)(lambda upstream: lambda: upstream)
    registry.apply("test_upstream")
    assert library.function is library.other


def test_a_replacement_during_a_call(library: Any) -> None:
    during = registry.temporarily("some_library.value", **SAID)
    with during(5):
        assert library.value == 5
    assert library.value == 3


def test_only_declared_names_are_added(library: Any) -> None:
    registry.adds("some_library.own_*", **SAID)(lambda: {"some_library.own_name": 1, "some_library.value": 2})
    with pytest.raises(ValueError, match=r"some_library\.value is not declared"):
        registry.apply("test_upstream")
    assert library.own_name == 1 and library.value == 3


def test_a_target_that_is_gone_is_named(library: Any) -> None:
    registry.replaces("some_library.gone", **SAID)(lambda upstream: upstream)
    with pytest.raises(AttributeError, match="gone"):
        registry.signatures("some_library")
    with pytest.raises(AttributeError, match="gone"):
        registry.apply("test_upstream")


def test_a_change_ends_with_the_release_that_has_no_target(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.replaces("some_library.function", until="1.10", **SAID)(lambda upstream: None)
    for installed, changed in (("1.10.1", False), ("2.0", False), ("1.9+cpu", True)):
        monkeypatch.setattr(registry, "_installed", lambda name, v=installed: v.partition("+")[0])
        library.function = len
        registry.apply("test_upstream")
        assert (library.function is not len) == changed, installed


def test_a_library_without_the_target_can_be_imported(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other devices are served by what was not changed."""

    def install(module: Any) -> None:
        raise AttributeError("no such function")

    monkeypatch.setattr(upstream, "_file", lambda name: SimpleNamespace(install=install))
    with pytest.warns(RuntimeWarning, match="could not change some_library for xpu: AttributeError: no such function"):
        upstream._action("file")(library)
