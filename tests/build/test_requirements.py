"""requirements/hashes.txt against the pinned lists."""

from __future__ import annotations

import re
from pathlib import Path

from tools import lock_requirements

ROOT = lock_requirements.ROOT


def _pins(path: Path) -> set[str]:
    """name==version of a list and of those that it includes."""
    pins: set[str] = set()
    for line in path.read_text().splitlines():
        if line.startswith("-r "):
            pins |= _pins(path.parent / line[3:])
        elif line and not line.startswith("#"):
            assert "==" in line, f"{path.name}: {line} is not pinned"
            pins.add(re.sub(r"[._]", "-", line.partition("==")[0].lower()) + "==" + line.partition("==")[2].strip())
    return pins


def test_every_pinned_package_has_its_hashes() -> None:
    """`make lock` writes the file anew."""
    lines = [line.split() for line in lock_requirements.LOCK.read_text().splitlines() if not line.startswith("#")]
    assert all(
        len(hashes) and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", h) for h in hashes) for _, *hashes in lines
    )
    locked = [pin for pin, *_ in lines]
    assert len(set(locked)) == len(locked) and all("==" in pin for pin in locked)
    wanted = set().union(*(_pins(ROOT / f"{name}.txt") for name in lock_requirements.LISTS))
    assert len(wanted) > 50 and wanted <= set(locked), wanted - set(locked)
