"""python -m tools.doc_tables [--check]: writes the tables of docs that come from code: manifest fields, environment, ecosystem,
changes in torch and other libraries, forms of loops, states of a queue."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tools.codegen import fields
from xpu_ops import _environment, upstream
from xpu_ops.block import nests

ROOT = Path(__file__).resolve().parents[1]
ECOSYSTEM = ("tests/models/test_ecosystem.py", "tests/models/test_lightning.py")


def ecosystem() -> str:
    """One row per test of libraries around torch, from its docstring.

    Raises ValueError for a test without one.
    """
    lines = ["| works, on every run of the tests | test |", "|---|---|"]
    for name in ECOSYSTEM:
        for node in ast.parse((ROOT / name).read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.get_docstring(node)
                if not text:
                    raise ValueError(f"{name}: {node.name} has no docstring")
                lines.append(f"| {text.splitlines()[0]} | `{Path(name).name}::{node.name}` |")
    return "\n".join(lines) + "\n"


STATES = "kernels/runtime/queue/states.hpp"


def states() -> str:
    """One row per state of a queue, from the table of `STATES`.

    Raises ValueError where a state has no row that can be read.
    """
    text = (ROOT / STATES).read_text()
    named = re.search(r"enum class QueueState : uint8_t \{(.*?)\}", text, re.S)
    rows = re.findall(r'\{QueueState::(\w+),\s+"(.*?)",\s+"(.*?)",\s+\{(\w+), (\w+), (\w+)\}\},', text)
    if not named or [row[0] for row in rows] != re.findall(r"\w+", named.group(1)):
        raise ValueError(f"{STATES}: not one row per state")
    lines = ["| state | when | now | later | native |", "|---|---|---|---|---|"]
    for _, name, when, *may in rows:
        lines.append(f"| {name} | {when} | " + " | ".join("yes" if m == "true" else "no" for m in may) + " |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "fields": ("docs/adding-an-op.md", fields.table),
    "environment": ("docs/environment.md", _environment.table),
    "ecosystem": ("docs/ecosystem.md", ecosystem),
    "upstream": ("docs/upstream.md", upstream.table),
    "states": ("docs/threads.md", states),
    "forms": ("docs/compilers.md", nests.table),
}


def marks(name: str, writer: str) -> tuple[str, str]:
    """The lines of a document between which `writer` puts the table of this name."""
    return f"<!-- {name}: begin, written by `{writer}` -->", f"<!-- {name}: end -->"


def filled(text: str, name: str, table: str, writer: str = "make tables") -> str:
    """`text` with the table between the two marks of this name.

    Raises ValueError where the marks are not there once each.
    """
    begin, end = marks(name, writer)
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"expected one '{begin}' and, after it, one '{end}'")
    return text[: text.index(begin) + len(begin)] + "\n" + table + text[text.index(end) :]


def stale() -> dict[Path, str]:
    """The documents whose tables are out of date, with the text that they should have."""
    out: dict[Path, str] = {}
    for name, (document, table) in TABLES.items():
        path = ROOT / document
        old = out.get(path, path.read_text())
        if (new := filled(old, name, table())) != old:
            out[path] = new
    return out


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.doc_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a table is out of date")
    check = parser.parse_args().check
    found = stale()
    for path, text in found.items():
        print(f"{path.relative_to(ROOT)}: {'out of date' if check else 'written'}")
        if not check:
            path.write_text(text)
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
