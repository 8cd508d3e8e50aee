"""python -m tools.api_docs FOLDER: renders the docstrings of the public Python API. A warning of pdoc is an error."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import pdoc

import xpu_ops

# The public modules come with xpu_ops, which names them in __all__.
MODULES = ("xpu_ops", "xpu_ops.coverage.trace")


def render(folder: Path) -> list[Path]:
    """Write the pages and return them.

    Raises UserWarning where pdoc warns.
    """
    for name in xpu_ops.__all__:  # loads what is imported at its first use
        getattr(xpu_ops, name)
    pdoc.render.configure(docformat="google", show_source=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        pdoc.pdoc(*MODULES, output_directory=folder)
    return sorted(folder.rglob("*.html"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.api_docs", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    print(f"{folder}/xpu_ops.html: {len(render(folder))} pages")


if __name__ == "__main__":
    main()
