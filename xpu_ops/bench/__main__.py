"""Command line of the benchmark: `xpu-ops bench` or `python -m xpu_ops.bench`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from . import cases as all_cases
from . import distributed, process, report
from . import threads as many
from .core import Row, measure
from .verdicts import verdicts


def limits() -> dict[str, float]:
    """Limits of the machine, measured now: STREAM-like triad in GB/s and the largest f32 product in Gflop/s, on torch CPU."""
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


def several(numbers: list[int], filter: str, out: Path | None, docs: Path | None) -> None:
    """The rows of many cores on each number of threads: printed, and written where the options say."""
    results = many.measured(numbers, filter)
    if not any(results.values()):
        print(f"no row's name contains {filter!r}")
        raise typer.Exit(1)
    text = many.markdown(results, torch.xpu.get_device_name())
    print(text)
    if docs is not None:
        report.write(docs, text, many.chart(results), many.SECTION)
    if out is not None:
        rows = {str(n): [r.as_dict() for r in rows] for n, rows in results.items()}
        out.write_text(json.dumps({"device": torch.xpu.get_device_name(), "rows": rows}, indent=1) + "\n")


def main(
    level: Annotated[
        str, typer.Option(help="core, full, sample: every operator at one size, or types: of every element type")
    ] = "core",
    filter: Annotated[str, typer.Option(help="only rows whose section or name contains this")] = "",
    out: Annotated[Path | None, typer.Option("--json", help="write the rows here")] = None,
    compare: Annotated[Path | None, typer.Option(help="an earlier --json file to compare with")] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Markdown file whose bench section to fill, with a chart beside it")
    ] = None,
    threads: Annotated[
        str, typer.Option(help="threads of the CPU backend; several, as 1,2,4,8: the rows of many cores on each")
    ] = "2",
) -> None:
    """Times xpu against torch CPU in one process; ratio = CPU time / xpu time."""
    if level not in all_cases.SIZES:
        raise typer.BadParameter(f"--level is one of {', '.join(all_cases.SIZES)}, not {level!r}")
    try:
        numbers = many.counts(threads)
    except ValueError as error:
        raise typer.BadParameter(f"--threads: {error}") from error
    if len(numbers) > 1:
        return several(numbers, filter, out, docs)
    torch.set_num_threads(numbers[0])
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
                if not console.is_terminal and (not rows or rows[-1].section != case.section):
                    print(f"{len(rows)} rows; {case.section}", file=sys.stderr, flush=True)
                rows.append(measure(case))
        if level != "types":
            rows += process.rows(lambda section, name: filter in f"{section} {name}")
            rows += distributed.rows(lambda section, name: filter in f"{section} {name}")
    except KeyboardInterrupt:
        console.print(f"stopped after {len(rows)} rows")
    if not rows:
        console.print(f"no row's section or name contains {filter!r}")
        raise typer.Exit(1)
    earlier = {}
    if compare is not None:
        earlier = {(r["section"], r["name"]): r["ratio"] for r in json.loads(compare.read_text())["rows"]}
    table = Table("section", "name", "CPU", "xpu", "unit", "ratio", "was", "share of limit", "spread", "")
    for r in rows:
        share = ""
        if r.xpu_us and r.bytes_moved:
            share = f"{r.bytes_moved / r.xpu_us / 1e3 / machine['triad_gbs']:.0%} bandwidth"
        elif r.xpu_us and r.flops:
            share = f"{r.flops / r.xpu_us / 1e3 / machine['gemm_gflops']:.0%} gemm"
        was = earlier.get((r.section, r.name))
        table.add_row(
            r.section, r.name, f"{r.cpu_us:.1f}", f"{r.xpu_us:.1f}", r.unit, f"{r.ratio:.2f}",
            f"{was:.2f}" if was else "", share, f"{r.spread:.0%}", r.error,
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
            "threads": numbers[0],
            "limits": machine,
        }
        out.write_text(json.dumps({**data, "rows": [r.as_dict() for r in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
