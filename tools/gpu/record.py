"""python -m tools.gpu.record: runs tests under the GPU policy and writes the launches of their kernels.

Each part of a test file is one process and one <out>/<file>-<part>.rec.xz. A kernel that has its launches already is not recorded again,
in whichever file they are. Sources of kernels compiled at run time go to <out>/jit, by digest.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from queue import SimpleQueue

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
    "tools/gpu/sweep.py",
    "tools/gpu/sweep_networks.py",
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
    header = ROOT / "kernels" / "runtime" / "profile" / "recording.hpp"
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
        "PYTHONPATH": f"{build / 'python'}:{ROOT}:{ROOT / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1",
        "HYPOTHESIS_PROFILE": "quick", "XPU_OPS_TEST_EXAMPLES": os.environ.get("XPU_OPS_TEST_EXAMPLES", "3"),
    }  # fmt: skip


def cores(slot: int, slots: int) -> list[int]:
    """A share of the processor's cores: the CPU device takes its threads from it."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[slot % len(mine) :: slots]


@dataclass(frozen=True)
class Part:
    """Each `parts`-th test of a file, from the one at `part` on."""

    file: str
    part: int
    parts: int

    @property
    def stem(self) -> str:
        return Path(self.file).stem + (f"-{self.part}" if self.parts > 1 else "")


def parts_of(build: Path, out: Path, files: list[str], tests: int) -> list[Part]:
    """The files in parts of at most `tests` tests, those of large files first."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        *files,
    ]
    listed = subprocess.run(command, cwd=ROOT, env=environment(build, out), capture_output=True, text=True)
    if listed.returncode:
        raise SystemExit(f"gpu-record: pytest does not collect these files:\n{listed.stdout}{listed.stderr}")
    # pytest shortens the name of a file outside this repository.
    names = Counter(line.partition("::")[0] for line in listed.stdout.splitlines() if "::" in line)
    count = Counter({next(f for f in files if f.endswith(name)): n for name, n in names.items()})
    return [
        Part(file, part, parts)
        for file, n in count.most_common()
        for parts in [-(-n // tests)]
        for part in range(parts)
    ]


def record_part(build: Path, out: Path, part: Part, have: Counter[str], args: argparse.Namespace, slot: int) -> str:
    """Records a part on a share of the cores and adds to `have`; returns pytest's last line."""
    raw, counts, log = (out / f"{part.stem}.{suffix}" for suffix in ("rec", "counts", "log"))
    counts.write_text("".join(f"{kernel} {n}\n" for kernel, n in have.copy().items()))
    env = environment(build, out) | {
        "GPU_RECORD_FILE": str(raw), "GPU_RECORD_LIBRARY": str(build_library(build)), "GPU_RECORD_COUNTS": str(counts),
        "GPU_RECORD_JIT": str(out / "jit"), "GPU_RECORD_EACH": str(args.each), "GPU_RECORD_MOST": str(args.most),
        "GPU_RECORD_PART": f"{part.part}/{part.parts}", "XPU_OPS_TEST_EVERY": str(args.every),
    }  # fmt: skip
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tools.gpu.plugin"]
    pinned = partial(os.sched_setaffinity, 0, cores(slot, args.jobs))
    with open(log, "w") as text:
        try:
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", *plugins, part.file, *args.pytest],
                cwd=ROOT, env=env, stdout=text, stderr=text, timeout=args.seconds, preexec_fn=pinned,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"gpu-record: {part.stem} was cut off after {args.seconds} s", file=sys.stderr)
    counts.unlink()
    if raw.exists():
        have.update(launch.digest + launch.kernel for launch in recording.launches(raw))
        # Tests draw the same numbers again and again: a dictionary of the whole file.
        with open(raw, "rb") as source, lzma.open(f"{raw}.xz", "wb", preset=4) as target:
            while piece := source.read(1 << 24):
                target.write(piece)
        raw.unlink()
    return log.read_text().rstrip().rpartition("\n")[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.record", description=__doc__)
    parser.add_argument("tests", nargs="*", help="test files, or folders of them; all that launch kernels by default")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path, default=Path("build/gpu/recordings"))
    parser.add_argument("--each", type=int, default=2, help="launches of a kernel")
    parser.add_argument("--most", type=int, default=1 << 20, help="bytes that a recorded launch may reach")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once; these may record a kernel twice")
    parser.add_argument("--tests-per-process", type=int, default=600)
    parser.add_argument("--every", type=int, default=1, help="only each n-th test")
    parser.add_argument(
        "--compared", type=Path, action="append", default=[], help="replay.json of a run whose kernels are not needed"
    )
    parser.add_argument("--seconds", type=float, default=1800, help="limit of one process")
    parser.add_argument("--pytest", nargs="*", default=[], help="more arguments for pytest")
    args = parser.parse_args()
    build, out = args.build.resolve(), args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    build_library(build)
    files = [
        str(f)
        for t in args.tests or FOLDERS
        for f in (sorted(Path(t).glob("test_*.py")) if Path(t).is_dir() else [Path(t)])
    ]
    todo = parts_of(build, out, files, args.tests_per_process)
    have: Counter[str] = Counter()
    stems = {p.stem for p in todo}
    for other in sorted(out.glob("*.rec.xz")):
        if other.name.removesuffix(".rec.xz") not in stems:
            have.update(launch.digest + launch.kernel for launch in recording.launches(other))
    for path in args.compared:
        for result in json.loads(path.read_text()):
            if result.get("state") in ("same", "within"):
                have[result["digest"] + result["kernel"]] = args.each
    slots: SimpleQueue[int] = SimpleQueue()
    for slot in range(args.jobs):
        slots.put(slot)

    def one(part: Part) -> None:
        slot, start = slots.get(), time.monotonic()
        last = record_part(build, out, part, have, args, slot)
        slots.put(slot)
        packed = out / f"{part.stem}.rec.xz"
        size = packed.stat().st_size / 1e6 if packed.exists() else 0
        print(
            f"{part.stem}: {size:.1f} MB, {time.monotonic() - start:.0f} s, {len(have)} kernels so far; {last}",
            flush=True,
        )

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(one, todo))
    print(f"gpu-record: {len(have)} kernels, {have.total()} launches in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
