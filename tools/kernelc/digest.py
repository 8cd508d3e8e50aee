"""The inputs of a module's output, as one digest."""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from pathlib import Path

# A literal is kept whole: it may hold what looks like a comment.
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
SCHEMA = "1"  # raise it when the files kernelc writes change their meaning


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def for_gpus(module: str) -> bool:
    """Whether plans of a GPU alone choose its kernels (`gpu_plans` of a manifest): reduction_gpu_01."""
    return "gpu" in module.split("_")


def without_comments(code: str) -> str:
    """The lines of a file that hold code. No kernel names a line, so their numbers do not matter.

    A file with raw strings is left as it is.
    """
    if 'R"' in code:
        return code
    code = TOKEN.sub(lambda m: m[0] if m[0][0] in "\"'" else " ", code)
    return "\n".join(line.rstrip() for line in code.splitlines() if line.strip())


def compiler_id() -> str:
    """Identifies the device compiler, its headers and the CPU code generator by what pip recorded of them."""
    parts = []
    for name, suffix in (("intel-sycl-rt", "/libsycl-jit.so"), ("intel-opencl-rt", "/libintelocl.so")):
        parts.append(f"{name}={metadata.version(name)}")
        for f in metadata.files(name) or []:
            if str(f).endswith(suffix) and f.hash is not None:
                parts.append(f.hash.value)
    return " ".join(parts)


def cpu_runtime() -> Path:
    """Intel's OpenCL CPU driver as pip installed it.

    Raises FileNotFoundError where it is missing.
    """
    for f in metadata.files("intel-opencl-rt") or []:
        if str(f).endswith("/libintelocl.so"):
            return Path(str(f.locate())).resolve()
    raise FileNotFoundError("libintelocl.so of intel-opencl-rt; reinstall that package")


def fast_malloc() -> Path | None:
    """oneTBB's replacement of malloc, which comes with the CPU driver: the compilers spend a fifth less time with it."""
    try:
        files = metadata.files("tbb") or []
    except metadata.PackageNotFoundError:
        return None
    for f in files:
        if f.name == "libtbbmalloc_proxy.so.2":
            return Path(str(f.locate())).resolve()
    return None


class Includes:
    """Finds the project headers a source reads, recursively; those of the SYCL package are covered by compiler_id."""

    def __init__(self, include_dirs: list[Path]) -> None:
        self._dirs = include_dirs
        self._direct: dict[Path, list[Path]] = {}
        self._digests: dict[Path, str] = {}

    def digest(self, path: Path) -> str:
        if path not in self._digests:
            self._digests[path] = sha256(without_comments(path.read_text(errors="replace")).encode())
        return self._digests[path]

    def _scan(self, path: Path) -> list[Path]:
        if path not in self._direct:
            found = []
            for name in INCLUDE.findall(path.read_text(errors="replace")):
                for folder in (path.parent, *self._dirs):
                    candidate = (folder / name).resolve()
                    if candidate.is_file():
                        found.append(candidate)
                        break
            self._direct[path] = found
        return self._direct[path]

    def closure(self, source: Path) -> list[Path]:
        """Every project file the source includes, without itself, in a stable order."""
        seen: dict[Path, None] = {}
        todo = [source.resolve()]
        while todo:
            for header in self._scan(todo.pop()):
                if header not in seen:
                    seen[header] = None
                    todo.append(header)
        return sorted(seen)


def module_digest(source: Path, includes: Includes, options: list[str], environment: str) -> str:
    """Digest of everything a module's files are made from. Paths do not count, so that worktrees share results."""
    parts = [SCHEMA, environment, *options, source.name, includes.digest(source.resolve())]
    parts += [f"{h.name}={includes.digest(h)}" for h in includes.closure(source)]
    return sha256("\n".join(parts).encode())
