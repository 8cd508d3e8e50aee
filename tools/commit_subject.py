"""python3 tools/commit_subject.py FILE: checks the subject of a commit message. The hook of .pre-commit-config.yaml; needs no package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

MOST = 72
# git writes these itself, or takes them away again.
_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")


def problems(message: str) -> list[str]:
    """Names what is wrong with the subject of a message, in sentences that say the fix."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        del lines[0]
    subject = lines[0].rstrip() if lines else ""
    if subject.startswith(_BY_GIT):
        return []
    found = []
    if len(subject) > MOST:
        found.append(f"it has {len(subject)} characters; write at most {MOST}, and the reason in the body")
    if not re.match(r"[a-z0-9_`.][\w`.,+/ -]*: \S", subject):
        found.append('write "family: what changes for the user", such as "embedding_bag: check indices per group"')
    if ";" in subject:
        found.append("it has a ';': make one commit per change")
    if subject.endswith("."):
        found.append("leave out the full stop")
    if len(lines) > 1 and lines[1].strip():
        found.append("leave the second line empty, and begin the body on the third")
    return found


def main() -> int:
    message = Path(sys.argv[1]).read_text()
    found = problems(message)
    for problem in found:
        print(f"subject of the commit: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
