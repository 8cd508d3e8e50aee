"""python -m tools.ship_recording BUILD: makes the recording of a build part of its wheel, where there is one that counts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from xpu_ops.coverage import evidence


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.ship_recording", description=__doc__)
    parser.add_argument("build", type=Path, help="the build folder")
    build = parser.parse_args().build
    out: Path = build / "recording.json"
    out.unlink(missing_ok=True)
    found = evidence.Evidence.load(build / "coverage" / "evidence.jsonl")
    if found is None:
        print("recording: none, so the wheel has none; `xpu-ops coverage run` makes one")
        return 0
    if stale := found.stale_because(evidence.current_key()):
        print(f"recording: left out of the wheel, since these have changed: {', '.join(stale)}", file=sys.stderr)
        return 0
    out.write_text(json.dumps(found.for_shipping(), separators=(",", ":")) + "\n")
    print(f"recording: {out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
