"""Finds the runtime libraries, loads the extension and revives `torch.xpu`. Starts no device."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from xpu_ops import upstream
from xpu_ops._paths import built_releases, not_built, package_dir, release_dir, torch_release

# libOpenCL and libdnnl carry no search path of their own: what they need is loaded first, dependencies before dependents.
_PRELOAD = ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so")
_OPTIONAL = ("libtbb.so.12", "libdnnl.so.3")
_REQUIRED = {"libsycl.so": "intel-sycl-rt", "libintelocl.so": "intel-opencl-rt", "libsvml.so": "intel-cmplr-lib-rt"}

_extension: ModuleType | None = None


class _Unusable(ImportError):
    """The reason why the device does not work, in one sentence."""


class Unavailable:
    """Stands for the extension where it cannot be loaded: every use raises ImportError, saying why."""

    def __init__(self, error: ImportError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise ImportError(str(self._error))


def _library_dirs() -> list[Path]:
    """Folders where pip puts the runtime libraries: <prefix>/lib of this environment, and beside site-packages."""
    here = Path(__file__).resolve()
    dirs = [Path(sys.prefix) / "lib", *(p / "lib" for p in here.parents[2:5]), Path(torch.__file__).parents[3]]
    if hint := os.environ.get("XPU_OPS_LIBRARY_DIR"):
        dirs.insert(0, Path(hint))
    return [d for d in dict.fromkeys(dirs) if d.is_dir()]


def _from_metadata(name: str, package: str) -> Path | None:
    """Where pip says it put a library, for layouts the folders above do not cover."""
    try:
        for f in files(package) or []:
            if f.name == name or f.name.startswith(name + "."):
                path = Path(str(f.locate())).resolve()
                if path.is_file():
                    return path
    except PackageNotFoundError:
        pass
    return None


def _find(name: str, dirs: list[Path]) -> Path | None:
    for d in dirs:
        if (d / name).exists():
            return d / name
    package = _REQUIRED.get(name)
    return _from_metadata(name, package) if package else None


def _check_torch() -> None:
    from xpu_ops import _built

    if getattr(torch._C, "_has_xpu", False):
        raise _Unusable(
            f"xpu_ops provides the xpu device itself but found torch {torch.__version__} built with XPU; "
            "install the CPU build of torch, or uninstall xpu_ops to use the XPU build."
        )
    served = built_releases()
    if torch_release() not in served:
        fix = f'install one that it serves with: pip install "torch=={served[-1]}.*"'
        if torch_release() in _built.RELEASES:
            fix += f', or the wheel for all releases with: pip install "xpu_ops=={_built.VERSION}"'
        raise _Unusable(
            f"xpu_ops {_built.VERSION} serves torch {', '.join(served)} but found torch {torch.__version__}; {fix}"
        )
    other = _second_accelerator()
    if other:
        raise _Unusable(
            f"xpu_ops found a second accelerator, {other}, and torch works with one at a time; "
            "install the CPU build of torch, or hide the other device (CUDA_VISIBLE_DEVICES='')."
        )


def _second_accelerator() -> str | None:
    # The count and not is_available(): it asks NVML where it can, after which a forked child may still use CUDA.
    if torch._C._has_cuda and torch.cuda.device_count() > 0:
        return "cuda"
    for name in ("mtia", "mps"):
        module = getattr(torch, name, None)
        try:
            if module is not None and getattr(torch._C, f"_has_{name}") and module.is_available():
                return name
        except (AttributeError, RuntimeError):
            continue
    return torch.utils.backend_registration._privateuse1_backend_name if _privateuse_loaded() else None


def _privateuse_loaded() -> bool:
    name = torch._C._get_privateuse1_backend_name()
    return name != "privateuseone" and hasattr(torch, name) and getattr(torch, name).is_available()


def _leave_one_accelerator(extension: Any) -> None:
    """Hide the CUDA of a CUDA build, which sees no NVIDIA GPU here: torch refuses two, used or not."""
    if not torch._C._has_cuda:
        return
    if reason := extension.hide_cuda():
        raise _Unusable(
            f"xpu_ops cannot make torch {torch.__version__}, a CUDA build, work without CUDA ({reason}); "
            "install the CPU build of torch, from PyTorch's CPU index"
        )
    upstream.install_once("cuda_build")


def _with_own_runtime(listed: str, own: Path) -> str:
    """The OpenCL runtimes that are listed, with Intel's among them: images of other vendors list theirs alone."""
    paths = [p for p in listed.split(":") if p]
    there = any(Path(p).name.startswith("libintelocl") and Path(p).exists() for p in paths)
    return ":".join(paths if there else [str(own), *paths])


def _schedule(processors: int) -> str | None:
    """How the driver spreads work-groups, other than its own way: launches of one kernel give each thread the part of memory
    that its cache has from the last one. Few threads gain nothing, and wait for one that another program holds up."""
    return "affinity" if processors >= 8 else None


def _load_libraries() -> None:
    dirs = _library_dirs()
    opencl = _find("libintelocl.so", dirs)
    if opencl is not None:
        # Read at the first use of SYCL, after import.
        os.environ["OCL_ICD_FILENAMES"] = _with_own_runtime(os.environ.get("OCL_ICD_FILENAMES", ""), opencl)
        # The driver refuses blocks of more than half of the memory; it wants a unit.
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        os.environ.setdefault("CL_CONFIG_CPU_FORCE_MAX_MEM_ALLOC_SIZE", f"{memory}B")
        if (schedule := _schedule(len(os.sched_getaffinity(0)))) is not None:
            os.environ.setdefault("DPCPP_CPU_SCHEDULE", schedule)
    for name in _PRELOAD:
        path = _find(name, dirs)
        if path is None:
            raise _Unusable(
                f"xpu_ops needs {name}, which is in none of {', '.join(map(str, dirs))}; "
                f"install it with: pip install {_REQUIRED.get(name, 'intel-cmplr-lib-rt')}"
            )
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    sycl = _find("libsycl.so", dirs) or _find("libsycl.so.9", dirs)
    if sycl is None:
        raise _Unusable(
            f"xpu_ops needs libsycl.so, which is in none of {', '.join(map(str, dirs))}; "
            "install it with: pip install intel-sycl-rt"
        )
    ctypes.CDLL(str(sycl), mode=ctypes.RTLD_GLOBAL)
    for name in _OPTIONAL:
        if (path := _find(name, dirs)) is not None:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def load() -> ModuleType:
    """Load the extension and revive `torch.xpu`, once. Raises ImportError, in one sentence, where that cannot be."""
    global _extension
    if _extension is not None:
        return _extension
    built = package_dir()
    search_path = sys.modules["xpu_ops"].__path__
    # A source tree has neither the built libraries nor the extension; a package lacks the extension.
    search_path.extend(str(d) for d in (built, release_dir()) if str(d) not in search_path)
    try:
        if sentence := not_built():
            raise _Unusable(sentence)
        _check_torch()
        _load_libraries()
        extension = importlib.import_module("xpu_ops._C")
    except _Unusable:
        raise
    except (ImportError, OSError) as e:
        raise _Unusable(
            f"xpu_ops cannot load its libraries ({e}); reinstall it with: pip install --force-reinstall xpu-ops"
        ) from e
    _leave_one_accelerator(extension)
    if hasattr(extension, "set_module_dir"):
        extension.set_module_dir(str(built / "modules"))
    for file in upstream.CORE:
        upstream.install_once(file)
    # Registered after torch's own handlers, so it runs before them: no queued work may outlive the interpreter.
    atexit.register(extension.drain)
    upstream.open_doors()
    for file in upstream.AFTER_CORE:
        upstream.install_once(file)
    _extension = extension
    if os.environ.get("XPU_OPS_VLLM_KERNELS", "0") == "1":
        importlib.import_module("xpu_ops.vllm.kernels").install()
    return extension


def _autoload() -> None:
    """Entry point of group `torch.backends`: `import torch` calls it. Never makes that import fail."""
    try:
        load()
    except _Unusable as e:
        import warnings

        warnings.warn(f"The xpu device is not available: {e}", RuntimeWarning, stacklevel=2)
