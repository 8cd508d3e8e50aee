"""python -m tools.check_dist: checks what `make dist` made, as a user meets it.

Checks the size, the metadata (twine), the libraries' tag (auditwheel), then installs the wheel with pip alone into an environment per
release of torch, and runs README's program and the doctor there: nothing is linked. Needs pip's registry; writes below a
temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tools import torch_release
from tools.kernelc.classes import CLASSES, TARGET, serves

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("twine==7.0.0", "auditwheel==6.8.2")
LIMIT_MB = 90


def readme_program() -> str:
    """The first program of README.md."""
    match = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    if match is None:
        sys.exit("README.md has no program")
    return match[1]


def wheel() -> Path:
    """The wheel of this Python that serves every release of torch."""
    tag = torch_release.python_tag()
    found = sorted((ROOT / "dist").glob(f"xpu_ops-{torch_release.settings()['version']}-{tag}-*.whl"))
    if len(found) != 1:
        sys.exit(f"dist/ holds {len(found)} wheels for every torch and {tag}, not one; run `make dist`")
    return found[0]


def environment(folder: Path, *requirements: str) -> Path:
    """A new environment with these packages; its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([*pip, *requirements], check=True, env=clean)
    return folder / "bin"


def check_files(path: Path, folder: Path) -> None:
    """Metadata, licence, one folder per release and per class of processors, and the tag that the libraries keep."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for release in torch_release.settings()["torch"]:
        for library in (r"_C\..*\.so", r"libxpu_ops_torch\.so"):
            if not any(re.fullmatch(rf"xpu_ops/torch{re.escape(release)}/{library}", name) for name in names):
                sys.exit(f"{path.name} lacks {library} for torch {release}")
    portable = {name.removesuffix(".spv.syclbin") for name in names if name.endswith(".spv.syclbin")}
    for kind in CLASSES:
        own = {Path(name).name for name in portable if serves(kind, Path(name).name)}
        native = {f"xpu_ops/modules/{kind}/{name}.native.syclbin" for name in own} - {*names}
        # Assembly for bf16 and for tiles, which only the last class has.
        lacking = ("attention_amx", "dot16", "dots8")
        assembly = {f"xpu_ops/modules/{kind}/{name}.native.syclbin" for name in lacking}
        if native - (assembly if kind != CLASSES[-1] else set()):
            sys.exit(f"{path.name} lacks {len(native)} modules for {kind}")
    if not any(name.endswith("/LICENSE") for name in names):
        sys.exit(f"{path.name} lacks its licence")
    programs = environment(folder / "tools", *TOOLS)
    subprocess.run([programs / "twine", "check", "--strict", *sorted((ROOT / "dist").glob("xpu_ops-*"))], check=True)
    subprocess.run([programs / "auditwheel", "show", path], check=True)


def check_installed(path: Path, torch: str, folder: Path) -> None:
    """README's program and the doctor, in an environment that pip made from the wheel and one release of torch."""
    programs = environment(folder / f"torch{torch}", f"torch=={torch}", str(path))
    cache = folder / f"cache{torch}"  # the doctor links a kernel in Triton where that is installed
    env = {"HOME": str(folder), "PATH": f"{programs}:/usr/bin:/bin", "XPU_OPS_CACHE_DIR": str(cache)}
    run: list[str | Path] = [programs / "python", "-W", "error::RuntimeWarning", "-c", readme_program()]
    for target in ({}, {TARGET: CLASSES[0]}):  # of this machine; any machine runs code of the lowest class
        ran = subprocess.run(run, cwd=folder, env=env | target, capture_output=True, text=True)
        print(ran.stdout.strip())
        if ran.returncode:
            sys.exit(f"README's program fails with torch {torch} {target}:\n{ran.stderr}")
        if linked := sorted(f.name for f in cache.glob("*.bin")):
            sys.exit(f"kernel modules were linked with torch {torch} {target}: {linked}")
    doctor = subprocess.run(
        [programs / "xpu-ops", "doctor", "--json"], cwd=folder, env=env, capture_output=True, text=True
    )
    json.loads(doctor.stdout)
    if doctor.returncode:
        sys.exit(f"the doctor found problems with torch {torch}:\n{doctor.stdout}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.check_dist", description=__doc__)
    patches = torch_release.settings()["patches"]
    parser.add_argument("--torch", nargs="*", default=patches, help=f"releases to install beside; default {patches}")
    args = parser.parse_args()
    path = wheel()
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory() as folder:
        check_files(path, Path(folder))
        for torch in args.torch:
            print(f"torch {torch}: ", end="", flush=True)
            check_installed(path, torch, Path(folder))
    if path.stat().st_size > LIMIT_MB * 1e6:
        sys.exit(f"{path.name} has more than {LIMIT_MB} MB")


if __name__ == "__main__":
    main()
