"""Where the built parts of the package lie, and what it keeps."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).resolve().parent


def package_dir() -> Path:
    """The folder with the built libraries, modules/ and a folder per release of torch.

    In an installed package it is the package's own folder. In a source tree, where Python may find the sources first
    because the working directory comes first on its path, it is the build of these sources that is on the path, or
    build/python/xpu_ops.
    """
    built = [Path(p) / "xpu_ops" for p in sys.path] if is_source_tree() else []
    built = [p for p in built if (p / "__init__.py").resolve() == _HERE / "__init__.py"]
    for candidate in (Path(__file__).parent, _HERE, *built, _HERE.parent / "build" / "python" / "xpu_ops"):
        if (candidate / "modules").is_dir():
            return candidate
    return _HERE


def torch_release() -> str:
    """The minor release of the torch that is imported: "2.13" of "2.13.0+cpu"."""
    return ".".join(torch.__version__.split("+")[0].split(".")[:2])


def release_dir() -> Path:
    """The folder of what is built per release of torch, for the one that is imported: the extension and manifest.json."""
    return package_dir() / f"torch{torch_release()}"


@functools.cache
def manifest() -> dict[str, Any]:
    """The op manifest as the build wrote it: rows and types (tools/codegen/rows.py)."""
    document: dict[str, Any] = json.loads((release_dir() / "manifest.json").read_text())
    return document


def built_releases() -> list[str]:
    """The releases of torch that this build or wheel serves, oldest first."""
    found = [p.name.removeprefix("torch") for p in package_dir().glob("torch*.*") if p.is_dir()]
    return sorted(found, key=lambda release: [int(n) for n in release.split(".")])


def is_source_tree() -> bool:
    """Whether Python found the sources of a checkout, as it does when started in the checkout's root."""
    return (_HERE.parent / "kernels" / "manifest").is_dir()


def not_built() -> str:
    """The sentence for sources that have no build; empty where there is one, and in an installed package."""
    if not is_source_tree() or (package_dir() / "modules").is_dir():
        return ""
    return (
        f"xpu_ops was imported from a source tree that is not built ({package_dir()}); run `make build` there, "
        "or start Python in another folder to use an installed package"
    )


def cache_dir() -> Path:
    """The user's cache folder; it may not exist. `module_cache_dir` in kernels/runtime has the same rule."""
    if folder := os.environ.get("XPU_OPS_CACHE_DIR"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xpu_ops"
