"""The command line: `xpu-ops coverage` or `python -m xpu_ops.coverage`."""

from __future__ import annotations

import json
import resource
import runpy
import signal
import sys
import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from xpu_ops._paths import not_built

from . import diff as differences
from . import evidence, html, render, report, runner
from .trace import Trace, trace_ops

app = typer.Typer(help="What runs natively on xpu, from registrations and from recorded runs.", no_args_is_help=True)


@app.callback()
def needs_a_build() -> None:
    """Ends the program where the sources have no build."""
    if sentence := not_built():
        sys.exit(f"xpu-ops: {sentence}")


LOG_SECONDS = 30.0  # between lines of progress where there is no terminal

RecordingOption = Annotated[Path | None, typer.Option("--recording", help="the recorded run to read or write")]
ImportOption = Annotated[
    list[str] | None, typer.Option("--import", help="a module that registers more kernels; may be repeated")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", "--output", "-o", help="write to this file instead of the terminal")
]


class Format(StrEnum):
    table = "table"
    json = "json"
    html = "html"
    markdown = "markdown"


class Set(StrEnum):
    torch = "torch"
    cpu = "cpu"
    cuda = "cuda"
    peer = "peer"


def _console(*, stderr: bool = False) -> Console:
    """Tables that go to a file or a pipe are wide enough to read."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=160)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)


@app.command(name="report")
def report_command(
    format: Annotated[Format, typer.Option(help="how to print it; JSON holds everything")] = Format.table,
    against: Annotated[Set | None, typer.Option(help="list the overloads of this set")] = None,
    family: Annotated[str, typer.Option(help="list the overloads of this family")] = "",
    namespace: Annotated[
        str, typer.Option(help="list the overloads of this namespace: aten, xpu_ops, mkldnn ...")
    ] = "",
    dtype: Annotated[str, typer.Option(help="list what knows this element type: f32, bf16, i64 ...")] = "",
    verdict: Annotated[list[str] | None, typer.Option(help="list what has this verdict; may be repeated")] = None,
    recording: RecordingOption = None,
    imports: ImportOption = None,
    registered_only: Annotated[bool, typer.Option("--registered-only", help="leave recorded runs out")] = False,
    out: OutOption = None,
) -> None:
    """Every ATen overload of the installed torch with one verdict, totals by set and family, and other namespaces apart."""
    unknown = set(verdict or ()) - set(report.VERDICTS)
    if unknown:
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}; verdicts are {', '.join(report.VERDICTS)}")
    document = report.build(recording, with_evidence=not registered_only, imports=imports or [])
    if family and family not in document["families"]:
        raise typer.BadParameter(f"family {family}; families are {', '.join(document['families'])}")
    known = ["aten", *document["namespaces"]]
    if namespace and namespace not in known:
        raise typer.BadParameter(f"namespace {namespace}; namespaces are {', '.join(known)}")
    rows = report.select(
        document, against=against or "", family=family, namespace=namespace, dtype=dtype, verdicts=verdict or ()
    )
    listing = bool(against or family or namespace or dtype or verdict)
    if format is Format.json:
        _write(json.dumps({**document, "overloads": rows} if listing else document, indent=1) + "\n", out)
    elif format is Format.html:
        _write(html.page(document, []), out)
    elif format is Format.markdown:
        _write(render.markdown(document, rows, listing=listing), out)
    elif out is None:
        render.table(document, rows, _console(), listing=listing)
    else:
        with out.open("w") as file:
            render.table(document, rows, Console(file=file, width=160), listing=listing)


def _missing_for_run() -> str:
    try:
        import hypothesis  # noqa: F401
        import pytest  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed; pip install -r requirements/dev.txt"
    return ""


@app.command()
def run(
    sample: Annotated[int, typer.Option(help="run this many tests, spread evenly; 0 runs all")] = 0,
    ops: Annotated[str, typer.Option(help="only tests that name one of these operators, comma-separated")] = "",
    tests: Annotated[
        list[Path] | None,
        typer.Option(help="files or folders of tests, default tests/ops and tests/aten of the source tree"),
    ] = None,
    recording: RecordingOption = None,
    workers: Annotated[int, typer.Option(help="processes; 0 is one per core")] = 0,
    timeout: Annotated[float, typer.Option(help="seconds a test may take")] = 120.0,
    again: Annotated[bool, typer.Option("--again", help="forget what is recorded")] = False,
    imports: ImportOption = None,
) -> None:
    """Execute the operator tests and record what ran natively and agreed with the CPU.

    Exit code 0: everything ran as expected. 1: a test failed, crashed or took too long. 2: it could not start.
    """
    console = _console(stderr=True)
    tree = evidence.tests_dir()
    if tests is None and tree is None:
        console.print("xpu-ops coverage run: the tests are in the source tree, not in the package; run it there.")
        raise typer.Exit(2)
    if problem := _missing_for_run():
        console.print(f"xpu-ops coverage run: {problem}")
        raise typer.Exit(2)
    chosen = [t.resolve() for t in tests] if tests else [tree / f for f in runner.FOLDERS if tree]
    for path in chosen:
        if not path.exists():
            raise typer.BadParameter(f"{path} does not exist")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console
    )
    task = bar.add_task("coverage", total=None)

    begin = told = time.monotonic()

    def progress(done: int, total: int, unit: str) -> None:
        nonlocal told
        bar.update(task, completed=done, total=total, description=unit.rpartition("::")[2][:50].ljust(50))
        if not console.is_terminal and time.monotonic() - told > LOG_SECONDS:  # the bar shows nothing there
            told = time.monotonic()
            console.print(f"{done} of {total} tests after {told - begin:.0f} s")

    job = runner.Run(
        runner.Options(
            tests=chosen,
            path=recording or evidence.default_path(),
            sample=sample,
            ops=[o for o in ops.split(",") if o],
            workers=workers,
            timeout=timeout,
            again=again,
            imports=imports or [],
        ),
        progress,
    )

    def terminate(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, terminate) if threading.current_thread() is threading.main_thread() else None
    try:
        with bar:
            job.execute()
    except KeyboardInterrupt:
        console.print(f"stopped after {job.done} of {job.total} tests; the same command goes on from there")
        raise typer.Exit(1) from None
    except RuntimeError as error:
        console.print(f"xpu-ops coverage run: {error}")
        raise typer.Exit(2) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
    for result in job.problems:
        console.print(f"{result['outcome']:8} {result['unit']}: {result['message'].strip()[:200]}", markup=False)
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(job.counts.items()))
    ran = job.total - job.resumed
    console.print(f"{job.total} of {job.collected} tests: {counts or 'none'}; {job.resumed} were recorded before")
    if ran:
        rate = ran / max(job.seconds, 1e-9)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)  # the machine may do other things as well
        console.print(
            f"{job.seconds:.0f} s, {rate:.1f} tests a second; all of them take about {job.collected / rate / 60:.0f} min; "
            f"{spent.ru_utime + spent.ru_stime:.0f} s of processor time"
        )
    console.print(f"recorded in {job.options.path}")
    raise typer.Exit(1 if job.problems or not job.total else 0)


def _print_trace(trace: Trace, console: Console, limit: int) -> None:
    table = Table("operator", "how", "dtypes", "calls", "host ms", "device ms", "most frequent shapes")
    for o in trace.operators[:limit]:
        shapes = "; ".join(f"{s or 'no tensor'} x{n}" for s, n in list(o.shapes.items())[:2])
        how = f"{o.how} ({' '.join(o.below)})" if o.below else o.how
        table.add_row(o.name, how, " ".join(o.dtypes), str(o.calls), f"{o.host_ms:.2f}", f"{o.device_ms:.2f}", shapes)
    console.print(table)
    if len(trace.operators) > limit:
        console.print(f"and {len(trace.operators) - limit} more operators, see --json")
    console.print(
        f"{trace.seconds:.2f} s, of which {trace.operator_ms / 1e3:.3f} s in operators on xpu and {trace.load_ms / 1e3:.3f} s in "
        f"loading kernels at their first calls; "
        f"{trace.fallback_share:.1%} of that in fallbacks, {trace.native_share:.1%} of the calls native"
    )
    if trace.timed:
        console.print("Each kernel was waited for: device ms is from the return of the call until the queue was empty.")
    for i, o in enumerate(trace.fallbacks[:20], 1):
        share = o.total_ms / trace.operator_ms if trace.operator_ms else 0.0
        console.print(
            f"add next, {i}: {o.name} ({' '.join(o.dtypes)}): {o.calls} calls, {o.total_ms:.2f} ms, {share:.1%}"
        )


def _run(script: Path) -> None:
    """Runs a program to its end; an exit code of 0 is no end of ours."""
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def trace(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="a Python program; what follows are its arguments")],
    out: Annotated[Path | None, typer.Option("--json", help="write the trace here")] = None,
    limit: Annotated[int, typer.Option(help="operators to print")] = 40,
    untimed: Annotated[bool, typer.Option("--untimed", help="do not wait for each kernel: no device times")] = False,
    warmup: Annotated[
        bool, typer.Option("--warmup", help="run the program once before, so that no first call is in the times")
    ] = False,
) -> None:
    """Run a program and tell what each of its operators did on xpu. The exit code is the program's."""
    if not script.is_file():
        raise typer.BadParameter(f"{script} is not a file")
    sys.argv = [str(script), *context.args]
    sys.path.insert(0, str(script.resolve().parent))
    console = _console(stderr=True)
    collected: Trace | None = None
    if warmup:
        _run(script)
    try:
        with trace_ops(timed=not untimed) as collected:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        if collected is not None:
            _print_trace(collected, console, limit)
            if out is not None:
                _write(json.dumps({"name": script.name, **collected.as_dict()}, indent=1) + "\n", out)


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != report.SCHEMA:
        raise typer.BadParameter(f"{path} is no coverage document of schema {report.SCHEMA}")
    return document


@app.command()
def diff(
    old: Annotated[Path, typer.Argument(help="an earlier `report --format json`")],
    new: Annotated[Path, typer.Argument(help="a later one")],
) -> None:
    """Differences between two reports. Exit code 1 where an overload got worse."""
    changes = differences.compare(_load(old), _load(new))
    table = Table("overload", "what", "old", "new", "")
    for c in changes:
        table.add_row(c.name, c.what, c.old, c.new, "regression" if c.regression else "")
    worse = sum(c.regression for c in changes)
    console = _console()
    if changes:
        console.print(table)
    console.print(f"{len(changes)} changes, {worse} regressions")
    raise typer.Exit(1 if worse else 0)


@app.command(name="html")
def html_command(
    out: Annotated[Path, typer.Option("--out", "--output", "-o", help="the page to write")] = Path("coverage.html"),
    source: Annotated[Path | None, typer.Option("--json", help="render this report instead of a new one")] = None,
    traces: Annotated[
        list[Path] | None, typer.Option("--trace", help="a trace's --json to show; may be repeated")
    ] = None,
    recording: RecordingOption = None,
    imports: ImportOption = None,
) -> None:
    """One self-contained page: heat map of overload by dtype, filters, totals and traces."""
    document = _load(source) if source else report.build(recording, imports=imports or [])
    shown = [json.loads(t.read_text()) for t in traces or ()]
    _write(html.page(document, shown), out)
    _console().print(f"{out}: {len(document['overloads'])} overloads", soft_wrap=True)
