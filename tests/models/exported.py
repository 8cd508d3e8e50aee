"""Families as packages: exported and compiled on xpu, then loaded and run in a process of its own.

`python tests/models/exported.py [FAMILY ...]` runs all or some, prints a line per family and, where all of them ran, writes the
table of docs/export.md. `--times` compares calls of the package with torch.compile on xpu and with a package of torch's CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import modes
import torch
import zoo
from support import script
from torch import nn

import xpu_ops

TOL = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
BEGIN, END = "<!-- families: written by tests/models/exported.py -->", "<!-- end of families -->"

_RUN = """
    import json, time, torch, xpu_ops
    inputs = torch.load({folder!r} + "/inputs.pt")
    inputs = {{k: v.to("xpu") if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}}
    torch.xpu.synchronize()
    xpu_ops.fallback.reset()
    start = time.perf_counter()
    model = xpu_ops.aoti.load({folder!r} + "/model.pt2")
    out = model(**inputs)
    torch.xpu.synchronize()
    seconds = time.perf_counter() - start
    again = torch._inductor.aoti_load_package({folder!r} + "/model.pt2")(**inputs)
    torch.save([[t.cpu() for t in o] for o in (out, again)], {folder!r} + "/out.pt")
    print(json.dumps([seconds, xpu_ops.fallback.counts()]))
"""


class Plain(nn.Module):
    """A model whose results are tensors: a package then runs where the model's library is not installed."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **data: Any) -> tuple[torch.Tensor, ...]:
        return tuple(modes.results(self.model(**data)))


@dataclass
class Row:
    """How a package did in its own process."""

    family: str
    error: float = 0.0  # as in docs/models.md
    fallbacks: int = 0
    mebibytes: float = 0.0
    seconds: float = 0.0  # load to first result
    refused: str = ""
    wrong: str = ""

    def line(self) -> str:
        """A line of the table."""
        if self.refused or self.wrong:
            return f"| {self.family} | {self.wrong or self.refused} | | | |"
        return f"| {self.family} | yes, {self.error:.1e} | {self.fallbacks} | {self.mebibytes:.1f} | {self.seconds * 1e3:.0f} |"


class Refused(Exception):
    """torch.export does not take the model on the CPU, either."""


def program(name: str, device: str, dtype: torch.dtype = torch.float32) -> torch.export.ExportedProgram:
    """A family in inference, exported on a device."""
    m = modes.cast(modes.model(name, "cpu", dtype), device, dtype).eval()
    config = getattr(m, "config", None)
    if getattr(config, "use_cache", False):
        config.use_cache = False  # the cache is an object of Python
    data = modes.move(modes.batch(name, labels=False), device, dtype)
    with torch.no_grad():
        return torch.export.export(Plain(m), (), data)


def package(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Path:
    """<folder>/model.pt2 of a family on xpu, its inputs beside it.

    Raises:
        Refused: where torch.export refuses the model on any device.
    """
    torch.save(modes.move(modes.batch(name, labels=False), dtype=dtype), folder / "inputs.pt")
    try:
        there = program(name, "xpu", dtype)
    except Exception as error:
        try:
            program(name, "cpu", dtype)
        except Exception as cpu:
            sentence = str(cpu).splitlines()[0]
            raise Refused(f"torch.export refuses it on the CPU, too: {type(cpu).__name__}: {sentence}") from error
        raise
    with torch.no_grad():
        return Path(torch._inductor.aoti_compile_and_package(there, package_path=str(folder / "model.pt2")))


def run(folder: Path) -> tuple[list[modes.Tensors], float, dict[str, int]]:
    """Results by both ways to load in a fresh process, seconds to the first, fallbacks."""
    printed = script.out(_RUN.format(folder=str(folder)), XPU_OPS_CACHE_DIR=str(folder / "cache"))
    seconds, fallbacks = json.loads(printed.splitlines()[-1])
    results = [{f"out{i}": t for i, t in enumerate(out)} for out in torch.load(folder / "out.pt")]
    return results, seconds, fallbacks


def check(name: str, folder: Path, dtype: torch.dtype = torch.float32) -> Row:
    """A family through all of it.

    Raises:
        AssertionError: where a result is wrong.
        Refused: where torch.export refuses the model on any device.
    """
    path = package(name, folder, dtype)
    results, seconds, fallbacks = run(folder)
    reference, exact = modes.inference_reference(name, dtype)
    for out in results:
        modes.check(out, reference, exact, TOL[dtype])
    error = max(modes.error(out, exact) for out in results)
    return Row(name, error, sum(fallbacks.values()), path.stat().st_size / 2**20, seconds)


def measure(name: str) -> Row:
    """check() in a folder of its own; what goes wrong becomes part of the row."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return check(name, Path(folder))
        except Refused as error:
            return Row(name, refused=str(error))
        except Exception as error:
            traceback.print_exc()
            return Row(name, wrong=f"**{type(error).__name__}**")


def _seconds(call: Callable[[], object]) -> float:
    """One call, with the device's work."""
    begin = time.perf_counter()
    call()
    torch.xpu.synchronize()
    return time.perf_counter() - begin


def times(name: str, rounds: int = 15) -> dict[str, float]:
    """Medians of calls that take turns: of the package, of torch.compile on xpu, of a package on the CPU.

    Raises:
        Refused: where torch.export refuses the model on any device.
    """
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        there = xpu_ops.aoti.load(str(package(name, Path(folder))))
        path = torch._inductor.aoti_compile_and_package(program(name, "cpu"), package_path=folder + "/cpu.pt2")
        cpu = torch._inductor.aoti_load_package(path)
        compiled = torch.compile(Plain(modes.cast(modes.model(name, "cpu"), "xpu", torch.float32).eval()))
        data = {d: modes.move(modes.batch(name, labels=False), d, torch.float32) for d in ("cpu", "xpu")}
        calls: dict[str, Callable[[], object]] = {
            "package": lambda: there(**data["xpu"]),
            "compiled": lambda: compiled(**data["xpu"]),
            "CPU package": lambda: cpu(**data["cpu"]),
        }
        found: dict[str, list[float]] = {n: [] for n in calls}
        for _ in range(rounds + 3):  # the first calls compile and pack
            for n, call in calls.items():
                found[n].append(_seconds(call))
    return {n: statistics.median(s[3:]) for n, s in found.items()}


def compare(names: list[str]) -> int:
    """Print the ratios of every family to its package, and their geometric means."""
    ratios: dict[str, list[float]] = {"compiled": [], "CPU package": []}
    for name in names or zoo.FAMILIES:
        try:
            row = times(name)
        except Refused as error:
            print(f"{name}: {error}", flush=True)
            continue
        for other, list_ in ratios.items():
            list_.append(row[other] / row["package"])
        print(f"{name}: package {row['package'] * 1e3:.2f} ms, "
              + ", ".join(f"{other} {r[-1]:.2f} of it" for other, r in ratios.items()), flush=True)  # fmt: skip
        torch._dynamo.reset()
    for other, r in ratios.items():
        mean = math.exp(statistics.mean(map(math.log, r)))
        print(f"{other}: geometric mean {mean:.2f}, lowest {min(r):.2f}, {sum(x < 1 for x in r)} of {len(r)} below 1.0")
    return 0


def page(rows: list[Row]) -> str:
    """The text between the marks of docs/export.md."""
    good = [r for r in rows if not r.refused and not r.wrong]
    seconds = sorted(r.seconds for r in good)
    return "\n".join(
        [
            BEGIN,
            "`python tests/models/exported.py` exports the families of [models](models.md) in f32, in their small configurations, and loads",
            "each package in a process of its own with an empty cache, by `xpu_ops.aoti.load` and by torch. *Right*: as in",
            "models.md, and the largest relative error. *First result*: milliseconds from the beginning of `xpu_ops.aoti.load` to the",
            f"end of the first call; median {seconds[len(seconds) // 2] * 1e3:.0f}, on a machine with a load average of {os.getloadavg()[0]:.1f}.",
            "",
            "| family | right | fallbacks | MiB | first result |",
            "|---|---|---|---|---|",
            *(row.line() for row in rows),
            "",
            f"{len(good)} of {len(rows)} families are right in a package.",
            END,
        ]
    )  # fmt: skip


def main(names: list[str]) -> int:
    """Print a line per family; the page gets the table where all ran. 1 where a result is wrong."""
    rows = []
    for name in names or zoo.FAMILIES:
        rows.append(measure(name))
        print(json.dumps(asdict(rows[-1])), flush=True)
        torch._dynamo.reset()
    if not names:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(BEGIN)] + page(rows) + text[text.index(END) + len(END) :])
    return int(any(row.wrong or row.fallbacks for row in rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--times", action="store_true")
    args = parser.parse_args()
    sys.exit((compare if args.times else main)(args.families))
