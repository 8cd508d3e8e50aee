"""A profile of a model against the layers below it: every command once, in order, and times that fill the wall time."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
import torch
from support import enqueued, script
from support.profiles import device_events
from torch.profiler import ProfilerActivity, profile

import xpu_ops

MODELS = ["conv_net", *(pytest.param(name, marks=pytest.mark.slow) for name in ("resnet50", "gpt2"))]
BOTH = [ProfilerActivity.CPU, ProfilerActivity.XPU]

COUNTED = """
import os, sys
sys.path.insert(0, {folder!r})
import programs, torch
from torch.profiler import ProfilerActivity, profile
step = programs.{model}()
for _ in range(2):
    step()
torch.xpu.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as prof:
    os.write(1, b"{begin}\\n")
    step()
    torch.xpu.synchronize()
    os.write(1, b"{end}\\n")
prof.export_chrome_trace({file!r})
"""


def executions(file: Path) -> list[dict[str, Any]]:
    """Launched work of a trace, by the order of the calls."""
    events = [
        e for e in json.loads(file.read_text())["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    return sorted(events, key=lambda e: e["args"]["correlation"])


def command(event: dict[str, Any]) -> tuple[str, str]:
    """As enqueued.commands() calls it."""
    if event["cat"] != "kernel":
        return {"gpu_memcpy": "copy", "gpu_memset": "fill"}[event["cat"]], ""
    if "kernel" in event["args"]:
        return "kernel", event["args"]["kernel"]
    kinds = {"conv": "convolution", "deconv": "deconvolution", "layer": "layer_normalization"}
    word = event["name"].split(" ")[0]
    return "primitive", kinds.get(word.split("_")[0], word.removesuffix("_backward"))


@pytest.mark.parametrize("model", MODELS)
def test_every_command_once_and_in_order(model: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    folder = str(Path(programs.__file__).parent)
    text = script.out(
        COUNTED.format(folder=folder, model=model, begin=enqueued.BEGIN, end=enqueued.END, file=str(file)),
        timeout=600,
        **enqueued.TRACES,
    )
    shown = executions(file)
    launched = [e for e in shown if not e["args"]["inline"]]
    assert len(launched) > 20
    assert [command(e) for e in launched] == enqueued.commands(text)
    assert len({e["tid"] for e in shown}) == 1, "one queue"
    for before, after in itertools.pairwise(shown):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.05, (before["name"], after["name"])


def parts(step: programs.Step) -> tuple[list[str], list[float]]:
    """The names of a step's commands, and the time between two synchronisations, in seconds, cut at their begins and ends:
    the time before the first and after the last, then in turn a command and the gap behind it."""
    with profile(activities=[ProfilerActivity.XPU]) as prof:
        torch.xpu.synchronize()
        begin = time.perf_counter()
        step()
        torch.xpu.synchronize()
        wall = time.perf_counter() - begin
    shown = device_events(prof)
    assert len({e.device_resource_id for e in shown}) == 1, "one queue"
    on_device = sum(a.self_device_time_total for a in prof.key_averages()) / 1e6
    cuts = [t / 1e6 for e in shown for t in (e.time_range.start, e.time_range.end)]
    between = [after - before for before, after in itertools.pairwise(cuts)]
    assert sum(between[::2]) == pytest.approx(on_device), "the table's column is the sum of the commands"
    return [e.name for e in shown], [wall - (cuts[-1] - cuts[0]), *between]


@pytest.fixture
def launched() -> Iterator[None]:
    """Everything is launched, so that each step has the same commands: inline work depends on whether the queue is idle."""
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(False)
    yield
    xpu_ops.set_inline(before)


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("model", MODELS)
def test_device_time_is_the_wall_time(model: str) -> None:
    """The sum of the table's device column against the time between two synchronisations. Other programs on the machine take the
    cores now and then, for longer than a gap is: of each command and of each gap the shortest of some steps counts."""
    share = 0.8 if model == "conv_net" else 0.95
    torch.manual_seed(0)
    step = getattr(programs, model)()
    for _ in range(2):
        step()
    found: dict[str, list[list[float]]] = {}
    shares = []
    for _ in range(8):
        names, times = parts(step)
        alike = found.setdefault(" ".join(names), [])
        alike.append(times)
        shortest = [min(t) for t in zip(*alike, strict=True)]
        shares += [sum(t[1::2]) / sum(t) for t in (times, shortest)]
        if max(shares) >= share:
            break
    print(f"{model}: device time / wall time of a step, and of its shortest parts so far: {shares}")
    assert share <= max(shares) <= 1.001
