"""python -m tools.kernelc.classes: links compiled modules for every class of processors that a release serves.

Takes the folder that `python -m tools.kernelc` filled. Writes OUT/<class>/<module>.native.syclbin and OUT/modules.tsv, by which
the loader picks the nearest class. Intel's CPU runtime makes code for each class on any machine that runs it.
Exit code 1 where a module fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from pathlib import Path

from .__main__ import FORMAT, NATIVE, PORTABLE, Cache, Progress, identify, use_cpu_runtime, write_text
from .digest import compiler_id, for_gpus, sha256
from .pool import Job, Result, run_all

# Names of CL_CONFIG_CPU_TARGET_ARCH, rising: AVX2 without AVX-512; AVX-512 as from Skylake to Zen 5, whose later
# instruction sets the runtime's code does not use; fp16 and what else came with Sapphire Rapids.
CLASSES = ("core-avx2", "skx", "sapphirerapids")
TARGET = "CL_CONFIG_CPU_TARGET_ARCH"
# The last class has the families where it is faster than skx by more than a few per cent (docs/environment.md), and their kin; a
# processor of that class takes the code of skx for the others.
FAMILIES = {
    "sapphirerapids": {
        "attention", "attention_amx", "attention_block", "blockscale", "dot16", "dots8", "fused", "interpolation", "lowprecision", "matmul", "quantized",
        "rnn", "varlen",
    }
}  # fmt: skip


def family(module: str) -> str:
    """A module is a family, or a part of it: sort_0110, sort_fp64, sort_01_fp64."""
    return re.sub(r"(_[01]+)?(_fp64)?$", "", module)


def serves(name: str, module: str, whole: bool = False) -> bool:
    """Whether a class has a module of its own: none of kernels that plans of a GPU alone choose, as `python -m tools.kernelc`."""
    return not for_gpus(module) and (whole or name not in FAMILIES or family(module) in FAMILIES[name])


def link_class(
    name: str, worker: Path, modules: Path, out: Path, jobs: int, cache: Cache, whole: bool
) -> tuple[str, list[str]]:
    """The key of the class, and the modules that failed. A module that the class cannot have gets no file. Where the build is for
    that very target, its own native code serves."""
    os.environ[TARGET] = name
    key = identify(worker)
    environment = f"{FORMAT} linked {compiler_id()} {key}"
    out.mkdir(parents=True, exist_ok=True)
    for stale in out.glob(f"*{NATIVE}"):
        stale.unlink()
    own = f"target\t{key}" in (modules / "modules.tsv").read_text().splitlines()
    digests: dict[str, str] = {}
    todo: list[Job] = []
    for portable in sorted(modules.glob(f"*{PORTABLE}")):
        module = portable.name.removesuffix(PORTABLE)
        if not serves(name, module, whole):
            continue
        built = modules / f"{module}{NATIVE}"
        if own and built.is_file():
            shutil.copyfile(built, out / built.name)
            continue
        digests[module] = sha256(f"{environment} {sha256(portable.read_bytes())}".encode())
        if cache.fetch(digests[module], out / module) is None:
            todo.append(Job(module, portable.resolve(), (out / module).resolve()))
    progress = Progress(len(todo))
    failed: list[str] = []

    def done(result: Result) -> None:
        if result.ok:
            cache.store(digests[result.module], out / result.module, {})
        else:
            failed.append(result.module)
            progress.message(f"kernelc: module {result.module} for {name} failed\n{result.log}")
        progress.step(f"{name} {result.module}")

    if todo:
        run_all([str(worker)], todo, jobs, done)
    for empty in out.glob(f"*{NATIVE}"):
        if empty.stat().st_size == 0:
            empty.unlink()
    return key, failed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kernelc.classes", description=__doc__)
    parser.add_argument("--worker", type=Path, required=True, help="the kernelc program")
    parser.add_argument("--modules", type=Path, required=True, help="folder of compiled modules")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--classes", nargs="+", default=CLASSES, help=f"of {', '.join(CLASSES)}; default all")
    parser.add_argument("--whole", action="store_true", help="every module for every class, to compare them")
    args = parser.parse_args(argv)

    use_cpu_runtime()
    root = os.environ.get("XPU_OPS_KERNELC_CACHE")
    cache = Cache(Path(root) if root else None, (NATIVE,))
    start = time.monotonic()
    targets: list[str] = []
    failed: list[str] = []
    for name in args.classes:
        key, bad = link_class(name, args.worker, args.modules, args.out / name, max(1, args.jobs), cache, args.whole)
        targets.append(f"target\t{key}\t{name}")
        failed += [f"{name}/{module}" for module in bad]
    rows = [row for row in (args.modules / "modules.tsv").read_text().splitlines() if not row.startswith("target\t")]
    write_text(args.out / "modules.tsv", "\n".join([*targets, *rows]) + "\n")
    sizes = [sum(f.stat().st_size for f in (args.out / name).glob(f"*{NATIVE}")) / 1e6 for name in args.classes]
    made = ", ".join(f"{name} {size:.1f} MB" for name, size in zip(args.classes, sizes, strict=True))
    print(f"kernelc: {made}; {time.monotonic() - start:.1f} s", file=sys.stderr)
    if failed:
        print(f"kernelc: failed: {' '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
