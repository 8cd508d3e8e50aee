"""Compiles all sources of a target as one unit, syntax only: names of one file must not meet those of another, whatever
files a unit of the build holds.

Usage: python -m tools.check_unity <build folder> [--target _C | xpu_ops_kernels]
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# As CMakeLists.txt leaves them out of units, or gives them units of their own.
ALONE = re.compile(r"bindings/(distributed/|runtime/(jit|triton)\.cpp)|kernels/mkl/lib/|kernel_index\.cpp$")


def sources_of(target: str, build: Path) -> list[Path]:
    """In the order of the build: written ones, then generated ones."""
    written, generated = ("bindings", "aten") if target == "_C" else ("kernels", "kernels")
    files = sorted((ROOT / written).rglob("*.cpp")) + sorted((build / "gen" / generated).glob("*.cpp"))
    return [f for f in files if not ALONE.search(f.as_posix())]


def flags_of(target: str, build: Path) -> list[str]:
    """Of one of the target's units, without its input, output and dependencies."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if f"CMakeFiles/{target}.dir/" not in entry["command"]:
            continue
        words = shlex.split(entry["command"])
        words = words[next(i for i, w in enumerate(words) if re.search(r"(g\+\+|c\+\+|clang\+\+)[-\d.]*$", w)) :]
        if "-x" in words:  # the precompiled header itself
            continue
        cut = words.index("-o")
        return words[:cut] + [w for w in words[cut + 2 :] if w != "-c" and not w.endswith((".cpp", ".cxx"))]
    sys.exit(f"no command of {target} in {build}/compile_commands.json")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--target", choices=["_C", "xpu_ops_kernels"], action="append")
    options = parser.parse_args()
    build = options.build.resolve()
    targets = options.target or ["_C", "xpu_ops_kernels"]

    def check(target: str) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
            source.writelines(f'#include "{f}"\n' for f in sources_of(target, build))
            source.flush()
            command = [*flags_of(target, build), "-fsyntax-only", "-w", source.name]
            run = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
        return f"{target}:\n{run.stderr[:8000]}" if run.returncode else ""

    with ThreadPoolExecutor(len(targets)) as pool:
        failed = [text for text in pool.map(check, targets) if text]
    print("\n".join(failed) or f"{', '.join(targets)}: compile as one unit")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
