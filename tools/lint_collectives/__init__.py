"""Finds collectives that not all items of a sub-group, or of a work-group, reach: undefined in SYCL. The CPU device hides
it behind masks; a GPU gives wrong results or stops.

Looked for are collectives, and helpers that call them, in operands of &&, || and ?:, in branches and loops, and behind
returns that not all items take. What differs between items is followed from their ids and loads by them through
variables, members, arguments and results; arguments of a kernel, ids of groups and results of collectives are the same
in all. Where that is not seen, a comment says why: `// uniform: the sum over all lanes` on the line of a statement, a
condition or a function's head (`uniform over the group:` where several sub-groups share it).
"""

from __future__ import annotations

import re
from pathlib import Path

from tools.lint_collectives.program import Finding, Program
from tools.lint_collectives.source import read
from tools.lint_collectives.walk import PRIMITIVE

ROOT = Path(__file__).resolve().parents[2]


def program_of(files: dict[str, str]) -> Program:
    """The text of headers by name, looked at together."""
    return Program([read(text, file) for file, text in files.items()])


def headers() -> dict[str, str]:
    folder = ROOT / "kernels" / "sycl"
    paths = (p for p in sorted(folder.rglob("*.hpp")) if "shim" not in p.relative_to(folder).parts)
    return {p.relative_to(ROOT).as_posix(): p.read_text() for p in paths}


def check_text(text: str, base: Program, name: str = "kernel") -> list[Finding]:
    """Findings in the source of a kernel that was generated, or given by a user, against the device headers."""
    return Program([read(text, name)], base).run()


def hidden_in_macros(files: dict[str, str]) -> list[str]:
    """Macros whose text calls a collective: it is not looked at."""
    called = re.compile(rf"\b({PRIMITIVE.pattern})\s*\(")
    return [
        f"{file}:{line}: a macro calls {found.group(1)}; call it in a function"
        for file, text in files.items()
        for line, macro in read(text, file).macros
        if (found := called.search(macro))
    ]
