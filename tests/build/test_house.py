"""Rules of the house that a grep can check: docs/architecture.md says why."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Launches that families of bindings/ still plan themselves. The number may only fall; kernels/ops is their place.
LAUNCHES_IN_BINDINGS = 0


def sources(*folders: str) -> Iterator[tuple[str, str]]:
    """Path and text of the C++ files below the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.?pp")):
            yield str(path.relative_to(ROOT)), path.read_text()


def test_kernels_include_no_torch() -> None:
    found = [p for p, text in sources("kernels") if re.search(r'#\s*include\s*[<"](torch|ATen|c10)/', text)]
    assert not found


def test_no_family_asks_for_the_kind_of_device() -> None:
    """They read Policy; the runtime that makes it, oneDNN's CPU engine, the device's own properties and the start of a
    program without Python may ask."""
    allowed = (
        "kernels/runtime/",
        "kernels/onednn/engine.cpp",
        "bindings/runtime/module.cpp",
        "bindings/aoti/runner.cpp",
    )
    found = [
        p
        for p, text in sources("kernels", "bindings")
        if not p.startswith(allowed)
        and re.search(r"(device_info\(.*\)|\bdevice|\binfo)\.(is_cpu|max_compute_units)\b", text)
    ]
    assert not found


def test_vectors_at_any_address_are_declared_so() -> None:
    """clang drops `aligned` behind the = of an alias: a load of the vector then demands its own alignment."""
    found = [
        (p, m.group()) for p, text in sources("kernels") for m in re.finditer(r"using \w+ =[^;]*\baligned\(", text)
    ]
    assert not found, "write `using name __attribute__((ext_vector_type(n), aligned(m))) = type`"


def test_launches_in_bindings_only_fall() -> None:
    count = sum(len(re.findall(r"runtime::launch2?\(", text)) for _, text in sources("bindings"))
    assert count <= LAUNCHES_IN_BINDINGS, "a family launches from kernels/ops"
    assert count == LAUNCHES_IN_BINDINGS, "fewer launches: write the new number down"


@pytest.mark.parametrize("folder", ["kernels", "bindings", "tools", "tests"])
def test_includes_are_spelled_from_the_repository(folder: str) -> None:
    tracked = set(
        subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    )
    wrong = [
        (path, name)
        for path, text in sources(folder)
        for name in INCLUDE.findall(text)
        # Headers of models are compiled where a model is exported, with their own folder as the root.
        if not name.startswith("gen/") and name not in tracked and not path.startswith("bindings/aoti/model/")
    ]
    assert not wrong


def test_comments_have_a_subject() -> None:
    """CONTRIBUTING.md: no comment or docstring begins with a headless 'What'."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.?pp", "*.yaml", "*.txt", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    headless = re.compile(r'^\s*(//|#|"""|\*) ?What (?!.*\?)', re.MULTILINE)
    assert not [p for p in tracked if headless.search((ROOT / p).read_text())]


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their base names."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)
