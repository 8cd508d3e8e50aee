"""Nothing built names a folder of the machine that built it, but for where the build tree's libraries are searched."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("torch*/_C*.so", "libxpu_ops_kernels.so", "modules/*.syclbin")


def search_path(library: Path) -> str:
    """The run path, which the build tree needs and `cmake --install` removes."""
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
    return found[1] if found else ""


@pytest.mark.parametrize("pattern", LIBRARIES)
def test_no_folder_of_the_build_machine(build_dir: Path, pattern: str) -> None:
    folders = {str(p).encode() + b"/" for p in (ROOT, build_dir.resolve(), sysconfig.get_path("purelib"))}
    found = {}
    files = sorted((build_dir / "python" / "xpu_ops").glob(pattern))
    assert files
    for path in files:
        content = path.read_bytes()
        if path.suffix == ".so" and (rpath := search_path(path).encode()):
            content = content.replace(rpath, b"")
        for folder in folders:
            if (at := content.find(folder)) >= 0:
                found[path.name] = content[at : at + 120].split(b"\0")[0].decode(errors="replace")
    assert found == {}
