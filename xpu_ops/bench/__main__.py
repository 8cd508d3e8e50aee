"""Command line of the benchmark: `xpu-ops bench` or `python -m xpu_ops.bench`."""

from __future__ import annotations

import json
import re
import statistics
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from . import cases as all_cases
from . import distributed, fused, process, report
from .core import Row, geomean, measure


def limits() -> dict[str, float]:
    """What the machine can do, measured now: STREAM-like triad in GB/s and the largest f32 product in Gflop/s, on torch CPU."""
    n = 16_000_000
    a, b, c = (torch.rand(n) for _ in range(3))
    best = min(_seconds(lambda: torch.add(a, b, alpha=2.0, out=c)) for _ in range(7))
    m = torch.rand(2048, 2048)
    gemm = min(_seconds(lambda: torch.mm(m, m)) for _ in range(5))
    return {"triad_gbs": 12 * n / best / 1e9, "gemm_gflops": 2 * 2048**3 / gemm / 1e9}


def _seconds(function: object) -> float:
    start = time.perf_counter()
    function()  # type: ignore[operator]
    return time.perf_counter() - start


def verdicts(rows: list[Row], triad: float, gemm: float) -> list[str]:
    """One line a target of the project: met, or missed by how much."""
    out = []

    def target(name: str, value: float, want: float, less: bool = False) -> None:
        met = value <= want if less else value >= want
        out.append(f"{'met   ' if met else 'missed'} {name}: {value:.2f} against {want:.2f}")

    good = [r for r in rows if not r.error]
    for r in good:
        if r.name == "add, 1 element":
            target("one-element add, microseconds", r.xpu_us, 3.0, less=True)
        if r.name.startswith("20-op chain"):
            target("20-op chain, ratio", r.ratio, 0.7)
    # sections, wanted geometric mean, wanted lowest
    groups = {
        "pointwise, reductions, copies": (("pointwise", "reduction", "copy"), 2.0, 0.9),
        "norms, softmax, pooling": (("norm", "softmax", "pooling"), 1.2, 0.9),
        "matmul": (("matmul",), 1.05, 0.9),
        "convolution": (("convolution",), 1.05, 0.9),
        "attention": (("attention",), 1.0, 1.0),
        "indexing, sort": (("indexing",), 1.0, 0.9),
        "sampling": (("sampling",), 2.0, 0.9),
        "sparse": (("sparse",), 1.0, 0.9),
        "other families": (("foreach", "loss", "sequence", "quantization", "factory"), 1.0, 0.9),
        "models": (("model",), 1.5, 0.95),
        "collectives": (("distributed",), 1.0, 0.9),
    }
    for name, (prefixes, mean, lowest) in groups.items():
        # A thousand elements measure the host path, which has rows of its own.
        ratios = [r.ratio for r in good if r.section.startswith(prefixes) and not r.section.endswith("1e+03")]
        if ratios:
            target(f"{name}, geometric mean ratio", geomean(ratios), mean)
            target(f"{name}, lowest ratio", min(ratios), lowest)
    # What the issue of each names, at 1e5 elements and above.
    measured = [r for r in good if not r.section.endswith(("1e+03", "1e+04"))]
    if ordered := [r.ratio for r in measured if r.name.startswith(("sort", "topk", "argsort", "msort"))]:
        target("sort and topk, lowest ratio", min(ordered), 2.0)
    names = ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "sigmoid", "pow")
    if curves := [r.ratio for r in measured if r.section.startswith("pointwise") and r.name in names]:
        target("transcendental, geometric mean ratio", geomean(curves), 2.0)
    products = [r for r in good if r.flops and re.search(r"mm f32 (1024|2048|4096)$", r.name) and r.section == "matmul"]
    if products and gemm:
        target(
            "f32 products from 1024, lowest share of peak", min(r.flops / r.xpu_us / 1e3 for r in products) / gemm, 0.85
        )
    chains = [r for r in good if r.section == fused.SECTION]
    if chains:
        target("fused against unfused, geometric mean ratio", geomean([r.ratio for r in chains]), 1.2)
    # Bytes take longer than operations, at what the machine can do of each.
    if chains := [r for r in chains if r.bytes_moved / triad > r.flops / gemm]:
        target("fused against unfused, bound by memory, lowest ratio", min(r.ratio for r in chains), 1.2)
    by_name = {(r.section, r.name): r for r in good}
    if first := by_name.get(("process", process.FIRST)):
        target("import to first result, seconds", first.xpu_us / 1e6, 1.0, less=True)
    if linked := by_name.get(("process", process.LINKED)):
        target("modules compiled at the first call", linked.xpu_us, 0, less=True)
    if memory := by_name.get(("process", process.MEMORY)):
        target("resident memory of training, of torch CPU's", memory.xpu_us / memory.cpu_us, 1.5, less=True)
    if workers := [r.ratio for r in good if r.section == "workers"]:
        target("two workers against one, lowest ratio", min(workers), 1.7)
    # Time over elements, of 1e8 against 1e7: both past the cache.
    growth = [
        large.xpu_us / r.xpu_us / 10
        for (section, name), r in by_name.items()
        if name == "1e+07" and (large := by_name.get((section, "1e+08")))
    ]
    if growth:
        target("time an element of 1e8 over that of 1e7, highest", max(growth), 1.25, less=True)
    bound = [r for r in good if r.section.endswith("2e+07") and r.bytes_moved and triad]
    if bound:
        share = [r.bytes_moved / r.xpu_us / 1e3 / triad for r in bound]
        target("memory-bound rows at 1.6e7, median share of the triad", statistics.median(share), 0.85)
    return out


def main(
    level: Annotated[str, typer.Option(help="core, full, or sample: every operator at one size")] = "core",
    filter: Annotated[str, typer.Option(help="only rows whose section or name contains this")] = "",
    out: Annotated[Path | None, typer.Option("--json", help="write the rows here")] = None,
    compare: Annotated[Path | None, typer.Option(help="an earlier --json file to compare with")] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Markdown file whose bench section to fill, with a chart beside it")
    ] = None,
    threads: Annotated[int, typer.Option(help="threads of the CPU backend")] = 2,
) -> None:
    """Times xpu against torch CPU in one process; ratio = CPU time / xpu time."""
    if level not in all_cases.SIZES:
        raise typer.BadParameter(f"--level is one of {', '.join(all_cases.SIZES)}, not {level!r}")
    torch.set_num_threads(threads)
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a table in a file is read by its lines
    machine = limits()
    # One case at a time: the tensors of all of them do not fit into memory together.
    chosen = (c for c in all_cases.cases(level) if filter in f"{c.section} {c.name}")
    rows: list[Row] = []
    try:
        # Drawn between the rows only: a thread that redraws would run beside what is timed.
        with Progress("{task.description}", console=console, transient=True, auto_refresh=False) as progress:
            task = progress.add_task("")
            for case in chosen:
                progress.update(task, description=f"{len(rows) + 1}: {case.section}, {case.name}", refresh=True)
                rows.append(measure(case))
        rows += process.rows(lambda section, name: filter in f"{section} {name}")
        rows += distributed.rows(lambda section, name: filter in f"{section} {name}")
    except KeyboardInterrupt:
        console.print(f"stopped after {len(rows)} rows")
    earlier = {}
    if compare is not None:
        earlier = {(r["section"], r["name"]): r["ratio"] for r in json.loads(compare.read_text())["rows"]}
    table = Table("section", "name", "CPU us", "xpu us", "ratio", "was", "share of limit", "spread", "")
    for r in rows:
        share = ""
        if r.xpu_us and r.bytes_moved:
            share = f"{r.bytes_moved / r.xpu_us / 1e3 / machine['triad_gbs']:.0%} bandwidth"
        elif r.xpu_us and r.flops:
            share = f"{r.flops / r.xpu_us / 1e3 / machine['gemm_gflops']:.0%} gemm"
        was = earlier.get((r.section, r.name))
        table.add_row(
            r.section, r.name, f"{r.cpu_us:.1f}", f"{r.xpu_us:.1f}", f"{r.ratio:.2f}", f"{was:.2f}" if was else "", share,
            f"{r.spread:.0%}", r.error,
        )  # fmt: skip
    console.print(table)
    console.print(f"limits: triad {machine['triad_gbs']:.1f} GB/s, gemm {machine['gemm_gflops']:.0f} Gflop/s")
    lines = verdicts(rows, machine["triad_gbs"], machine["gemm_gflops"])
    for line in lines:
        console.print(line)
    if docs is not None:
        report.write(docs, report.markdown(rows, machine, torch.xpu.get_device_name(), lines), report.chart(rows))
    if out is not None:
        data = {
            "torch": torch.__version__,
            "device": torch.xpu.get_device_name(),
            "threads": threads,
            "limits": machine,
        }
        out.write_text(json.dumps({**data, "rows": [r.as_dict() for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
