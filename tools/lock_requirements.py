"""Writes requirements/hashes.txt: every package of the build and test environment with the SHA-256 of its files.

    python -m tools.lock_requirements [PYTHON VERSION ...]

pip chooses the packages for the interpreter that runs this, then the same versions for the other versions of Python. The
indices are those of pip's configuration; nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1] / "requirements"
LOCK = ROOT / "hashes.txt"
LISTS = ("torch", "dev", "models")
HEAD = """\
# Written by `make lock`: what `make deps HASHES=1` installs, a CPU build of torch and all that it, the build and the tests need.
# Linux on x86-64; torch and torchvision for the Python of requirements/torch.txt's default alone.
"""


def _report(*arguments: str) -> list[dict[str, Any]]:
    """The packages that pip would install."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
        command += ["--ignore-installed", "--report", str(path), "--target", folder, *arguments]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        installs: list[dict[str, Any]] = json.loads(path.read_text())["install"]
    return installs


def _note(found: dict[str, set[str]], packages: list[dict[str, Any]]) -> None:
    for package in packages:
        version = package["metadata"]["version"].partition("+")[0]  # torch's CPU build has a local version
        name = package["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
        found.setdefault(f"{name}=={version}", set()).add(digest)


def main(versions: list[str]) -> None:
    found: dict[str, set[str]] = {}
    first = [x for name in LISTS[:2] for x in ("-r", str(ROOT / f"{name}.txt"))]
    _note(found, _report(*first))
    _note(found, _report("--no-deps", "-r", str(ROOT / "models.txt")))
    others = [pin for pin in found if pin.partition("==")[0] not in ("torch", "torchvision")]
    for version in versions:
        _note(found, _report("--no-deps", "--only-binary=:all:", "--python-version", version, *others))
    lines = [" ".join([pin, *(f"--hash=sha256:{h}" for h in sorted(found[pin]))]) for pin in sorted(found)]
    LOCK.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{LOCK.name}: {len(lines)} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
