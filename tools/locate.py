"""Prints where the installed packages keep what the build needs, as NAME=VALUE lines that CMakeLists.txt reads.

Nothing is imported from the packages: a broken torch must not break the configure step with a traceback.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from . import torch_release


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
        "TBB_INCLUDE_DIR": ("tbb-devel", "include/oneapi/tbb/parallel_for.h"),
        "TBB_LIBRARY": ("tbb", "/libtbb.so.12"),
        "MKL_DFT": ("onemkl-sycl-dft", "/libmkl_sycl_dft.so.6"),
    }
    try:
        return {name: file_of(*where) for name, where in wanted.items()}
    except SystemExit:
        return {}


def main() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        fail("a free-threaded Python", "one with the GIL", "Use another interpreter: PYTHON=<program> make build.")
    settings = torch_release.settings()
    needed = f"torch {torch_release.supported(settings['torch'])}"
    install = f"Run: {sys.executable} -m pip install 'torch=={settings['torch'][-1]}.*'"
    torch = torch_release.find_torch()
    if torch is None:
        fail("no torch", needed, install)
    version = torch_release.version_of(torch)
    series = torch_release.series_of(version)
    if series not in settings["torch"]:
        fail(f"torch {version}", needed, install)
    sycl_header = file_of("intel-sycl-rt", "include/sycl/sycl.hpp")
    values: dict[str, Path | str] = {
        "TORCH_DIR": torch,
        "TORCH_VERSION": version,
        "TORCH_SERIES": series,
        "TORCH_RELEASES": repr(tuple(settings["torch"])),
        "XPU_OPS_VERSION": settings["version"],
        "SYCL_INCLUDE_DIR": sycl_header.parent.parent,
        "SYCL_LIBRARY": file_of("intel-sycl-rt", "/libsycl.so"),
        "DNNL_INCLUDE_DIR": file_of("onednn-devel", "include/dnnl.hpp").parent,
        "DNNL_LIBRARY": file_of("onednn", "/libdnnl.so"),
        "CPU_RUNTIME": file_of("intel-opencl-rt", "/libintelocl.so"),
    }
    found = onemkl()
    if found:
        includes = {
            found.pop("MKL_INCLUDE_DIR").parent,
            found.pop("MKL_SYCL_INCLUDE_DIR").parent.parent,
            found.pop("TBB_INCLUDE_DIR").parent.parent.parent,
        }
        values["MKL_INCLUDE_DIRS"] = "|".join(sorted(map(str, includes)))
    values.update(found)
    for name, value in values.items():
        print(f"{name}={value}")


main()
