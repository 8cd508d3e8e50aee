"""python -m tools.stage: makes build/python a folder from which `import torch` finds xpu_ops without an installation.

Links the Python sources beside the built libraries and writes the metadata that entry points are read from.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def link(target: Path, path: Path) -> None:
    if path.is_symlink() and os.readlink(path) == str(target):
        return
    if path.is_symlink() or path.exists():
        path.unlink()
    path.symlink_to(target)


def link_sources(package: Path) -> None:
    source = ROOT / "xpu_ops"
    names = {p.name for p in source.iterdir() if p.name != "__pycache__" and not p.name.startswith(".")}
    for path in package.iterdir():
        if path.is_symlink() and path.name not in names and Path(os.readlink(path)).parent == source:
            path.unlink()
    for name in sorted(names):
        link(source / name, package / name)


def link_headers(include: Path) -> None:
    """Headers for sources compiled at run time, spelled from the repository's root."""
    (include / "kernels").mkdir(parents=True, exist_ok=True)
    link(ROOT / "kernels" / "sycl", include / "kernels" / "sycl")
    (include / "kernels" / "ops").mkdir(exist_ok=True)
    link(ROOT / "kernels" / "ops" / "problem", include / "kernels" / "ops" / "problem")


def link_model_headers(folder: Path, gen: Path) -> None:
    """Headers of models that are compiled ahead of time."""
    folder.mkdir(exist_ok=True)
    for path in (ROOT / "bindings" / "aoti" / "model").iterdir():
        link(path, folder / path.name)
    link(gen / "aoti" / "xpu_ops_operators.h", folder / "xpu_ops_operators.h")


def write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write_metadata(out: Path, version: str, torch: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = project["name"]
    info = out / f"{name}-{version}.dist-info"
    for stale in out.glob(f"{name}-*.dist-info"):
        if stale != info:
            shutil.rmtree(stale)
    info.mkdir(exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {project['description']}"]
    lines += [f"Requires-Dist: {d}" for d in [f"torch=={torch}.*", *project["dependencies"]]]
    write(info / "METADATA", "\n".join(lines) + "\n")
    groups = {"console_scripts": project.get("scripts", {}), **project.get("entry-points", {})}
    text = "".join(f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) + "\n" for g, rows in groups.items())
    write(info / "entry_points.txt", text)
    write(info / "INSTALLER", "xpu_ops build tree\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.stage", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder to put on PYTHONPATH")
    parser.add_argument("--gen", type=Path, required=True, help="where codegen wrote")
    parser.add_argument("--worker", type=Path, required=True, help="the kernelc program")
    parser.add_argument("--version", required=True, help="the version of the build")
    parser.add_argument("--torch", required=True, help="the release of torch that it serves")
    args = parser.parse_args()
    package: Path = args.out / "xpu_ops"
    package.mkdir(parents=True, exist_ok=True)
    link_sources(package)
    link(ROOT / "xpu_ops_pytest", args.out / "xpu_ops_pytest")
    link(args.gen.resolve() / "_built.py", package / "_built.py")
    release = package / f"torch{args.torch}"
    release.mkdir(exist_ok=True)
    link(args.gen.resolve() / "manifest.json", release / "manifest.json")
    link_model_headers(release / "aoti", args.gen.resolve())
    link(args.worker.resolve(), package / "kernelc")
    link_headers(package / "include")
    write_metadata(args.out, args.version, args.torch)


if __name__ == "__main__":
    main()
