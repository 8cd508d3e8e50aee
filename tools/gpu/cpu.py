"""python -m tools.gpu.cpu: replays recordings on the CPU device that they were made on. All launches have the same bits.

It checks the recordings, not the kernels: that a launch stands for itself, with all that it reads and where it writes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from tools.gpu import recording
from tools.gpu.device.replay import ARENA, Refused, Replay, Types
from tools.gpu.record import build_library, environment


class Cpu:
    """Memory of this process, and the library's own kernels."""

    def __init__(self, library: Path, types: Path) -> None:
        import torch

        from xpu_ops import _autoload

        _autoload.load()
        torch.xpu.init()
        self._library = ctypes.CDLL(str(library))
        self._dims = {name: k["dims"] for name, k in json.loads(types.read_text())["kernels"].items()}
        self._memory = torch.empty(ARENA, dtype=torch.uint8, device="xpu")
        self.base = self._memory.data_ptr()

    def write(self, image: np.ndarray) -> None:
        ctypes.memmove(self.base, image.ctypes.data, image.size)

    def read(self, size: int) -> np.ndarray:
        return np.frombuffer(ctypes.string_at(self.base, size), np.uint8)

    def has(self, launch: recording.Launch) -> bool:
        return not launch.digest and launch.kernel in self._dims

    def execute(self, launch: recording.Launch, args: bytes) -> None:
        shape = (ctypes.c_uint32 * 4)(*launch.groups, *launch.local)
        dims = self._dims[launch.kernel]
        if self._library.replay_launch(launch.kernel.encode(), shape, dims, args, ctypes.c_size_t(len(args))):
            raise Refused("the launch fails")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.cpu", description=__doc__)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--types", type=Path, default=Path("build/gpu/kernels.json"))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    build = args.build.resolve()
    library = build_library(build)
    if not args.here:  # in a process with the environment of the recording
        env = environment(build, args.recordings[0].resolve().parent)
        return subprocess.run([sys.executable, "-m", "tools.gpu.cpu", "--here", *sys.argv[1:]], env=env).returncode
    replay = Replay(Cpu(library, args.types), Types(args.types))
    counts: Counter[str] = Counter()
    for path in args.recordings:
        for launch in recording.launches(path):
            done = replay.run(launch)
            counts[done["state"]] += 1
            if done["state"] not in ("same", "no kernel"):
                print(f"{launch.kernel} {done['state']} {done.get('text', '')} [{launch.test}]")
    print(f"gpu-cpu: {counts.total()} launches: {dict(counts)}", flush=True)
    os._exit(0 if set(counts) <= {"same", "no kernel"} else 1)


if __name__ == "__main__":
    sys.exit(main())
