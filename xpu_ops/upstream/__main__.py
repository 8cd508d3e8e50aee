"""python -m xpu_ops.upstream [--signatures LIBRARY ...]: the table of changes in Markdown, or signatures of their targets as JSON."""

from __future__ import annotations

import argparse
import json
import sys

from xpu_ops import upstream
from xpu_ops.upstream import registry


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m xpu_ops.upstream", description=__doc__)
    parser.add_argument(
        "--signatures", metavar="LIBRARY", nargs="+", help="of the targets in libraries that are installed"
    )
    libraries = parser.parse_args().signatures
    if libraries is None:
        sys.stdout.write(upstream.table())
    else:
        upstream.changes()
        json.dump({registry.release(n): registry.signatures(n) for n in libraries}, sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
