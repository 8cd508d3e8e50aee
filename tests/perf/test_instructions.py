"""Instructions of the dispatch path, counted by valgrind: a number that does not depend on what else the machine does.

From torch's dispatcher to the finished result of one element, which runs on the calling thread: boxing, guard, iterator,
plan and the loop. `sub.out` stands behind kernels that still run: it ends when the loop is handed to a worker of the
device. A call may cost at most 5 % more than tests/perf/instructions.yaml says. One that costs over 10 % less
fails too: write the new number down.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BASELINE: dict[str, int] = yaml.safe_load((Path(__file__).parent / "instructions.yaml").read_text())
CALLS = 300
# The overload's entry point in libtorch, below which everything is counted.
ENTRY = {
    "add.out": "at::_ops::add_out::call(",
    "mul_.Tensor": "at::_ops::mul__Tensor::call(",
    "empty.memory_format": "at::_ops::empty_memory_format::call(",
    "sub.out": "at::_ops::sub_out::call(",
}
SCRIPT = """
import os, subprocess, torch
a, b, c = (torch.ones(1, device="xpu") for _ in range(3))
torch.xpu.synchronize()
# Imports are not worth counting: callgrind slows down fifty times, valgrind alone ten times. It answers while code runs.
start = subprocess.Popen(["vgdb", f"--pid={{os.getpid()}}", "instrumentation", "on"], stdout=subprocess.DEVNULL)
while start.poll() is None:
    pass
assert start.returncode == 0
for _ in range({calls}):
    torch.add(a, b, out=c)
    a.mul_(b)
    torch.empty(1, device="xpu")
big = torch.ones(1 << 20, device="xpu")
big.sin().sin().sin().sin()
for _ in range({calls}):
    torch.sub(a, b, out=c)
assert not torch.xpu.current_stream().query()
print(c.item())
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_instructions_of_a_call(tmp_path: Path) -> None:
    out = tmp_path / "callgrind.out"
    toggles = [f"--toggle-collect={entry}*" for entry in ENTRY.values()]
    script = SCRIPT.format(calls=CALLS)
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}", *toggles, sys.executable, "-c", script],
        env={**os.environ, "XPU_OPS_INLINE": "1", "XPU_OPS_DISCRETE": "0", "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout.strip() == "0.0", done.stderr
    report = subprocess.run(
        ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {}
    for name, entry in ENTRY.items():
        line = next(x for x in report.splitlines() if entry in x)
        match = re.match(r"\s*([\d,]+)", line)
        assert match is not None
        found[name] = int(match.group(1).replace(",", "")) // CALLS
    print(found)
    worse = {n: (found[n], BASELINE[n]) for n in ENTRY if found[n] > 1.05 * BASELINE[n]}
    assert not worse, f"more instructions than the baseline allows (found, baseline): {worse}"
    better = {n: (found[n], BASELINE[n]) for n in ENTRY if found[n] < 0.9 * BASELINE[n]}
    assert not better, f"fewer instructions than the baseline: write them down (found, baseline): {better}"
