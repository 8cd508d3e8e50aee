"""Prints where the installed packages keep what the build needs, as NAME=VALUE lines that CMakeLists.txt reads.

Nothing is imported from the packages: a broken torch must not break the configure step with a traceback.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import NoReturn

TORCH_SERIES = "2.13"


def fail(found: str, needed: str, todo: str) -> NoReturn:
    sys.exit(f"xpu_ops: found {found}; {needed} is needed. {todo}")


def file_of(distribution: str, suffix: str) -> Path:
    """Absolute path of the distribution's file whose path ends with `suffix`."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        fail(f"no package {distribution}", distribution, f"Run: {sys.executable} -m pip install {distribution}")
    for f in files:
        if str(f).endswith(suffix):
            path = Path(str(f.locate())).resolve()
            if path.exists():
                return path
    fail(f"{distribution} without {suffix}", f"a complete {distribution}", "Reinstall it with pip.")


def onemkl() -> dict[str, Path]:
    """The parts of oneMKL, or nothing where one of its packages is missing: the build then leaves its library out."""
    wanted = {
        "MKL_INCLUDE_DIR": ("mkl-include", "include/mkl_lapack.h"),
        "MKL_SYCL_INCLUDE_DIR": ("onemkl-sycl-include", "include/oneapi/mkl.hpp"),
        "MKL_CORE": ("mkl", "/libmkl_core.so.3"),
        "MKL_INTERFACE": ("mkl", "/libmkl_intel_ilp64.so.3"),
        "MKL_THREADS": ("mkl", "/libmkl_tbb_thread.so.3"),
        "MKL_DFT": ("onemkl-sycl-dft", "/libmkl_sycl_dft.so.6"),
    }
    try:
        return {name: file_of(*where) for name, where in wanted.items()}
    except SystemExit:
        return {}


def main() -> None:
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        fail("no torch", f"torch {TORCH_SERIES}", f"Run: {sys.executable} -m pip install 'torch=={TORCH_SERIES}.*'")
    torch = Path(spec.submodule_search_locations[0]).resolve()
    text = (torch / "version.py").read_text()
    match = re.search(r"__version__ *(?::.*)?= *['\"]([^'\"]+)", text)
    version = match.group(1) if match else "?"
    if not version.startswith(TORCH_SERIES + "."):
        fail(
            f"torch {version}",
            f"torch {TORCH_SERIES}",
            f"Run: {sys.executable} -m pip install 'torch=={TORCH_SERIES}.*'",
        )
    sycl_header = file_of("intel-sycl-rt", "include/sycl/sycl.hpp")
    values: dict[str, Path | str] = {
        "TORCH_DIR": torch,
        "TORCH_VERSION": version,
        "SYCL_INCLUDE_DIR": sycl_header.parent.parent,
        "SYCL_LIBRARY": file_of("intel-sycl-rt", "/libsycl.so"),
        "DNNL_INCLUDE_DIR": file_of("onednn-devel", "include/dnnl.hpp").parent,
        "DNNL_LIBRARY": file_of("onednn", "/libdnnl.so"),
        "CPU_RUNTIME": file_of("intel-opencl-rt", "/libintelocl.so"),
    }
    found = onemkl()
    if found:
        includes = {found.pop("MKL_INCLUDE_DIR").parent, found.pop("MKL_SYCL_INCLUDE_DIR").parent.parent}
        values["MKL_INCLUDE_DIRS"] = "|".join(sorted(map(str, includes)))
    values.update(found)
    for name, value in values.items():
        print(f"{name}={value}")


main()
