"""python -m tools.class_times --classes FOLDER: operators with the native modules of two classes of processors.

FOLDER is what `python -m tools.kernelc.classes --whole` filled. Processes take turns; the times are the least of their
rounds. Prints the geometric mean of the first class's times by the second's, and each operator's, per element type.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.first_calls import portable_folder
from xpu_ops._paths import package_dir
from xpu_ops.bench.core import geomean

TYPES = ("float32", "float16", "bfloat16")
CHILD = """
import json, sys, time
import torch
import torch.nn.functional as F
import xpu_ops

def least(call):
    for _ in range(3):
        call()
    torch.xpu.synchronize()
    rounds = []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(3):
            call()
        torch.xpu.synchronize()
        rounds.append((time.perf_counter() - begin) / 3)
    return min(rounds)

xpu_ops._C.set_module_dir(sys.argv[1])
torch.set_num_threads(int(sys.argv[2]))
found = {}
for name in sys.argv[3:]:
    kind = getattr(torch, name)
    x, y = (torch.rand(512, 1024).to("xpu", kind) for _ in range(2))
    w, images, q = torch.rand(1024).to("xpu", kind), torch.rand(4, 16, 64, 64).to("xpu", kind), torch.rand(1, 4, 256, 64).to("xpu", kind)
    rows = torch.randint(512, (512,)).xpu()
    calls = {
        "add": lambda: x + y, "gelu": lambda: F.gelu(x), "exp": lambda: x.exp(), "sin": lambda: x.sin(), "pow": lambda: x.pow(y),
        "sum of columns": lambda: x.sum(0), "sum of rows": lambda: x.sum(1), "softmax": lambda: x.softmax(1),
        "layer_norm": lambda: F.layer_norm(x, (1024,), w, w), "cumsum": lambda: x.cumsum(0), "sort": lambda: x[:64].sort(1),
        "argmax": lambda: x.argmax(1), "float": lambda: x.float(), "half": lambda: x.half(), "where": lambda: torch.where(x > y, x, y),
        "max_pool2d": lambda: F.max_pool2d(images, 3, 2, 1), "batch_norm": lambda: F.batch_norm(images, w[:16], w[:16], w[:16], w[:16], True),
        "interpolate": lambda: F.interpolate(images, scale_factor=2, mode="bilinear"),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q), "mv": lambda: x @ w, "index_select": lambda: x.index_select(0, rows),
        "index_add": lambda: x.index_add(0, rows, y), "cat": lambda: torch.cat([x, y], 1), "transpose": lambda: x.t().contiguous(),
        "clamp": lambda: x.clamp(0.2, 0.8),
    }
    found[name] = {call: least(calls[call]) for call in calls}
print(json.dumps(found))
"""


def folder_of(name: str, classes: Path, temporary: Path) -> Path:
    """Portable modules with the native ones of one class."""
    alone = temporary / f"{name}-alone"
    alone.mkdir()
    (alone / name).symlink_to((classes / name).resolve())
    rows = (classes / "modules.tsv").read_text().splitlines()
    kept = [row for row in rows if not row.startswith("target\t") or row.endswith(f"\t{name}")]
    (alone / "modules.tsv").write_text("\n".join(kept) + "\n")
    return portable_folder(package_dir() / "modules", temporary / name, alone)


def times(folder: Path, cache: Path, threads: int) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(folder), str(threads), *TYPES]
    env = {**os.environ, "XPU_OPS_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.class_times", description=__doc__)
    parser.add_argument("--classes", type=Path, required=True)
    parser.add_argument("--names", nargs=2, default=("skx", "sapphirerapids"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as room:
        folders = {name: folder_of(name, args.classes, Path(room)) for name in args.names}
        for threads in args.threads:
            rounds: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in folders}
            for _ in range(args.rounds):
                for name, folder in folders.items():
                    rounds[name].append(times(folder, Path(room) / f"cache-{name}", threads))
            first, second = (rounds[name] for name in args.names)
            every: list[float] = []
            for kind in TYPES:
                of = {
                    call: min(r[kind][call] for r in first) / min(r[kind][call] for r in second)
                    for call in first[0][kind]
                }
                every += of.values()
                listed = ", ".join(
                    f"{call} {ratio:.2f}" for call, ratio in sorted(of.items(), key=lambda item: item[1])
                )
                print(f"{threads} threads, {kind}: {geomean(list(of.values())):.3f}: {listed}")
            print(f"{threads} threads: {args.names[0]} by {args.names[1]}: {geomean(every):.3f}")


if __name__ == "__main__":
    main()
