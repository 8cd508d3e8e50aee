"""The table of docs/models.md: what the tests recorded, the share of native operators, and the time of a training step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import modes
import torch
import zoo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

import xpu_ops

ENLARGE, ROUNDS, WARM_UP, REPEAT = 8, 2, 2, 4
PAUSE = 0.25  # seconds; OpenMP's threads spin on for as long after a step on the CPU, and would slow the device's down
SIXTEEN_BIT = ("bf16", "f16", "amp_bf16", "amp_bf16_scaler")

HEAD = """# Whole models

Written by `make models-table` (tests/models with `XPU_OPS_MODELS_REPORT`); do not edit. {device}, {threads} threads,
torch {torch}. Load average of the machine while this was written: {load:.1f}; the times are those of a machine that busy.

Every family has a small configuration and random weights and runs offline. *Modes* counts what passed: inference in f32, bf16
and f16, each under `no_grad` and `inference_mode`; training with AdamW (foreach, fused) and SGD, autocast to bf16 with and without
`GradScaler`, gradient checkpointing, accumulation, `clip_grad_norm_`; `generate()` with a key-value cache where there is one.
A mode passes where every output, loss, gradient, parameter and buffer is `torch._dynamo.utils.same` as the CPU's by a reference
in double, with fallback forbidden. *Error* is the largest relative RMS error of an output, loss or gradient against that reference,
over the modes in f32 and over those with 16-bit types; behind the slash that of torch's CPU in the same mode. *Native* is the share of
operator calls of a training step (forward, backward, AdamW) that did not fall back. *Step*: milliseconds of such a step in f32
with {enlarge} times the batch of the tests, the least of {repeat}, the devices in turn in one process with pauses; *ratio* is CPU / xpu.

| family | kind | modes | error f32 / CPU | error 16 bit / CPU | native | step xpu | step CPU | ratio |
|---|---|---|---|---|---|---|---|---|
"""


class _Count(TorchDispatchMode):
    """Counts operator calls with a tensor on xpu."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.calls += any(isinstance(t, torch.Tensor) and t.is_xpu for t in tree_iter((args, kwargs, out)))
        return out


def _stepper(name: str, device: str, enlarge: int) -> Callable[[], float]:
    m = modes.model(name, device).train()
    optimizer = modes.make_optimizer("adamw_foreach", m)

    def larger(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.cat([x] * enlarge).to(device) if x.dim() else x.to(device)
        return modes.move(x * enlarge, device) if isinstance(x, list) else x

    data = {k: larger(v) for k, v in modes.batch(name, labels=True).items()}

    def step() -> float:
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = modes.loss_of(name, m, data)
        loss.backward()
        optimizer.step()
        loss.item()
        if device == "xpu":
            torch.xpu.synchronize()
        return time.perf_counter() - begin

    return step


def native_share(name: str) -> float:
    """Part of the operator calls of one training step that had a kernel of the device's own."""
    step = _stepper(name, "xpu", 1)
    step()
    xpu_ops.fallback.reset()
    with _Count() as count:
        step()
    return 1.0 - sum(xpu_ops.fallback.counts().values()) / count.calls


def step_times(name: str) -> tuple[float, float]:
    """Least time of a training step on xpu and on the CPU, in seconds."""
    steps = [_stepper(name, device, ENLARGE) for device in ("xpu", "cpu")]
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for j, step in enumerate(steps):
            time.sleep(PAUSE)
            for i in range(WARM_UP + REPEAT):
                took = step()
                if i >= WARM_UP:
                    best[j] = min(best[j], took)
    return best[0], best[1]


def write(path: Path, rows: list[tuple[list[Any], bool]]) -> None:
    """`rows`: what `record` was given by each test, and whether it passed."""
    found: dict[str, dict[str, tuple[list[float], bool]]] = {}
    for (family, mode, *values), passed in rows:
        before = found.setdefault(family, {}).get(mode)
        found[family][mode] = (values, passed and (before is None or before[1]))
    text = HEAD.format(
        device=torch.xpu.get_device_name(), threads=torch.get_num_threads(), torch=torch.__version__, enlarge=ENLARGE,
        repeat=ROUNDS * REPEAT, load=os.getloadavg()[1],
    )  # fmt: skip
    ratios = []
    for name, family in zoo.FAMILIES.items():
        measured = found.get(name)
        if measured is None:
            continue
        (share, on_xpu, on_cpu), _ = measured.pop("measure")
        errors = {
            kind: [max((v[i] for m, (v, _) in measured.items() if (m in SIXTEEN_BIT) == (kind == "16")), default=0.0) for i in (0, 1)]
            for kind in ("f32", "16")
        }  # fmt: skip
        ratios.append(on_cpu / on_xpu)
        text += (
            f"| {name} | {family.kind} | {sum(ok for _, ok in measured.values())} of {len(measured)} "
            f"| {errors['f32'][0]:.1e} / {errors['f32'][1]:.1e} | {errors['16'][0]:.1e} / {errors['16'][1]:.1e} "
            f"| {share:.1%} | {on_xpu * 1e3:.1f} | {on_cpu * 1e3:.1f} | {on_cpu / on_xpu:.2f} |\n"
        )
    mean = torch.tensor(ratios).log().mean().exp().item()
    text += f"\n{len(ratios)} families; geometric mean of the ratios {mean:.2f}.\n"
    path.write_text(text)
