"""python -m tools.gpu.ptx: device modules, and kernels compiled at run time, to PTX.

Writes <out>/<digest>.ptx per source and <out>/modules.json: module -> file and kernels. A source that has not changed
is not compiled again. Exit code 1 where one does not compile.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO

from tools.kernelc.digest import Includes, compiler_id, module_digest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Code for compute capability 9.0 (H100), as ptxas is told. The compiler is told 6.0, and the text is changed: for 7.0 and
# later the front end of intel-sycl-rt 2026.2 marks arguments ("grid_constant") in a form that its back end cannot read,
# and crashes. What 6.0 offers, 9.0 offers too.
TARGET, COMPILED_FOR = "sm_90", "sm_60"
# shfl.sync, vote.sync and bar.warp.sync; ptxas of CUDA 12.3 and later reads it.
PTX_ISA = "ptx83"
LIBSPIRV = "/sycl-jit-toolchain/lib/clang/23/lib/nvptx64-nvidia-cuda/libspirv.l64.signed_char.bc"
ENTRY = re.compile(r"^\.visible \.entry __sycl_kernel_(\w+)\(", re.MULTILINE)
SECONDS = 600  # of one module, after which the compiler hangs


class ToolchainMissing(RuntimeError):
    """A package that the way to PTX needs is not installed."""


def package_file(package: str, suffix: str, folder: Path | None = None) -> Path:
    """A file of an installed package, or of one that `pip install --target folder` put there.

    Raises:
        ToolchainMissing: where it is in neither.
    """
    if folder is not None:
        found = next(iter(folder.rglob(f"*{suffix}")), None) if folder.is_dir() else None
        if found is not None:
            return found.resolve()
    try:
        for f in metadata.files(package) or []:
            if str(f).endswith(suffix):
                return Path(str(f.locate())).resolve()
    except metadata.PackageNotFoundError:
        pass
    raise ToolchainMissing(f"{suffix} of the package {package} is not installed: pip install {package}")


@dataclass(frozen=True)
class Toolchain:
    """The compiler program, its options and environment."""

    program: Path
    library: Path  # libsycl-jit.so
    libdevice: Path

    @staticmethod
    def prepare(work: Path) -> Toolchain:
        """Builds ptxc into `work` and finds the libraries.

        Raises:
            ToolchainMissing: without libsycl-jit.so or libdevice.
            subprocess.CalledProcessError: where ptxc does not compile.
        """
        library = package_file("intel-sycl-rt", "/libsycl-jit.so")
        libdevice = package_file("nvidia-nvvm", "libdevice.10.bc", work / "cuda")
        program, source = work / "ptxc", HERE / "ptxc.cpp"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            work.mkdir(parents=True, exist_ok=True)
            # Its own open() takes calls of the library, so it must be exported, and not be a macro.
            command = [
                "g++",
                "-std=c++20",
                "-O1",
                "-U_FORTIFY_SOURCE",
                "-rdynamic",
                str(source),
                "-o",
                str(program),
                "-ldl",
            ]
            subprocess.run(command, check=True)
        return Toolchain(program, library, libdevice)

    def options(self) -> list[str]:
        """libspirv and libdevice come as built-in bitcode: so their functions are inlined."""
        linked = [
            o
            for path in (LIBSPIRV, self.libdevice)
            for o in ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(path))
        ]
        return [
            "-std=c++20", "-O2", "-w", "-fsycl-device-code-split=off",
            "-fno-sycl-libspirv", "-fno-discard-value-names", "-nocudalib", *linked,
        ]  # fmt: skip

    def start(self, includes: Iterable[Path], log: IO[str]) -> subprocess.Popen[str]:
        quoted = [o for folder in includes for o in ("-iquote", str(folder))]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.library.parent)}
        target = [COMPILED_FOR, f"+{COMPILED_FOR},+{PTX_ISA}"]
        command = [str(self.program), *target, str(HERE / "lanes16.hpp"), *self.options(), *quoted]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )


def finished(ptx: str) -> tuple[str, list[str]]:
    """The text for TARGET without the entries that take a global offset, which nothing launches, and its kernels."""
    ptx = re.sub(r"^\t// \.globl\t\S+_with_offset\n", "", ptx, flags=re.MULTILINE)
    ptx = re.sub(r"^\.visible \.entry \S+_with_offset\(.*?^}\n", "", ptx, flags=re.MULTILINE | re.DOTALL)
    ptx, count = re.subn(rf"^\.target {COMPILED_FOR}$", f".target {TARGET}", ptx, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"the compiler's text names the target {count} times")
    return ptx, ENTRY.findall(ptx)


class Compiler:
    """A pool of compiler processes; one that crashes costs the module it was at."""

    def __init__(self, toolchain: Toolchain, includes: list[Path], out: Path, jobs: int) -> None:
        self._toolchain, self._includes, self._out, self._jobs = toolchain, includes, out, jobs
        self._digests = Includes([*includes, HERE])
        self._environment = " ".join([
            compiler_id(), TARGET, COMPILED_FOR, PTX_ISA, (HERE / "lanes16.hpp").read_text(), (HERE / "ptxc.cpp").read_text(),
        ])  # fmt: skip
        self._here = threading.local()
        self._log = open(out / "compiler.log", "w")

    def file_of(self, source: Path) -> Path:
        digest = module_digest(source, self._digests, [], self._environment)
        return self._out / f"{digest[:24]}.ptx"

    def _ask(self, line: str) -> str:
        process: subprocess.Popen[str] | None = getattr(self._here, "process", None)
        if process is None:
            process = self._here.process = self._toolchain.start(self._includes, self._log)
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer: str = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            process.kill()
            process.wait()
            self._here.process = None
        return answer

    def _one(self, source: Path) -> list[str] | None:
        target = self.file_of(source)
        if target.exists():
            return ENTRY.findall(target.read_text())
        raw = target.with_suffix(f".{os.getpid()}.tmp")
        if not self._ask(f"{source}\t{raw}\n").startswith("ok"):
            raw.unlink(missing_ok=True)
            return None
        text, kernels = finished(raw.read_text())
        raw.write_text(text)
        raw.rename(target)
        return kernels

    def run(self, sources: dict[str, Path]) -> tuple[dict[str, dict[str, object]], list[str]]:
        """Modules (file name, kernels) and the names of those that do not compile."""
        modules: dict[str, dict[str, object]] = {}
        failed = []
        with ThreadPoolExecutor(self._jobs) as pool:
            for name, kernels in zip(sources, pool.map(self._one, sources.values()), strict=True):
                if kernels is None:
                    failed.append(name)
                else:
                    modules[name] = {"file": self.file_of(sources[name]).name, "kernels": kernels}
        return modules, failed


def jit_source(path: Path, folder: Path) -> Path:
    """A source of Inductor, Triton or xpu_ops.jit as a module of its own: behind the prelude that its compiler has read."""
    full = folder / path.name
    text = f'#include "kernels/sycl/source/generated.hpp"\n#line 1\n{path.read_text()}'
    if not full.exists() or full.read_text() != text:
        full.write_text(text)
    return full


def gather(build: Path, jit: Path | None, pattern: str, work: Path) -> dict[str, Path]:
    """Module name -> source: the build's modules whose name matches, and the recorded sources."""
    sources = {p.stem: p for p in sorted((build / "gen" / "sycl").glob("*.cpp")) if re.search(pattern, p.stem)}
    if jit is not None and jit.is_dir():
        folder = work / "jit"
        folder.mkdir(parents=True, exist_ok=True)
        sources |= {p.stem: jit_source(p, folder) for p in sorted(jit.glob("*.cpp"))}
    return sources


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.ptx", description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"), help="build folder with gen/sycl")
    parser.add_argument("--out", type=Path, default=Path("build/gpu/ptx"))
    parser.add_argument("--jit", type=Path, help="folder with sources of kernels compiled at run time, by digest")
    parser.add_argument("--match", default="", help="only modules whose name has this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    build: Path = args.build.resolve()
    out: Path = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    work = out.parent
    start = time.monotonic()
    try:
        toolchain = Toolchain.prepare(work)
    except ToolchainMissing as error:
        print(f"gpu-ptx: {error}", file=sys.stderr)
        return 2
    compiler = Compiler(toolchain, [ROOT, build], out, args.jobs)
    modules, failed = compiler.run(gather(build, args.jit, args.match, work))
    (out / "modules.json").write_text(json.dumps(modules, indent=1))
    count = sum(len(m["kernels"]) for m in modules.values() if isinstance(m["kernels"], list))
    print(
        f"gpu-ptx: {len(modules)} modules, {count} kernels, {time.monotonic() - start:.0f} s; failed: {failed or 'none'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
