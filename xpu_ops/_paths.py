"""Where the built parts of the package lie."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def package_dir() -> Path:
    """The folder with the built libraries, modules/ and manifest.json.

    In an installed package it is the package's own folder. In a source tree, where Python may find the sources first
    because the working directory comes first on its path, it is build/python/xpu_ops.
    """
    for candidate in (Path(__file__).parent, _HERE, _HERE.parent / "build" / "python" / "xpu_ops"):
        if (candidate / "modules").is_dir():
            return candidate
    return _HERE
