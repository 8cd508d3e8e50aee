"""Commands that a program enqueues, counted by the layers below: Unified Runtime traces its calls (SYCL_UR_TRACE), oneDNN its executions
(ONEDNN_VERBOSE). Both write to standard output, in order."""

from __future__ import annotations

import re

TRACES = {"SYCL_UR_TRACE": "2", "ONEDNN_VERBOSE": "1"}
BEGIN, END = "--- begin", "--- end"

_MADE = re.compile(r"<--- urKernelCreate\(.*\.pKernelName = \w+ \((\w+)\), \.phKernel = \w+ \((\w+)\)")
_LAUNCHED = re.compile(r"<--- urEnqueueKernelLaunch\w*\(.*?\.hKernel = (\w+)")
_MOVED = re.compile(r"<--- urEnqueueUSM(Memcpy|Fill)\w*\(")


def commands(text: str) -> list[tuple[str, str]]:
    """Kind and name of each command between the lines BEGIN and END: ("kernel", "add_f32_rows"), ("copy", ""), ("fill", ""),
    ("primitive", "convolution")."""
    names: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    within = False
    for line in text.splitlines():
        if line.startswith((BEGIN, END)):
            within = line.startswith(BEGIN)
        elif made := _MADE.search(line):
            names[made[2]] = made[1].removeprefix("__sycl_kernel_")
        elif not within:
            continue
        elif launched := _LAUNCHED.search(line):
            found.append(("kernel", names[launched[1]]))
        elif moved := _MOVED.search(line):
            found.append(({"Memcpy": "copy", "Fill": "fill"}[moved[1]], ""))
        elif "onednn_verbose" in line and ",exec,cpu," in line:
            found.append(("primitive", line.split(",exec,cpu,")[1].split(",")[0]))
    return found
