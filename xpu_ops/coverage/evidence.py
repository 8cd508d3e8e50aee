"""Recorded runs: which overload ran natively, for which dtype and layout, and whether it agreed with the CPU.

One file of JSON lines: a header that says for what build, tests, torch and device it holds, then one line a test. Where the
header no longer fits, the file is stale and nothing in it counts as verified.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

from xpu_ops._paths import cache_dir, package_dir, release_dir

from . import observe

SCHEMA = 1
Cell = tuple[str, str, str]  # overload, dtype, layout


def default_path() -> Path:
    """coverage/evidence.jsonl in the build folder of a source tree, else in the user's cache folder."""
    build = package_dir().parents[1]
    if (build / "build.ninja").exists():
        return build / "coverage" / "evidence.jsonl"
    return cache_dir() / "coverage" / "evidence.jsonl"


def shipped_path() -> Path:
    """The release's own recording, which a wheel has: statuses instead of tests."""
    return release_dir() / "recording.json"


def reading_path() -> Path:
    """The recording that reports read: one made here, else the release's."""
    return shipped_path() if not default_path().exists() and shipped_path().exists() else default_path()


def tests_dir() -> Path | None:
    """The test suite of the source tree this package runs from, None where it is installed."""
    for root in (Path(__file__).resolve().parents[2], package_dir().parents[2]):
        if (root / "tests" / "support" / "compare.py").exists():
            return root / "tests"
    return None


def _digest(paths: Iterable[Path]) -> str:
    h = hashlib.sha256()
    for path in paths:
        h.update(path.name.encode())
        h.update(path.read_bytes())
    return h.hexdigest()[:16]


@cache
def build_digest() -> str:
    """Of what runs, which changes with the sources: both libraries, the device modules (by their digests), the manifest,
    and the package's own Python beside its commands."""
    built = package_dir()
    modules = built / "modules" / "modules.tsv"
    python = [p for p in sorted(built.glob("*.py")) if p.stem not in ("cli", "doctor")]
    libraries = [*sorted(built.glob("*.so")), *sorted(release_dir().glob("*.so"))]
    parts = [*libraries, *([modules] if modules.exists() else []), release_dir() / "manifest.json", *python]
    return _digest(parts)


@cache
def library_versions() -> str:
    """Of the packages that hold the primitives and the device's compiler and runtime."""
    found = []
    for name in ("onednn", "intel-sycl-rt", "intel-opencl-rt"):
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


@cache
def tests_digest() -> str | None:
    """Of what decides whether results agree: the comparisons and the rows' tests."""
    tests = tests_dir()
    if tests is None:
        return None
    folders = ("ops", "aten", "support")
    return _digest([p for f in folders for p in sorted((tests / f).glob("*.py"))])


def current_key(imports: Iterable[str] = ()) -> dict[str, str | None]:
    """The key that a recording has to match to count. imports: modules that register further kernels."""
    try:
        p = torch.xpu.get_device_properties(0)
        device = f"{p.name}, driver {p.driver_version}"
    except (RuntimeError, AssertionError):
        device = None
    return {
        "build": build_digest(),
        "tests": tests_digest(),
        "torch": torch.__version__,
        "libraries": library_versions(),
        "device": device,
        "imports": ",".join(sorted(imports)),
    }


def _minor(version: str | None) -> list[str]:
    return (version or "").split(".")[:2]


@dataclass
class Status:
    """Evidence on one overload for one dtype and layout, or of several layouts together.

    state, from the worst: fallback (ran on the CPU, counted or hidden in a kernel), failed (differed from the CPU), unclear
    (only in failing comparisons with others), executed (natively, not compared: random numbers and the like), verified
    (compared, agreed). `direct`: a comparison of this operator alone said so.
    """

    state: str
    direct: bool = False
    backward: bool = False
    why: str = ""


ORDER = ("fallback", "failed", "unclear", "executed", "verified")


@dataclass
class _Tally:
    direct_pass: int = 0
    direct_fail: str = ""
    shared_pass: int = 0
    blamed: str = ""
    doubted: str = ""
    raised: str = ""
    executed: int = 0
    fallback: str = ""
    backward: bool = False

    def status(self) -> Status | None:
        """None where it only raised, as a test expected."""
        direct = self.direct_pass > 0
        if self.fallback:
            return Status("fallback", why=self.fallback)
        if failed := self.direct_fail or self.blamed:
            return Status("failed", direct=bool(self.direct_fail), why=failed)
        if direct or (self.shared_pass and not self.doubted):
            return Status("verified", direct=direct, backward=self.backward)
        if self.raised:
            return Status("failed", why=self.raised)
        if self.doubted:
            return Status("unclear", why=self.doubted)
        return Status("executed") if self.executed else None


@dataclass
class Evidence:
    """A recording as read from its file."""

    path: Path
    header: dict[str, Any]
    units: dict[str, dict[str, Any]] = field(default_factory=dict)
    shipped: dict[str, Any] | None = None  # the release's: "tests" by outcome and "cells" with their statuses

    @classmethod
    def load(cls, path: Path) -> Evidence | None:
        """None where there is no file. A half-written last line, of a run that was killed, is left out."""
        if not path.exists():
            return None
        if path == shipped_path():
            document = json.loads(path.read_text())
            return cls(path, document["header"], shipped=document)
        lines = path.read_text().splitlines()
        try:
            header = json.loads(lines[0])
        except (IndexError, json.JSONDecodeError):
            return None
        found = cls(path, header)
        for line in lines[1:]:
            try:
                unit = json.loads(line)
            except json.JSONDecodeError:
                continue
            found.units[unit["unit"]] = unit
        return found

    def stale_because(self, key: dict[str, str | None]) -> list[str]:
        """The change since the recording; empty where it counts."""
        if self.header.get("schema") != SCHEMA:
            return ["the format of the recording"]
        names = {
            "build": "the library",
            "tests": "the tests",
            "torch": "torch",
            "libraries": "the oneAPI libraries",
            "device": "the device",
            "imports": "the imported modules",
        }
        recorded = self.header.get("key", {})
        if self.shipped is not None:
            # It holds for the libraries beside it. Another machine is no change of them: reports name the one it was made on.
            same = {k: recorded.get(k) == key[k] for k in ("libraries", "imports")}
            same["torch"] = _minor(recorded.get("torch")) == _minor(key["torch"])
            return [names[k] for k, unchanged in same.items() if not unchanged]
        # An installed package has no tests to compare with.
        return [
            what for k, what in names.items() if recorded.get(k) != key[k] and not (k == "tests" and key[k] is None)
        ]

    def outcomes(self) -> dict[str, int]:
        """Number of tests by outcome."""
        if self.shipped is not None:
            return dict(self.shipped["tests"])
        counts: dict[str, int] = defaultdict(int)
        for unit in self.units.values():
            counts[unit["outcome"]] += 1
        return dict(sorted(counts.items()))

    def judge(self) -> dict[Cell, Status]:
        """A status for everything that ran.

        A comparison of one computing operator (views, copies and fills aside) speaks for or against that one. One of several
        speaks for all of them if it agrees; if it does not, it speaks against the only one that no comparison of its own
        cleared, and where there are more of those, all of them are in doubt. Where there is none, the composites around
        them are, those first that the test is named after.
        """
        if self.shipped is not None:
            return {(name, dtype, layout): Status(*rest) for name, dtype, layout, *rest in self.shipped["cells"]}
        tallies: dict[Cell, _Tally] = defaultdict(_Tally)
        failures: list[_Failure] = []
        for unit in self.units.values():
            for window in unit["windows"]:
                _count(tallies, failures, unit, window)
        for f in failures:
            suspects = [c for c in f.computing if not tallies[c].direct_pass]
            for c in suspects or f.composites_named:
                if len(suspects) == 1:
                    tallies[c].blamed = f.unit
                else:
                    tallies[c].doubted = f.unit
        return {cell: status for cell, tally in tallies.items() if (status := tally.status()) is not None}

    def for_shipping(self) -> dict[str, Any]:
        """The document of a wheel: what this recording says, without its tests."""
        cells = [[*cell, *astuple(status)] for cell, status in sorted(self.judge().items())]
        return {"header": self.header, "tests": self.outcomes(), "cells": cells}


class _Failure(NamedTuple):
    """A comparison of several operators that did not agree."""

    unit: str
    computing: list[Cell]
    composites: list[Cell]

    @property
    def composites_named(self) -> list[Cell]:
        """The composites that the test is named after; all of them where it is after none."""
        words = {word.strip("_") for word in re.split(r"\W", self.unit)}
        named = [c for c in self.composites if c[0].partition(".")[0].strip("_") in words]
        return named or self.composites


def _count(tallies: dict[Cell, _Tally], failures: list[_Failure], unit: dict[str, Any], window: dict[str, Any]) -> None:
    name, agree = unit["unit"], window["agree"]
    groups: dict[str, list[Cell]] = {"computing": [], "carriers": [], "composites": []}
    for overload, dtype, layout, how, below, grad in window["calls"]:
        cell = (overload, dtype, layout)
        tally = tallies[cell]
        if "fallback" in how:
            tally.fallback = f"fell back in {name}"
        elif below and how == "native":
            tally.fallback = f"ran {below} on CPU tensors in {name}"
        elif how == "raised":
            if unit["outcome"] in ("failed", "known"):
                tally.raised = name
        else:
            tally.executed += 1
            tally.backward |= bool(grad and window["backward"] and agree)
            kind = "composites" if how == "composite" else "carriers" if observe.is_carrier(overload) else "computing"
            groups[kind].append(cell)
    if agree is None:
        return
    subjects = groups["computing"] or groups["carriers"]
    single = len({overload for overload, _, _ in subjects}) == 1
    if agree:
        for cell in subjects if single else ():
            tallies[cell].direct_pass += 1
        for cell in itertools.chain(*groups.values()):
            tallies[cell].shared_pass += 1
    elif single:
        for cell in subjects:
            tallies[cell].direct_fail = name
    else:
        failures.append(_Failure(name, groups["computing"], groups["composites"]))


def combine(parts: Iterable[Status]) -> Status:
    """The status of several layouts or dtypes together: the worst, verified by one where nothing is worse."""
    parts = list(parts)
    worst = min(parts, key=lambda s: ORDER.index(s.state))
    if worst.state in ("executed", "verified") and any(s.state == "verified" for s in parts):
        return Status("verified", any(s.direct for s in parts), any(s.backward for s in parts))
    return Status(worst.state, worst.direct, any(s.backward for s in parts), worst.why)
