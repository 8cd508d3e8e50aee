"""The command `xpu-ops`. Commands are imported when they run: nothing here is on the way of `import torch`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from xpu_ops.coverage.commands import app as coverage
from xpu_ops.coverage.commands import needs_a_build

app = typer.Typer(help="The xpu device for a stock PyTorch.", no_args_is_help=True)
app.add_typer(coverage, name="coverage")


@app.callback()
def before(context: typer.Context) -> None:
    """Ends the program where the sources have no build, which the doctor says itself."""
    if context.invoked_subcommand != "doctor":
        needs_a_build()


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    check: Annotated[bool, typer.Option(help="run the self-check on the device")] = True,
) -> None:
    """Versions, devices, caches and a self-check; each problem with its fix. Exit code 1 where there is one."""
    from xpu_ops import doctor

    raise typer.Exit(doctor.main(as_json=as_json, check=check))


@app.command()
def prelink(
    families: Annotated[list[str] | None, typer.Argument(help="such as sort or unary; all by default")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="processes; all cores by default")] = 0,
    device: Annotated[int, typer.Option(help="index of the device")] = 0,
) -> None:
    """Link every kernel module for the device, on all cores, so that no program has to wait for it. Exit code 1 where a
    module fails."""
    from xpu_ops import prelink

    raise typer.Exit(prelink.main(families or [], jobs, device))


@app.command()
def bringup(
    out: Annotated[Path | None, typer.Option(help="folder of the results; an earlier one is gone on with")] = None,
    stages: Annotated[str, typer.Option(help="names with commas between; all in order by default")] = "",
    minutes: Annotated[float, typer.Option(help="time for all stages")] = 30.0,
) -> None:
    """Everything that a new device has to show: properties, memory, every operator against the CPU, oneDNN and oneMKL,
    models, times. A crash or a hang costs one item. Writes one archive to send back; exit code 1 where something is wrong."""
    from xpu_ops.bringup.commands import main as run

    raise typer.Exit(run(out, stages, minutes))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False,
    short_help="Time xpu against torch's CPU backend.",
)  # fmt: skip
def bench(context: typer.Context) -> None:
    """Everything behind `bench` goes to `python -m xpu_ops.bench`."""
    from xpu_ops.bench.__main__ import main as run

    sys.argv = ["xpu-ops bench", *context.args]
    typer.run(run)


@app.command(
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
    short_help="Run a program and show where its time goes.",
)  # fmt: skip
def profile(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="SCRIPT", help="the program, followed by its own arguments")],
    module: Annotated[bool, typer.Option("--module", "-m", help="SCRIPT is the name of a module")] = False,
    html: Annotated[Path | None, typer.Option(help="write a page with a timeline and a flame graph")] = None,
    json: Annotated[Path | None, typer.Option(help="write the figures as JSON")] = None,
    trace: Annotated[Path | None, typer.Option(help="write the trace, for Perfetto or chrome://tracing")] = None,
    stacks: Annotated[bool, typer.Option(help="show Python functions, too; slows the program down")] = False,
    rows: Annotated[int, typer.Option(help="rows of each table")] = 20,
) -> None:
    """Run SCRIPT under torch.profiler; print time per operator and per kernel, waits, fallback, memory, and what to
    look at first. Exits with the program's exit code."""
    from xpu_ops.profile.commands import main as run

    raise typer.Exit(
        run(target, context.args, module=module, stacks=stacks, rows=rows, page=html, out=json, trace_file=trace)
    )


@app.command(
    context_settings={"allow_extra_args": True, "allow_interspersed_args": False, "ignore_unknown_options": True},
    short_help="Run a program with the limits of a named GPU.",
)  # fmt: skip
def emulate(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="a770, b580 or max1550; also as `Arc A770`")],
) -> None:
    """Run PROGRAM, the rest of the line, with the properties and refusals of a GPU: memory, fp64, sub-group sizes, tiles. Without a
    program the properties are printed. Kernels run on the CPU device; no time and no rounding is the GPU's."""
    from xpu_ops.emulate import main as run

    run(name, context.args)


def main() -> None:
    """The console script."""
    app(prog_name="xpu-ops")


if __name__ == "__main__":
    main()
