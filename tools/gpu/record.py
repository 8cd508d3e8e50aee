"""python -m tools.gpu.record: runs tests under the GPU policy and writes the launches of their kernels.

Each test file is one process and one <out>/<file>.rec.xz. A kernel that has its launches already is not recorded again,
in whichever file they are. Sources of kernels compiled at run time go to <out>/jit, by digest.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
import os
import subprocess
import sys
import time
from collections import Counter
from enum import IntEnum
from pathlib import Path

from tools.gpu import recording

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The sizes of an H100: compute units, last cache, and the local memory that a kernel can name statically.
GPU = "gpu,units=132,cache_mb=50,local_kb=48"
FOLDERS = (
    "tests/aten",
    "tests/ops",
    "tests/onednn",
    "tests/mkl",
    "tests/inductor",
    "tests/jit",
    "tests/triton_backend",
)


class Mode(IntEnum):
    """As of record.cpp."""

    RECORD = 0
    PLAN = 1
    TRACE = 2


def build_library(build: Path) -> Path:
    """librecord.so against the libraries of a build folder.

    Raises:
        subprocess.CalledProcessError: where it does not compile.
    """
    import sysconfig

    library, source = build / "gpu" / "librecord.so", HERE / "record.cpp"
    kernels = build / "python" / "xpu_ops" / "libxpu_ops_kernels.so"
    header = ROOT / "kernels" / "runtime" / "recording.hpp"
    if library.exists() and library.stat().st_mtime > max(p.stat().st_mtime for p in (source, header, kernels)):
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    prefix = Path(sysconfig.get_path("data"))
    command = [
        "g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-DCL_TARGET_OPENCL_VERSION=300", "-iquote", str(ROOT),
        "-iquote", str(build), f"-I{prefix / 'include'}", str(source), "-o", str(library),
        f"-L{prefix / 'lib'}", f"-L{kernels.parent}", "-lsycl", "-lxpu_ops_kernels", "-Wl,--allow-shlib-undefined",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return library


class Recorder:
    """The recorder of this process: before the first use of the device, which gets its memory from it."""

    def __init__(self, library: Path, path: Path, mode: Mode, each: int = 2, most: int = 1 << 20) -> None:
        import torch

        from xpu_ops import _autoload

        _autoload.load()  # an error here says why there is no device
        self._library = ctypes.CDLL(str(library))
        self._library.record_start.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
        self._library.record_count.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self._library.record_test.argtypes = [ctypes.c_char_p]
        allocator = torch.xpu.memory.XPUPluggableAllocator(str(library), "record_allocate", "record_free")
        torch.xpu.memory.change_current_allocator(allocator)
        if self._library.record_start(str(path).encode(), mode, each, most):
            raise OSError(f"{path} cannot be written")

    def mark(self, test: str) -> None:
        self._library.record_test(test.encode())

    def count(self, kernel: str, launches: int) -> None:
        """Launches of a kernel (digest and name) that another recording has."""
        self._library.record_count(kernel.encode(), launches)

    def stop(self) -> None:
        self._library.record_stop()


def keep_jit_sources(folder: Path) -> None:
    """From here on sources that are compiled at run time are written to `folder`."""
    from xpu_ops.jit import service

    digest_of = service.source_digest

    def source_digest(source: str) -> str:
        digest = digest_of(source)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{digest}.cpp").write_text(source)
        return digest

    service.source_digest = source_digest


def environment(build: Path, out: Path) -> dict[str, str]:
    """A process whose launches are those of a GPU with its own memory, few examples, and no compiled kernels from before."""
    caches = {v: str(out / "caches" / v.lower()) for v in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    return {
        **os.environ, **caches,
        "XPU_OPS_POLICY": GPU, "XPU_OPS_DISCRETE": "1", "XPU_OPS_BUILD_DIR": str(build),
        "PYTHONPATH": f"{build / 'python'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "quick", "XPU_OPS_TEST_EXAMPLES": os.environ.get("XPU_OPS_TEST_EXAMPLES", "3"),
    }  # fmt: skip


def record_file(build: Path, out: Path, test: str, have: Counter[str], args: argparse.Namespace) -> str:
    """Records one test file and adds to `have`; returns pytest's last line."""
    raw = out / f"{Path(test).stem}.rec"
    counts = out / "counts.txt"
    counts.write_text("".join(f"{kernel} {n}\n" for kernel, n in have.items()))
    env = environment(build, out) | {
        "GPU_RECORD_FILE": str(raw), "GPU_RECORD_LIBRARY": str(build_library(build)), "GPU_RECORD_COUNTS": str(counts),
        "GPU_RECORD_JIT": str(out / "jit"), "GPU_RECORD_EACH": str(args.each), "GPU_RECORD_MOST": str(args.most),
        "XPU_OPS_TEST_EVERY": str(args.every),
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "tools.gpu.plugin",
        test,
    ]
    with open(out / f"{Path(test).stem}.log", "w") as log:
        try:
            subprocess.run([*command, *args.pytest], cwd=ROOT, env=env, stdout=log, stderr=log, timeout=args.seconds)
        except subprocess.TimeoutExpired:
            print(f"gpu-record: {test} was cut off after {args.seconds} s", file=sys.stderr)
    last = (out / f"{Path(test).stem}.log").read_text().rstrip().rpartition("\n")[2]
    if raw.exists():
        for launch in recording.launches(raw):
            have[launch.digest + launch.kernel] += 1
        # Tests draw the same numbers again and again: a dictionary of the whole file.
        with open(raw, "rb") as source, lzma.open(f"{raw}.xz", "wb", preset=4) as target:
            while piece := source.read(1 << 24):
                target.write(piece)
        raw.unlink()
    return last


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.record", description=__doc__)
    parser.add_argument("tests", nargs="*", help="test files, or folders of them; all that launch kernels by default")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path, default=Path("build/gpu/recordings"))
    parser.add_argument("--each", type=int, default=2, help="launches of a kernel")
    parser.add_argument("--most", type=int, default=1 << 20, help="bytes that a recorded launch may reach")
    parser.add_argument("--every", type=int, default=1, help="only each n-th test")
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one file")
    parser.add_argument("--pytest", nargs="*", default=[], help="more arguments for pytest")
    args = parser.parse_args()
    build, out = args.build.resolve(), args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    files = [
        f for t in args.tests or FOLDERS for f in (sorted(Path(t).glob("test_*.py")) if Path(t).is_dir() else [Path(t)])
    ]
    have: Counter[str] = Counter()
    todo = {f.stem for f in files}
    for other in sorted(out.glob("*.rec.xz")):
        if other.name.partition(".")[0] not in todo:
            have.update(launch.digest + launch.kernel for launch in recording.launches(other))
    for file in files:
        start, before = time.monotonic(), len(have)
        last = record_file(build, out, str(file), have, args)
        packed = out / f"{file.stem}.rec.xz"
        size = packed.stat().st_size / 1e6 if packed.exists() else 0
        print(
            f"{file}: {len(have) - before} new kernels, {size:.1f} MB, {time.monotonic() - start:.0f} s; {last}",
            flush=True,
        )
    print(f"gpu-record: {len(have)} kernels, {have.total()} launches in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
