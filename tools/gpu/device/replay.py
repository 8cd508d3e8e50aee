"""python3 -m tools.gpu.device.replay: executes recorded launches on the GPU and compares what they wrote.

One process per recording; one that a kernel kills goes on behind that launch. Uses the driver and numpy, no torch, so
that compute-sanitizer has little to look at. With --exact every block is an allocation of its own size, so that
memcheck sees accesses beside it, and nothing is compared.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tools.gpu import recording
from tools.gpu.device import values
from tools.gpu.device.cubins import Cubins
from tools.gpu.device.cuda import MOST_GROUPS_Y, Launcher, call

ALIGN = 512
GUARD, GUARD_BYTE = 512, 0xA5  # between blocks: bytes that no kernel writes
ARENA = 64 << 20


def make_context() -> c_void_p:
    device, context = c_int(), c_void_p()
    call("cuInit", c_uint(0))
    call("cuDeviceGet", byref(device), c_int(0))
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)
    return context


def allocate(size: int) -> int:
    address = c_void_p()
    call("cuMemAlloc_v2", byref(address), c_size_t(size))
    return int(address.value or 0)


class Refused(RuntimeError):
    """A launch that the device does not take; the process can go on."""


class Machine(Protocol):
    """A device with one piece of memory for all blocks of a launch."""

    base: int

    def write(self, image: np.ndarray) -> None: ...
    def read(self, size: int) -> np.ndarray: ...
    def has(self, launch: recording.Launch) -> bool:
        """Whether there is code of its kernel."""
        ...

    def execute(self, launch: recording.Launch, args: bytes) -> None:
        """Launches and waits. Raises Refused where it cannot be launched."""
        ...


class Gpu:
    """The machine of the NVIDIA driver."""

    def __init__(self, cubins: Cubins) -> None:
        self._cubins, self.base = cubins, allocate(ARENA)

    def write(self, image: np.ndarray) -> None:
        call("cuMemcpyHtoD_v2", c_void_p(self.base), image.ctypes.data_as(c_void_p), c_size_t(image.size))

    def read(self, size: int) -> np.ndarray:
        image = np.empty(size, np.uint8)
        call("cuMemcpyDtoH_v2", image.ctypes.data_as(c_void_p), c_void_p(self.base), c_size_t(size))
        return image

    def has(self, launch: recording.Launch) -> bool:
        return self._cubins.module_of(launch.kernel, launch.digest) is not None

    def execute(self, launch: recording.Launch, args: bytes) -> None:
        if launch.groups[1] > MOST_GROUPS_Y:
            raise Refused(f"{launch.groups[1]} groups in the second dimension")
        try:
            function = self._cubins.function(launch.kernel, launch.items, launch.digest)
            Launcher(function, launch.groups, launch.local, args)(0)
        except RuntimeError as error:
            raise Refused(str(error)[:300]) from None
        call("cuCtxSynchronize")


def placed(launch: recording.Launch, base: int) -> tuple[recording.Addresses, list[int], int]:
    """The blocks one behind the other with guards between them: addresses, offsets, bytes in all."""
    offsets, at = [], GUARD
    for b in launch.blocks:
        at += (b.address - at) % ALIGN  # as aligned as it was
        offsets.append(at)
        at += b.size + GUARD
    moved = {b.address: (b.size, base + o) for b, o in zip(launch.blocks, offsets, strict=True)}
    return recording.Addresses(moved), offsets, at


class Expected:
    """The memory of a launch before and after it, with pointers as they are on the GPU."""

    def __init__(self, launch: recording.Launch, addresses: recording.Addresses, offsets: list[int], size: int) -> None:
        self.before = np.full(size, GUARD_BYTE, np.uint8)
        self.after = self.before.copy()
        written: dict[int, list[recording.Change]] = {}
        for change in launch.after:
            written.setdefault(change.block, []).append(change)
        for i, (b, at) in enumerate(zip(launch.blocks, offsets, strict=True)):
            data = b.before if b.before is not None else bytes(b.size)
            self.before[at : at + b.size] = np.frombuffer(addresses.relocated(data), np.uint8)
            if i in written:
                later = bytearray(data)
                for change in written[i]:
                    later[change.offset : change.offset + len(change.data)] = change.data
                self.after[at : at + b.size] = np.frombuffer(addresses.relocated(bytes(later)), np.uint8)
            else:
                self.after[at : at + b.size] = self.before[at : at + b.size]


class Types:
    """kernels.json: how the bytes behind each pointer of a launch are to be read."""

    def __init__(self, path: Path) -> None:
        table = json.loads(path.read_text())
        self._tolerances, self._structs, self._kernels = table["tolerances"], table["structs"], table["kernels"]
        self._doubles = set(table["doubles"])

    def tolerances(self, kernel: str) -> dict[str, Any]:
        own = self._kernels.get(kernel, {}).get("tolerances", {})
        # A kernel that has more for one type passes it on to the type that it computes in.
        return {**self._tolerances, **own}

    def pointers(self, launch: recording.Launch) -> list[tuple[int, list[str]]]:
        """Address in the recording and types of each pointer of a launch, in the order of addresses."""
        kernel = self._kernels.get(launch.kernel)
        if kernel is None or launch.digest:
            # A struct of 8-byte fields, any of which may be a pointer to any type.
            words = np.frombuffer(launch.args[: len(launch.args) // 8 * 8], "<u8")
            # f64 only where the source has it: elsewhere an error could hide in the low half of a wider number.
            kinds = ["f32", "bf16", "f16", "i64", "u8", *(["f64"] if launch.digest in self._doubles else [])]
            return sorted((int(w), kinds) for w in words)
        found = []
        for number, (offset, pointer) in enumerate(self._structs[kernel["args"]]):
            address = int.from_bytes(launch.args[offset : offset + 8], "little")
            output = number if kernel["args"] == "PointwiseArgs" else None
            if address:
                found.append((address, values.candidates(kernel, pointer, output)))
        return sorted(found)

    def default(self, kernel: str) -> list[str]:
        return values.candidates(self._kernels.get(kernel, {}), "", None)


class Replay:
    def __init__(self, machine: Machine, types: Types) -> None:
        self._machine, self._types = machine, types

    def run(self, launch: recording.Launch) -> dict[str, Any]:
        """The outcome of a launch: state and, where it matters, error and text."""
        if not self._machine.has(launch):
            return {"state": "no kernel"}
        addresses, offsets, size = placed(launch, self._machine.base)
        if size > ARENA:
            return {"state": "not launchable", "text": f"the launch reaches {size} bytes"}
        expected = Expected(launch, addresses, offsets, size)
        self._machine.write(expected.before)
        try:
            self._machine.execute(launch, addresses.relocated(launch.args))
        except Refused as error:
            return {"state": "not launchable", "text": str(error)}
        got = self._machine.read(size)
        if np.array_equal(got, expected.after):
            return {"state": "same"}
        return self._judge(launch, offsets, got, expected.after)

    def _judge(self, launch: recording.Launch, offsets: list[int], got: np.ndarray, want: np.ndarray) -> dict[str, Any]:
        pointers = self._types.pointers(launch)
        tolerances = self._types.tolerances(launch.kernel)
        worst = values.Verdict(0.0, "")
        inside = np.zeros(got.size, bool)
        for b, at in zip(launch.blocks, offsets, strict=True):
            inside[at : at + b.size] = True
            if np.array_equal(got[at : at + b.size], want[at : at + b.size]):
                continue
            # From each pointer into the block to the next one; before the first, and without one, any type of the kernel.
            starts = [(a - b.address, kinds) for a, kinds in pointers if b.address <= a < b.address + b.size]
            merged: dict[int, list[str]] = {0: self._types.default(launch.kernel)} if not starts or starts[0][0] else {}
            for start, kinds in starts:
                merged[start] = list(dict.fromkeys([*merged.get(start, []), *kinds]))
            edges = [*sorted(merged), b.size]
            for start, end in itertools.pairwise(edges):
                g, w = got[at + start : at + end].tobytes(), want[at + start : at + end].tobytes()
                if g != w:
                    verdict = values.region(g, w, merged[start], tolerances)
                    if verdict.excess >= worst.excess:
                        worst = verdict
        if not np.array_equal(got[~inside], want[~inside]):
            return {"state": "differs", "text": "bytes beside the memory of the launch are written"}
        text = f"{worst.kind}: {worst.example}"
        return {"state": "within" if worst.excess <= 1 else "differs", "excess": min(worst.excess, 1e30), "text": text}


def run_exact(cubins: Cubins, launch: recording.Launch) -> dict[str, Any]:
    """Executes a launch whose blocks are allocations of their own, for memcheck."""
    if cubins.module_of(launch.kernel, launch.digest) is None or launch.groups[1] > MOST_GROUPS_Y:
        return {"state": "no kernel"}
    held = []
    moved = {}
    for b in launch.blocks:
        shift = b.address % ALIGN  # allocations are as aligned as this
        base = allocate(b.size + shift)
        held.append(base)
        moved[b.address] = (b.size, base + shift)
    addresses = recording.Addresses(moved)
    for b in launch.blocks:
        data = addresses.relocated(b.before if b.before is not None else bytes(b.size))
        call("cuMemcpyHtoD_v2", c_void_p(moved[b.address][1]), ctypes.c_char_p(data), c_size_t(b.size))
    try:
        function = cubins.function(launch.kernel, launch.items, launch.digest)
        Launcher(function, launch.groups, launch.local, addresses.relocated(launch.args))(0)
    except RuntimeError as error:
        return {"state": "not launchable", "text": str(error)[:300]}
    call("cuCtxSynchronize")
    for base in held:
        call("cuMemFree_v2", c_void_p(base))
    return {"state": "executed"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.gpu.device.replay", description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--ptx", type=Path, default=Path("ptx"))
    parser.add_argument("--cubins", type=Path, default=Path("/tmp/gpu_cubins"))
    parser.add_argument("--types", type=Path, default=Path("kernels.json"))
    parser.add_argument("--first", type=int, default=0, help="number of the launch to begin with")
    parser.add_argument("--once", action="store_true", help="one launch of each kernel and work-group")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--results", type=Path, required=True, help="file that a line per launch is added to")
    args = parser.parse_args()
    context = make_context()
    cubins = Cubins(args.ptx, args.cubins)
    replay = None if args.exact else Replay(Gpu(cubins), Types(args.types))
    seen = set()
    with open(args.results, "a") as results:
        for launch in recording.launches(args.recording):
            key = (launch.digest, launch.kernel, launch.local)
            if launch.number < args.first or (args.once and key in seen):
                continue
            seen.add(key)
            start = {"number": launch.number, "kernel": launch.kernel, "digest": launch.digest, "test": launch.test}
            results.write(json.dumps(start) + "\n")
            results.flush()  # the last line names the launch that kills the process
            done = replay.run(launch) if replay is not None else run_exact(cubins, launch)
            results.write(json.dumps({**start, **done}) + "\n")
    assert context is not None
    return 0


if __name__ == "__main__":
    sys.exit(main())
