"""Usage: python -m tools.lint_collectives [files]: the device headers, or files of device code beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.lint_collectives import check_text, headers, hidden_in_macros, program_of


def main(paths: list[str]) -> int:
    program = program_of(headers())
    if paths:
        found = [str(f) for path in paths for f in check_text(Path(path).read_text(), program, path)]
    else:
        found = [str(f) for f in program.run()] + hidden_in_macros(headers())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
