"""Command line: python -m tools.codegen --out FOLDER | --check | --stats | --fields."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from . import aoti, aten, device, fields, host, peer, rows, types
from .model import Builder, Family
from .schema import ManifestError
from .torch_ops import Torch

ROOT = Path(__file__).resolve().parents[2]


def generate(families: list[Family], torch: Torch) -> dict[str, str]:
    """Every generated file, by path below the output folder."""
    files: dict[str, str] = {}
    index: dict[str, str] = {}
    # For work on one family: the others keep their tables, so that adapters link, but build no modules and register
    # nothing, so that their operators fall back.
    only = set(filter(None, os.environ.get("XPU_OPS_FAMILIES", "").split(",")))
    for family in families:
        built = not only or family.name in only
        for module, (source, names) in device.modules_of(family).items() if built else ():
            files[f"sycl/{module}.cpp"] = source
            index.update(dict.fromkeys(names, module))
        header, source = device.tables_of(family)
        files[f"kernels/{family.name}_kernels.hpp"] = header
        files[f"kernels/{family.name}_kernels.cpp"] = source
        files |= {f"kernels/{name}": text for name, text in host.files_of(family).items()}
        for name, text in aten.files_of(family).items():
            if built or name.endswith(".hpp"):
                files[f"aten/{name}"] = text
    files |= aoti.files(torch)
    files["kernels/dtypes.inc"] = types.include_file()
    files["kernels/kernel_index.cpp"] = device.index_source(index)
    files["kernel_index.tsv"] = "".join(f"{k}\t{m}\n" for k, m in sorted(index.items()))
    files["manifest.json"] = (
        json.dumps(
            {"schema": 1, "types": rows.types(), "rows": rows.rows(families), "peer": peer.keys(torch)}, indent=1
        )
        + "\n"
    )
    return files


def write(files: dict[str, str], out: Path) -> int:
    """Writes what changed, removes what is no longer generated, returns how many files changed."""
    changed = 0
    for name, text in files.items():
        path = out / name
        if path.exists() and path.read_text() == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        changed += 1
    for folder in ("sycl", "kernels", "aten"):
        for path in (out / folder).glob("*") if (out / folder).exists() else []:
            if f"{folder}/{path.name}" not in files:
                path.unlink()
                changed += 1
    return changed


def stats(families: list[Family], files: dict[str, str]) -> str:
    """Rows, overloads and kernels by family."""
    lines = [f"{'family':16} {'rows':>6} {'overloads':>10} {'kernels':>8}"]
    total = [0, 0, 0]
    for f in families:
        kernels = sum(len(names) for _, names in device.modules_of(f).values())
        row = [len(f.operators), sum(len(o.overloads) for o in f.operators), kernels]
        total = [a + b for a, b in zip(total, row, strict=True)]
        lines.append(f"{f.name:16} {row[0]:6} {row[1]:10} {row[2]:8}")
    lines.append(f"{'total':16} {total[0]:6} {total[1]:10} {total[2]:8}")
    modules = sum(1 for n in files if n.startswith("sycl/"))
    lines.append(f"{modules} device modules, {sum(1 for n in files if n.startswith('aten/'))} registration files")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.codegen", description=__doc__)
    parser.add_argument("--manifest", type=Path, default=ROOT / "kernels" / "manifest", help="folder of manifest files")
    parser.add_argument("--out", type=Path, help="folder to write into")
    parser.add_argument("--stats", action="store_true", help="print rows, overloads and kernels by family")
    parser.add_argument("--check", action="store_true", help="fail unless two runs agree and --out is up to date")
    parser.add_argument("--fields", action="store_true", help="print every field of the manifest, and stop")
    args = parser.parse_args()
    if args.fields:
        print(fields.table(), end="")
        return 0
    try:
        torch = Torch()
        families = Builder(torch).build(args.manifest)
        files = generate(families, torch)
    except ManifestError as error:
        print(f"manifest error:\n{error}", file=sys.stderr)
        return 1
    if args.check:
        with tempfile.TemporaryDirectory() as tmp:
            write(files, Path(tmp))
            torch = Torch()
            again = generate(Builder(torch).build(args.manifest), torch)
            if again != files or write(again, Path(tmp)):
                print("codegen is not deterministic", file=sys.stderr)
                return 1
        if args.out is not None and write(files, args.out):
            print(f"{args.out} was out of date", file=sys.stderr)
            return 1
    elif args.out is not None:
        changed = write(files, args.out)
        print(f"codegen: {len(files)} files, {changed} changed")
    if args.stats:
        print(stats(families, files))
    return 0


if __name__ == "__main__":
    sys.exit(main())
