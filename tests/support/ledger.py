"""The one ledger of known failures: tests/known_failures.yaml.

An entry names tests by a glob over their ids below tests/, with {a,b} for alternatives, and says why they fail. A listed
test that passes fails the run, so that an entry cannot outlive its reason.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

LEDGER = Path(__file__).resolve().parents[1] / "known_failures.yaml"
sys.path.append(str(LEDGER.parents[1]))  # tools/
from tools import torch_release  # noqa: E402


@dataclass(frozen=True)
class Entry:
    test: str
    reason: str
    strict: bool = True  # False only where the failure depends on the drawn values; the reason says so
    skip: bool = False
    torch: str | None = None  # the releases that fail, such as ">=2.14"; None: all


def load(path: Path = LEDGER) -> list[Entry]:
    """Raises ValueError for an entry without a reason."""
    if not path.exists():
        return []
    entries = []
    for raw in yaml.safe_load(path.read_text()) or []:
        rest = {k: v for k, v in raw.items() if k not in ("test", "tests")}
        entries += [Entry(test=t, **rest) for g in raw.get("tests") or [raw["test"]] for t in alternatives(g)]
    for e in entries:
        if not e.reason.strip():
            raise ValueError(f"{path.name}: {e.test}: no reason")
    series = torch_release.series_of(torch.__version__)
    return [e for e in entries if torch_release.serves(e.torch, series)]


def alternatives(glob: str) -> list[str]:
    """The globs that one with braces stands for."""
    parts = [p[1:-1].split(",") if p.startswith("{") else [p] for p in re.split(r"(\{[^}]*\})", glob)]
    return ["".join(choice) for choice in itertools.product(*parts)]


def match(entries: list[Entry], nodeid: str) -> Entry | None:
    """The first entry whose glob fits the test id."""
    name = nodeid.removeprefix("tests/")
    for e in entries:
        # '[' of a parametrised id is literal
        pattern = e.test.replace("[", "[[]")
        if fnmatch.fnmatchcase(name, pattern):
            return e
    return None
