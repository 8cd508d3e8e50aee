"""The torch that a build serves: one folder of the package per minor release, from one source.

pyproject.toml lists the releases. This module serves CMake (locate.py) and the wheel's metadata; nothing of
torch is imported, since a broken torch must not break the build with a traceback.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODULE = "torch_release:Provider"
# glibc 2.35 and the libstdc++ of GCC 12: what g++ 12 on Debian 12 links to. tests/build/test_libraries.py holds it.
PLATFORM = "manylinux_2_35_x86_64"


def settings() -> dict[str, Any]:
    """This provider's table in pyproject.toml: `version` of the source and `torch`, the releases it serves, oldest first; the first is the one that is tested."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dynamic-metadata"]
    return next(t for t in tables if t["provider"]["module"] == MODULE)


def find_torch() -> Path | None:
    """Folder of the torch to build for: of this interpreter, or of the environment that pip builds for in isolation.

    pip hides the environment's packages from an isolated build but runs the environment's interpreter. Building against what
    is installed there saves a second download of torch, and makes the extension fit.
    """
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    for kind in ("purelib", "platlib"):
        folder = Path(sysconfig.get_path(kind)) / "torch"
        if (folder / "version.py").exists():
            return folder.resolve()
    return None


def version_of(torch: Path) -> str:
    """The version of the torch in a folder, "?" where its version.py does not say."""
    match = re.search(r"__version__ *(?::.*)?= *['\"]([^'\"]+)", (torch / "version.py").read_text())
    return match.group(1) if match else "?"


def series_of(version: str) -> str:
    """The minor release of a version: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def supported(series: list[str]) -> str:
    """The releases as a sentence names them: "2.13, 2.14 or 2.15"."""
    return " or ".join(filter(None, [", ".join(series[:-1]), series[-1]]))


def serves(releases: str | None, series: str) -> bool:
    """Whether a minor release of torch is among `releases`: "<2.14", ">=2.15", or None for all. Raises ValueError."""
    if releases is None:
        return True
    match = re.fullmatch(r"(<|>=)(\d+)\.(\d+)", releases)
    if match is None:
        raise ValueError(f"'{releases}' is not `<` or `>=` and a minor release, such as `<2.14`")
    major, minor = (int(x) for x in series.split("."))
    before = (major, minor) < (int(match[2]), int(match[3]))
    return before == (match[1] == "<")


def wheel_version(source: str, series: str) -> str:
    """The version of a wheel for one release of torch: pip tells it from the wheel for all by its local version."""
    return f"{source}+torch{series}"


def others() -> list[str]:
    """The releases of torch that `make dist` builds for beside the one that is installed."""
    torch = find_torch()
    own = series_of(version_of(torch)) if torch else None
    return [version for version in settings()["patches"] if series_of(version) != own]


def every_release() -> bool:
    """Whether the wheel that is made holds the parts of every release: `make dist` says so."""
    return os.environ.get("XPU_OPS_EVERY_TORCH") == "1"


def requirement(series: list[str]) -> str:
    """The requirement on torch that pip reads: ["2.13", "2.14"] is `torch>=2.13,<2.15`."""
    major, minor = (int(x) for x in series[-1].split("."))
    return f"torch>={series[0]},<{major}.{minor + 1}"


def python_tag() -> str:
    """The tag of this interpreter, such as "cp311"."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def wheel_tag() -> str:
    """The part of a wheel's name that tells its torch and Python: "torch2.13-cp311"."""
    torch = find_torch()
    if torch is None:
        raise FileNotFoundError("no torch")
    return f"torch{series_of(version_of(torch))}-{python_tag()}"


class Provider:
    """Plugin of scikit-build-core: the version, the requirement on torch, and what the build itself needs of torch."""

    state = "wheel"

    def build_state(self, build_state: str) -> None:
        self.state = build_state

    def dynamic_wheel(self, settings: Mapping[str, Any]) -> dict[str, bool]:
        return {"dependencies": True}

    def get_requires_for_dynamic_metadata(self, settings: Mapping[str, Any]) -> list[str]:
        return [] if find_torch() else [f"torch=={self.wanted(settings)}.*"]

    def wanted(self, settings: Mapping[str, Any]) -> str:
        """The release to build for where no torch is installed: XPU_OPS_TORCH, or the first that is listed."""
        series: str = os.environ.get("XPU_OPS_TORCH") or settings["torch"][0]
        if series not in settings["torch"]:
            sys.exit(f"xpu_ops: XPU_OPS_TORCH={series}; this source serves torch {supported(settings['torch'])}.")
        return series

    def dynamic_metadata(self, settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
        if self.state == "sdist":
            return {"version": settings["version"], "dependencies": []}
        if every_release():
            return {"version": settings["version"], "dependencies": [requirement(settings["torch"])]}
        torch = find_torch()
        series = series_of(version_of(torch)) if torch else self.wanted(settings)
        return {"version": wheel_version(settings["version"], series), "dependencies": [f"torch=={series}.*"]}


if __name__ == "__main__":
    if "--others" in sys.argv:
        print(*others())
    else:
        print(f"{python_tag()}-{python_tag()}-{PLATFORM}" if "--tags" in sys.argv else wheel_tag())
