"""The command `xpu-ops`. Commands are imported when they run: nothing here is on the way of `import torch`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xpu_ops.coverage.commands import app as coverage

app = typer.Typer(help="The xpu device for a stock PyTorch.", no_args_is_help=True)
app.add_typer(coverage, name="coverage")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    check: Annotated[bool, typer.Option(help="run the self-check on the device")] = True,
) -> None:
    """Versions, devices, caches and a self-check; each problem with its fix. Exit code 1 where there is one."""
    from xpu_ops import doctor

    raise typer.Exit(doctor.main(as_json=as_json, check=check))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False,
    short_help="Time xpu against torch's CPU backend.",
)  # fmt: skip
def bench(context: typer.Context) -> None:
    """Everything behind `bench` goes to `python -m xpu_ops.bench`."""
    from xpu_ops.bench.__main__ import main as run

    sys.argv = ["xpu-ops bench", *context.args]
    typer.run(run)


def main() -> None:
    """The console script."""
    app(prog_name="xpu-ops")


if __name__ == "__main__":
    main()
