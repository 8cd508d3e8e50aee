"""The command line: `xpu-ops profile [options] script.py [arguments]`."""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
import traceback
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

import xpu_ops

from . import html
from .report import Memory, Report, build
from .trace import Trace, read


def _memory() -> dict[str, int]:
    stats = torch.xpu.memory_stats() if torch.xpu.is_initialized() else {}
    return {
        "allocated": stats.get("allocated_bytes.all.current", 0),
        "peak": stats.get("allocated_bytes.all.peak", 0),
        "reserved": stats.get("reserved_bytes.all.current", 0),
        "segments": stats.get("segment.all.allocated", 0),
        "retries": stats.get("num_alloc_retries", 0),
    }


def _run(target: str, arguments: list[str], module: bool) -> int:
    """The program as `python` runs it; its exit code."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [target, *arguments]
    try:
        if module:
            sys.path.insert(0, "")
            runpy.run_module(target, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(target).resolve().parent))
            runpy.run_path(target, run_name="__main__")
    except SystemExit as e:
        if e.code is None or isinstance(e.code, int):
            return e.code or 0
        print(e.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = argv, path
    return 0


def record(target: str, arguments: list[str], *, module: bool, stacks: bool, file: Path) -> tuple[int, Report, Trace]:
    """Run a program under torch.profiler, and write its trace to a file. Returns its exit code and what was found."""
    counts, before = dict(xpu_ops.fallback.counts()), _memory()
    if torch.xpu.is_initialized():
        torch.xpu.reset_peak_memory_stats()
    prof = profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.XPU],
        record_shapes=True,
        profile_memory=True,
        with_stack=stacks,
    )
    prof.start()
    try:
        code = _run(target, arguments, module)
    finally:
        prof.stop()
    after = _memory()
    prof.export_chrome_trace(str(file))
    fallback = {n: c - counts.get(n, 0) for n, c in xpu_ops.fallback.counts().items() if c > counts.get(n, 0)}
    memory = Memory(
        before=before["allocated"],
        after=after["allocated"],
        peak=after["peak"],
        reserved=after["reserved"],
        segments=after["segments"] - before["segments"],
        retries=after["retries"] - before["retries"],
    )
    trace = read(file)
    return code, build(trace, fallback, memory), trace


def show(report: Report, console: Console, rows: int) -> None:
    """Tables on a terminal."""

    def percent(ms: float) -> str:
        return f"{ms / max(report.wall_ms, 1e-9):.0%}"

    console.print("[bold]What to look at first[/bold]")
    for text in report.findings:
        console.print(f"- {text}")
    summary = Table(title="Summary", show_header=False, title_justify="left")
    for name, value in (
        ("time of the program", f"{report.wall_ms:.1f} ms"),
        ("device executing", f"{report.busy_ms:.1f} ms  {percent(report.busy_ms)}"),
        ("inline work on the host", f"{report.inline_ms:.1f} ms  {percent(report.inline_ms)}"),
        ("host waiting", f"{report.wait_ms:.1f} ms  {percent(report.wait_ms)}"),
        ("host in oneDNN's calls", f"{report.primitive_ms:.1f} ms  {percent(report.primitive_ms)}"),
        ("loading kernel modules", f"{report.load_ms:.1f} ms  {percent(report.load_ms)}"),
        ("commands", f"{report.launches} launched, {report.inlined} inline"),
        ("calls of the CPU fallback", str(sum(report.fallback.values()))),
        (
            "device memory",
            f"{report.memory.before / 2**20:.1f} -> {report.memory.after / 2**20:.1f} MiB, peak "
            f"{report.memory.peak / 2**20:.1f} MiB, {report.memory.segments} segments from the driver",
        ),
    ):
        summary.add_row(name, value)
    console.print(summary)
    operators = Table(title="Operators, with all below them", title_justify="left")
    for name in ("operator", "calls", "device ms", "inline ms", "host ms", "wait ms", "shapes"):
        operators.add_column(name, justify="left" if name in ("operator", "shapes") else "right", overflow="fold")
    for o in report.operators[:rows]:
        shapes = o.shapes.most_common(1)[0][0] if o.shapes else ""
        more = f" and {len(o.shapes) - 1} more" if len(o.shapes) > 1 else ""
        operators.add_row(
            o.name + (" (fallback)" if o.fallback else ""), str(o.calls), f"{o.device_ms:.3f}", f"{o.inline_ms:.3f}",
            f"{o.host_ms:.3f}", f"{o.wait_ms:.3f}", shapes + more,
        )  # fmt: skip
    console.print(operators)
    kernels = Table(title="Kernels, primitives, copies", title_justify="left")
    for name in ("name", "calls", "total ms", "mean us", "longest us", "rate", "operators"):
        kernels.add_column(name, justify="left" if name in ("name", "operators") else "right", overflow="fold")
    for k in report.kernels[:rows]:
        by = ", ".join(name for name, _ in k.operators.most_common(2))
        kernels.add_row(
            k.name + (" (inline)" if k.inlined else ""), str(k.calls), f"{k.total_ms:.3f}",
            f"{k.total_ms / k.calls * 1e3:.1f}", f"{k.longest_ms * 1e3:.1f}", k.rate(), by,
        )  # fmt: skip
    console.print(kernels)
    if report.waits:
        waits = Table(title="Waits of the host", title_justify="left")
        waits.add_column("operator")
        waits.add_column("ms", justify="right")
        for name, ms in report.waits.most_common(rows):
            waits.add_row(name, f"{ms:.3f}")
        console.print(waits)


def main(
    target: str, arguments: list[str], *, module: bool, stacks: bool, rows: int, page: Path | None, out: Path | None,
    trace_file: Path | None,
) -> int:  # fmt: skip
    """Profile a program, print what was found, write what was asked for. Returns the program's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        file = trace_file or Path(folder) / "trace.json"
        code, report, trace = record(target, arguments, module=module, stacks=stacks, file=file)
    console = Console()
    show(report, console if console.is_terminal else Console(width=160), rows)
    if out is not None:
        out.write_text(json.dumps(report.as_dict(), indent=1))
    if page is not None:
        page.write_text(html.page(report, trace, " ".join([target, *arguments])))
    return code
