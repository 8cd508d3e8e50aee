"""python -m tools.check_gpu: compiles every portable module, or what a cache folder holds, for Intel GPUs offline.

`spirv-val` validates each module, then Debian's `ocloc` compiles it for several GPUs and the kernels in the result are
counted. No GPU is needed, and none is shown to work: this proves that the code compiles, nothing more.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

# The newest ocloc in Debian 12 knows these; fp64 says whether the GPU has it in hardware.
TARGETS = {"pvc": True, "dg2": False, "tgllp": False, "ats-m150": False, "adl-s": False}
MAGIC = 0x07230203
OP_CAPABILITY, FLOAT64, ASSEMBLY = 17, 10, 5606
OP_ENTRY_POINT, OP_TYPE_BOOL, OP_TYPE_VECTOR, OP_FUNCTION, OP_BITCAST = 15, 20, 23, 54, 124
OP_EXECUTION_MODE, OP_FUNCTION_CALL, SUBGROUP_SIZE = 16, 57, 35
OP_CONSTANT, OP_SHIFT_RIGHT_ARITHMETIC, OP_SHIFT_LEFT = 43, 195, 196
# With a numbered item: OpGroupBroadcast, OpGroupNonUniformBroadcast, -Shuffle, -ShuffleXor, -ShuffleUp, -ShuffleDown,
# and those of SPV_INTEL_subgroups.
SHUFFLES = {263, 337, 345, 346, 347, 348, 5571, 5572, 5573, 5574}
# OpGroupAll to -SMax, OpGroupNonUniformElect to -QuadSwap; OpControlBarrier.
COLLECTIVES, BARRIERS = {*range(261, 272), *range(333, 367)}, {224}


def spirv_of(syclbin: bytes) -> list[bytes]:
    """The SPIR-V images in a SYCLBIN file; each runs to the end of its last whole instruction."""
    images = []
    at = syclbin.find(struct.pack("<I", MAGIC))
    while at >= 0:
        end = at + 20
        while end + 4 <= len(syclbin):
            words = struct.unpack_from("<I", syclbin, end)[0] >> 16
            if words == 0 or end + 4 * words > len(syclbin):
                break
            end += 4 * words
        images.append(syclbin[at:end])
        at = syclbin.find(struct.pack("<I", MAGIC), end)
    return images


def instructions(spirv: bytes) -> Iterator[tuple[int, bytes]]:
    """Opcode and words of each instruction."""
    at = 20
    while at + 4 <= len(spirv):
        word = struct.unpack_from("<I", spirv, at)[0]
        op, words = word & 0xFFFF, word >> 16
        if words == 0:
            break
        yield op, spirv[at : at + 4 * words]
        at += 4 * words


def declarations(spirv: bytes) -> Iterator[tuple[int, bytes]]:
    """Those before the first function."""
    return itertools.takewhile(lambda found: found[0] != OP_FUNCTION, instructions(spirv))


def kernels_of(spirv: bytes) -> list[str]:
    """The names of the entry points."""
    return [text[12:].split(b"\0")[0].decode() for op, text in declarations(spirv) if op == OP_ENTRY_POINT]


def needs(spirv: bytes, capability: int) -> bool:
    """Whether the module declares a capability, such as FLOAT64, or ASSEMBLY, which is of one processor."""
    return (OP_CAPABILITY, struct.pack("<I", capability)) in ((op, text[4:8]) for op, text in declarations(spirv))


def vectors_of(spirv: bytes) -> set[int]:
    """The numbers of components of the vector types."""
    return {struct.unpack_from("<I", text, 12)[0] for op, text in declarations(spirv) if op == OP_TYPE_VECTOR}


def bools_read_as_integers(spirv: bytes) -> int:
    """How many OpBitcast take a bool or a vector of them, which have no bits in SPIR-V."""
    types: set[bytes] = set()
    values: set[bytes] = set()
    count = 0
    for op, text in instructions(spirv):
        if op == OP_TYPE_BOOL or (op == OP_TYPE_VECTOR and text[8:12] in types):
            types.add(text[4:8])
        elif op == OP_BITCAST:
            count += text[12:16] in values
        elif text[4:8] in types:
            values.add(text[8:12])
    return count


def products_cut_to_32_bits(spirv: bytes) -> int:
    """How many values are (x << n) >> 32 with n > 32, which the CPU device may take for x: see docs/cpu-device.md."""
    constants: dict[int, int] = {}
    shifted: dict[int, int] = {}
    count = 0
    for op, text in instructions(spirv):
        if op == OP_CONSTANT and len(text) == 20:
            name, value = struct.unpack_from("<IQ", text, 8)
            constants[name] = value
        elif op in (OP_SHIFT_LEFT, OP_SHIFT_RIGHT_ARITHMETIC):
            name, x, n = struct.unpack_from("<III", text, 8)
            if op == OP_SHIFT_LEFT:
                shifted[name] = constants.get(n, 0)
            else:
                count += constants.get(n) == 32 and shifted.get(x, 0) > 32
    return count


def kernels_of_unknown_width(spirv: bytes) -> list[str]:
    """The kernels that rely on a sub-group's size, themselves or in what they call, and declare none.

    They shuffle, or sub-groups join results in local memory: a collective of the sub-group and a barrier of the work-group.
    """
    kernels: dict[bytes, str] = {}
    sized: set[bytes] = set()
    calls: dict[bytes, set[bytes]] = {}
    shuffling, joining, waiting = set[bytes](), set[bytes](), set[bytes]()
    function = b""
    for op, text in instructions(spirv):
        if op == OP_ENTRY_POINT:
            kernels[text[8:12]] = text[12:].split(b"\0")[0].decode()
        elif op == OP_EXECUTION_MODE and struct.unpack_from("<I", text, 8)[0] == SUBGROUP_SIZE:
            sized.add(text[4:8])
        elif op == OP_FUNCTION:
            function = text[8:12]
            calls[function] = set()
        elif op == OP_FUNCTION_CALL:
            calls[function].add(text[12:16])
        for found, ops in ((shuffling, SHUFFLES), (joining, COLLECTIVES), (waiting, BARRIERS)):
            if op in ops:
                found.add(function)
    for found in (shuffling, joining, waiting):
        while more := {f for f, called in calls.items() if f not in found and called & found}:
            found |= more
    relying = shuffling | joining & waiting
    return sorted(name for f, name in kernels.items() if f in relying and f not in sized)


@dataclass
class Outcome:
    module: str
    target: str
    ok: bool
    text: str


def run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def modules_in(folder: Path) -> list[Path]:
    """The SPIR-V modules of a build, or those that a cache folder has of kernels compiled at run time."""
    cached = (p for p in folder.glob("jit-*.bin") if spirv_of(p.read_bytes()))
    return sorted([*folder.glob("*.spv.syclbin"), *cached])


def check(module: Path, targets: list[str]) -> list[Outcome]:
    name = module.name.removesuffix(".spv.syclbin")
    images = spirv_of(module.read_bytes())
    if len(images) != 1:
        return [Outcome(name, "spirv", False, f"{len(images)} SPIR-V images, one is expected")]
    if needs(images[0], ASSEMBLY):  # of the CPU's instructions
        return []
    kernels = kernels_of(images[0])
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        spv = Path(folder, "module.spv")
        spv.write_bytes(images[0])
        got = run(["spirv-val", str(spv)])
        outcomes.append(Outcome(name, "spirv-val", got.returncode == 0, (got.stdout + got.stderr).strip()))
        for target in targets:
            if needs(images[0], FLOAT64) and not TARGETS[target]:
                continue
            out = Path(folder, target)
            out.mkdir()
            got = run(["ocloc", "-file", str(spv), "-spirv_input", "-device", target, "-out_dir", str(out)], folder)
            made = b"".join(p.read_bytes() for p in out.iterdir())
            # A truncated module "succeeds", so the names in the result count, not the exit code alone.
            lost = [k for k in kernels if k.encode() not in made]
            text = (got.stdout + got.stderr).strip()
            if got.returncode == 0 and lost:
                text = f"{len(lost)} of {len(kernels)} kernels are not in the result, {lost[0]} first"
            outcomes.append(Outcome(name, target, got.returncode == 0 and not lost, text))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.check_gpu", description=__doc__)
    parser.add_argument("--modules", type=Path, required=True, help="folder of *.spv.syclbin, or a cache folder")
    parser.add_argument("--targets", nargs="*", choices=sorted(TARGETS), default=list(TARGETS))
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    absent = [tool for tool in ("spirv-val", "ocloc") if shutil.which(tool) is None]
    if absent:
        print(
            f"check-gpu: NOT RUN: {' and '.join(absent)} not found. On Debian: apt install spirv-tools intel-opencl-icd"
        )
        return 0
    modules = modules_in(args.modules)
    if not modules:
        print(f"check-gpu: no modules in {args.modules}; run `make build`", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = [o for group in pool.map(lambda m: check(m, args.targets), modules) for o in group]
    for o in outcomes:
        if not o.ok:
            print(f"check-gpu: {o.module} for {o.target} failed: {o.text[-1500:]}", file=sys.stderr)
    for target in ("spirv-val", *args.targets):
        row = [o for o in outcomes if o.target == target]
        print(f"check-gpu: {target}: {sum(o.ok for o in row)} of {len(row)} modules")
    return 0 if all(o.ok for o in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
