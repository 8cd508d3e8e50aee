"""One list of environment variables: nothing in the tree reads another one, and every reader reads what the list says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from xpu_ops import _environment

ROOT = Path(__file__).resolve().parents[2]
LISTED = {v.name: v for v in (*_environment.RUN_TIME, *_environment.BUILD, *_environment.TESTS)}
# Variables of the system, of pytest, of torchrun and of a machine with a GPU, which programs pass on or change for those that
# they start.
PASSED_ON = {
    "HOME",
    "PATH",
    "PYTHONPATH",
    "LD_PRELOAD",
    "OUT",
    "COLUMNS",
    "PYTEST_ADDOPTS",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
}
READS = (
    r"getenv\(\s*\"(\w+)\"",
    r"env_(?:flag|number)\(\s*\"(\w+)\"",
    r"os\.getenv\(\s*[\"'](\w+)[\"']",
    r"os\.environ(?:\.\w+\(|\[)\s*[\"'](\w+)[\"']",
    r"[\"'](\w+)[\"'] (?:not )?in os\.environ",
    # names that stand in a constant, or are set for another program
    r"[\"'`]((?:XPU_OPS|PYTORCH_(?:\w+_)?XPU)_[A-Z0-9_]+)[\"'`]",
)
# CMake's own options and macros: no variables of the environment.
NO_VARIABLES = re.compile(r"XPU_OPS_(PCH|KERNELC_JOBS|REDUCTION2?|VERSION)$")


def names_read(text: str) -> set[str]:
    found = {name for pattern in READS for name in re.findall(pattern, text)}
    return {n for n in found if n not in PASSED_ON and not NO_VARIABLES.match(n)}


def sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*.cpp", "*.hpp", "*.txt", "*.cmake"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode != 0 or not listed.stdout:
        pytest.skip("the list of sources comes from git, and this is no working tree")
    return [p for name in listed.stdout.split("\n") if name and (p := ROOT / name).is_file()]


def test_every_variable_that_is_read_is_listed() -> None:
    own = {ROOT / "xpu_ops" / "_environment.py", Path(__file__).resolve()}
    found = {p: names_read(p.read_text()) for p in sources() if p.resolve() not in own}
    assert sum(map(len, found.values())) > 40
    unlisted = {str(p.relative_to(ROOT)): sorted(n - set(LISTED)) for p, n in found.items() if n - set(LISTED)}
    assert unlisted == {}, "list them in xpu_ops/_environment.py and run `make tables`"


def test_an_unlisted_variable_is_found() -> None:
    for text in (
        'std::getenv("XPU_OPS_NEW")',
        'runtime::env_flag("XPU_OPS_NEW", true)',
        'os.environ.get("XPU_OPS_NEW")',
        'os.environ["XPU_OPS_NEW"]',
        'if "XPU_OPS_NEW" in os.environ:',
        'SWITCH = "XPU_OPS_NEW"  # for the worker',
    ):
        assert names_read(text) - set(LISTED) == {"XPU_OPS_NEW"}, text


def test_readers_read_their_variables() -> None:
    wrong = [v.name for v in LISTED.values() if "/" in v.reader and f'"{v.name}"' not in (ROOT / v.reader).read_text()]
    assert wrong == []


def test_names_are_listed_once() -> None:
    assert len(LISTED) == sum(map(len, (_environment.RUN_TIME, _environment.BUILD, _environment.TESTS)))
