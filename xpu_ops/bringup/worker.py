"""Runs the items of one stage: `python -m xpu_ops.bringup.worker module:function`, names to leave out as JSON on stdin.

Each item is announced before it begins, so that the parent knows which one a crash or a hang belongs to. Lines of the
protocol go to the standard output of the start; whatever the items print goes to the standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

from xpu_ops.bringup.stages import Skipped


def main() -> None:
    protocol = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    module, _, function = sys.argv[1].partition(":")
    leave_out = set(json.load(sys.stdin))
    for name, item in getattr(importlib.import_module(module), function)():
        if name in leave_out:
            continue
        leave_out.add(name)
        print(json.dumps({"begin": name}), file=protocol)
        figures: dict[str, Any] = {}
        start = time.perf_counter()
        try:
            text = item(figures)
            state = "wrong" if text else "ok"
        except Skipped as reason:
            state, text = "skipped", str(reason)
        except Exception as error:
            state, text = "error", f"{type(error).__name__}: {str(error)[:400]}"
        record = {"name": name, "state": state, "text": text, "seconds": round(time.perf_counter() - start, 3)}
        print(json.dumps({**record, "figures": figures}), file=protocol)


if __name__ == "__main__":
    main()
