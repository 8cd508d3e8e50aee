"""python -m tools.readme_coverage REPORT.json README.md: writes README's table of registrations from the report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xpu_ops.coverage.render import readme_table, replace_between_markers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.readme_coverage", description=__doc__)
    parser.add_argument("report", type=Path, help="of `xpu-ops coverage report --format json`")
    parser.add_argument("readme", type=Path)
    args = parser.parse_args()
    old = args.readme.read_text()
    new = replace_between_markers(old, readme_table(json.loads(args.report.read_text())))
    if new != old:
        args.readme.write_text(new)
    print(f"{args.readme}: {'written' if new != old else 'up to date'}")


if __name__ == "__main__":
    main()
