"""python -m tools.kernelc: compiles a folder of device modules into a folder of SYCLBIN files.

Writes <module>.spv.syclbin (portable), <module>.native.syclbin (this machine's CPU) and, last, modules.tsv, by which
the loader knows what the native files were made for. The native file is empty for kernels that plans of a GPU alone
choose: their code is nearly half of all, and the CPU device links it where such a plan is asked for. Exit code 1 where a
module fails; the others are still compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .digest import Includes, compiler_id, cpu_runtime, fast_malloc, for_gpus, module_digest, sha256
from .pool import Job, Result, run_all

PORTABLE, NATIVE = ".spv.syclbin", ".native.syclbin"
SUFFIXES = (PORTABLE, NATIVE)
FIXED_OPTIONS = [
    # Without it kernels that use half go to a second image, and the linked file silently loses their native code.
    "-fsycl-device-code-split=off",
    # A bool of a tensor may be any byte: uint8 seen as bool. Every byte but 0 is true, as on torch's CPU.
    "-fno-strict-bool=nonzero",
]
STATE = ".kernelc.json"
FORMAT = "without IR"  # of what kernelc writes; part of the digests


class Cache:
    """Outputs by digest, shared between build folders; a miss is never an error."""

    def __init__(self, root: Path | None, suffixes: tuple[str, ...] = SUFFIXES) -> None:
        self._root, self._suffixes = root, suffixes

    def _dir(self, digest: str) -> Path:
        assert self._root is not None
        return self._root / digest[:2] / digest

    def fetch(self, digest: str, prefix: Path) -> dict[str, object] | None:
        if self._root is None:
            return None
        folder = self._dir(digest)
        try:
            record: dict[str, object] = json.loads((folder / "record.json").read_text())
            for suffix in self._suffixes:
                if sha256((folder / f"module{suffix}").read_bytes()) != record[suffix]:
                    raise ValueError("damaged")
                _replace(folder / f"module{suffix}", Path(f"{prefix}{suffix}"))
        except (OSError, ValueError, KeyError):
            return None
        return record

    def store(self, digest: str, prefix: Path, record: dict[str, object]) -> None:
        """The files and the record; digests of the files are added to it where it lacks them."""
        if self._root is None:
            return
        folder = self._dir(digest)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            staging = Path(tempfile.mkdtemp(dir=folder.parent))
            for suffix in self._suffixes:
                shutil.copyfile(f"{prefix}{suffix}", staging / f"module{suffix}")
                record.setdefault(suffix, sha256((staging / f"module{suffix}").read_bytes()))
            (staging / "record.json").write_text(json.dumps(record))
            staging.chmod(0o755)
            shutil.rmtree(folder, ignore_errors=True)  # a damaged entry
            os.replace(staging, folder)
        except OSError as error:
            print(f"kernelc: cannot write the shared cache: {error}", file=sys.stderr)


def _replace(source: Path, target: Path) -> None:
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    shutil.copyfile(source, temporary)
    os.replace(temporary, target)


def write_text(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


class Progress:
    """One line, rewritten on a terminal, a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._start, self._last = total, 0, time.monotonic(), time.monotonic()
        self._tty = sys.stderr.isatty()

    def step(self, name: str) -> None:
        self._done += 1
        now = time.monotonic()
        text = f"kernelc: {self._done}/{self._total} modules, {now - self._start:.0f} s: {name}"
        if self._tty:
            print(f"\r\x1b[K{text}", end="" if self._done < self._total else "\n", file=sys.stderr, flush=True)
        elif now - self._last > 10:
            self._last = now
            print(text, file=sys.stderr, flush=True)

    def message(self, text: str) -> None:
        print(("\r\x1b[K" if self._tty else "") + text, file=sys.stderr, flush=True)


def check(result: Result, expected: set[str] | None) -> str | None:
    """Why a compiled module is not acceptable, if so."""
    if result.fp64 and not result.module.endswith("_fp64"):
        return (
            f"{result.module}: computes in double outside a *_fp64 module; a GPU without fp64 would refuse it. "
            "Look for a double literal or an implicit conversion."
        )
    if expected is not None and set(result.kernels) != expected:
        missing, extra = sorted(expected - set(result.kernels)), sorted(set(result.kernels) - expected)
        return f"{result.module}: differs from the kernel index: missing {missing[:5]}, unexpected {extra[:5]}"
    return None


def read_index(path: Path | None) -> dict[str, set[str]]:
    """kernel_index.tsv as module -> kernel names."""
    modules: dict[str, set[str]] = {}
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            kernel, module = line.split("\t")[:2]
            modules.setdefault(module, set()).add(kernel)
    return modules


def identify(worker: Path) -> str:
    """The target that native code is made for.

    Raises SystemExit where the worker cannot run, with what it said.
    """
    run = subprocess.run([str(worker), "--identify"], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"kernelc: {worker} cannot run on this machine:\n{run.stderr.strip()}")
    return str(json.loads(run.stdout)["target"])


def use_cpu_runtime() -> None:
    """For the processes that are started: the compiler needs a device to link for, the CPU, whatever else the machine has."""
    listed = os.environ.get("OCL_ICD_FILENAMES", "").split(":")
    if not any(Path(p).name.startswith("libintelocl") and Path(p).exists() for p in listed):
        os.environ["OCL_ICD_FILENAMES"] = str(cpu_runtime())  # an image of another vendor lists its own
    os.environ["ONEAPI_DEVICE_SELECTOR"] = "opencl:cpu"
    if (malloc := fast_malloc()) is not None:
        os.environ["LD_PRELOAD"] = " ".join(filter(None, [str(malloc), os.environ.get("LD_PRELOAD")]))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kernelc", description=__doc__)
    parser.add_argument("--worker", type=Path, required=True, help="the kernelc program")
    parser.add_argument("--sources", type=Path, required=True, help="folder of <module>.cpp")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--index", type=Path, help="kernel_index.tsv: every kernel in it must be in its module")
    parser.add_argument("-I", dest="include", type=Path, action="append", default=[])
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--option", action="append", default=[], help="passed to the device compiler: --option=-O1")
    parser.add_argument(
        "--preamble", action="append", default=[], help="a header that most sources include: parsed once"
    )
    parser.add_argument("--times", type=Path, help="where to write a table of the modules compiled and what they took")
    parser.add_argument("--only", nargs="*", help="compile these modules only and leave the rest as it is")
    args = parser.parse_args(argv)

    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    use_cpu_runtime()
    target = identify(args.worker)
    options = [*FIXED_OPTIONS, *args.option]
    worker_options = [*options, *(o for d in args.include for o in ("-iquote", str(d.resolve())))]
    environment = f"{FORMAT} {compiler_id()} {target}"
    includes = Includes([d.resolve() for d in args.include])
    cache_root = os.environ.get("XPU_OPS_KERNELC_CACHE")
    cache = Cache(Path(cache_root) if cache_root else None)
    index = read_index(args.index)
    try:
        state: dict[str, dict[str, object]] = json.loads((out / STATE).read_text())
    except (OSError, ValueError):
        state = {}

    sources = {p.stem: p for p in sorted(args.sources.glob("*.cpp"))}
    if args.only is not None:
        if unknown := sorted(set(args.only) - set(sources)):
            sys.exit(f"kernelc: no such module: {', '.join(unknown)}")
    else:
        for name in set(state) - set(sources):
            del state[name]
        for stale in out.glob("*.syclbin"):
            if stale.name.split(".")[0] not in sources:
                stale.unlink()

    digests: dict[str, str] = {}
    jobs: list[Job] = []
    reused = 0
    failures: list[str] = []
    for name, source in sources.items():
        if args.only is not None and name not in args.only:
            continue
        digests[name] = module_digest(source, includes, options, environment + " portable" * for_gpus(name))
        prefix = out / name
        known = state.get(name)
        if known and known["digest"] == digests[name] and all(Path(f"{prefix}{s}").exists() for s in SUFFIXES):
            continue
        if (record := cache.fetch(digests[name], prefix)) is not None:
            state[name] = {**record, "digest": digests[name]}
            reused += 1
            continue
        jobs.append(Job(name, source.resolve(), prefix.resolve(), native=not for_gpus(name)))

    start = time.monotonic()
    progress = Progress(len(jobs))
    cpu = {"compile": 0, "link": 0}
    times = ["module\tkernels\tfront end, ms\tnative code, ms\tcheck, ms\tbytes of native code"]

    def done(result: Result) -> None:
        problem = check(result, index.get(result.module) if args.index else None) if result.ok else None
        prefix = out / result.module
        if result.ok and problem is None:
            if result.log:
                progress.message(result.log)
            record: dict[str, object] = {s: sha256(Path(f"{prefix}{s}").read_bytes()) for s in SUFFIXES}
            record["kernels"] = result.kernels
            record["fp64"] = result.fp64
            state[result.module] = {**record, "digest": digests[result.module]}
            cache.store(digests[result.module], prefix, record)
            cpu["compile"] += result.compile_ms
            cpu["link"] += result.link_ms
            native = Path(f"{prefix}{SUFFIXES[1]}").stat().st_size
            row = (len(result.kernels), result.compile_ms, result.link_ms, result.check_ms, native)
            times.append("\t".join([result.module, *map(str, row)]))
        else:
            failures.append(result.module)
            state.pop(result.module, None)
            for suffix in SUFFIXES:
                Path(f"{prefix}{suffix}").unlink(missing_ok=True)
            progress.message(f"kernelc: module {result.module} failed\n{problem or result.log}")
        progress.step(result.module)

    if jobs:
        preamble = [f"--preamble={','.join(args.preamble)}"] if args.preamble else []
        run_all([str(args.worker), *preamble, *worker_options], jobs, max(1, args.jobs), done)

    # A module reused from the state or the cache was checked against the index of its day.
    for name in sorted(set(digests) - set(failures) - {j.module for j in jobs}):
        record = state[name]
        kernels = [str(k) for k in record["kernels"]] if isinstance(record["kernels"], list) else []
        problem = check(Result(name, True, "", kernels, bool(record["fp64"])), index.get(name) if args.index else None)
        if problem:
            failures.append(name)
            progress.message(f"kernelc: module {name} failed\n{problem}")

    write_text(out / STATE, json.dumps(state, indent=0, sort_keys=True))
    lines = [f"target\t{target}"]
    for name in sorted(state):
        lines.append("\t".join(["module", name, str(state[name][PORTABLE]), *(["gpu"] if for_gpus(name) else [])]))
    write_text(out / "modules.tsv", "\n".join(lines) + "\n")
    if args.times is not None:
        write_text(args.times, "\n".join(times) + "\n")
    size = sum(p.stat().st_size for p in out.glob("*.syclbin"))
    kernel_count = sum(len(r["kernels"]) for r in state.values() if isinstance(r["kernels"], list))
    print(
        f"kernelc: {len(jobs) - len(failures)} compiled, {reused} from the cache, {len(failures)} failed; "
        f"{len(state)} modules, {kernel_count} kernels, {size / 1e6:.1f} MB; {time.monotonic() - start:.1f} s "
        f"(processor: front end {cpu['compile'] / 1e3:.1f} s, native code {cpu['link'] / 1e3:.1f} s)",
        file=sys.stderr,
    )
    if failures:
        print(f"kernelc: failed: {' '.join(sorted(failures))}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
