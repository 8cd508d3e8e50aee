"""The stages of a bring-up. A stage is a generator of items: a name, and a function that returns an error or ''.

An item may put figures into the dictionary that its function gets. Stages run in a process of their own (`worker.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from xpu_ops.coverage.dispatcher import manifest
from xpu_ops.coverage.observe import Call, drain, observing

Figures = dict[str, Any]
Item = tuple[str, Callable[[Figures], str]]


class Skipped(Exception):
    """The item needs something that is not installed."""


def _differs(actual: Tensor, expected: Tensor, tolerance: float = 0.0) -> str:
    from xpu_ops.bench.core import compare

    return compare(actual, expected, tolerance)


# ---- devices, memory


def devices() -> Iterator[Item]:
    """The doctor's findings, and the properties of each device."""

    def doctor(figures: Figures) -> str:
        command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.cli", "doctor", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        figures["findings"] = json.loads(done.stdout)["findings"]
        wrong = [f"{f['name']}: {f['value']}" for f in figures["findings"] if f["state"] == "problem"]
        return "; ".join(wrong)

    yield "doctor", doctor
    for index in range(torch.xpu.device_count()):

        def properties(figures: Figures, index: int = index) -> str:
            found = torch.xpu.get_device_properties(index)
            names = [n for n in dir(found) if not n.startswith("_")]
            figures.update({n: str(getattr(found, n)) for n in names})
            return ""

        yield f"properties of xpu:{index}", properties


def memory() -> Iterator[Item]:
    """Allocations, fills and copies of sizes around the allocator's steps, and what they cost."""
    for size in (1, 511, 4097, 1 << 20, (1 << 24) + 3):

        def copies(figures: Figures, size: int = size) -> str:
            host = torch.arange(size, dtype=torch.int32)
            there = host.to("xpu")
            back = there.clone().cpu()
            pinned = torch.empty(size, dtype=torch.int32).pin_memory()
            pinned.copy_(there, non_blocking=True)
            torch.xpu.synchronize()
            filled = torch.full((size,), 7, dtype=torch.int32, device="xpu").cpu()
            if not torch.equal(back, host) or not torch.equal(pinned, host):
                return "a copy changed the data"
            return "" if bool((filled == 7).all()) else "fill wrote other values"

        yield f"{size} integers", copies

    def bandwidth(figures: Figures) -> str:
        host = torch.empty(1 << 26, dtype=torch.uint8).pin_memory()
        there = torch.empty(1 << 26, dtype=torch.uint8, device="xpu")
        for name, to, source in (
            ("to device", there, host),
            ("to host", host, there),
            ("on device", there, there.clone()),
        ):
            to.copy_(source)
            torch.xpu.synchronize()
            start = time.perf_counter()
            for _ in range(4):
                to.copy_(source, non_blocking=True)
            torch.xpu.synchronize()
            figures[f"GB/s {name}"] = round(4 * host.numel() / (time.perf_counter() - start) / 1e9, 2)
        return ""

    yield "bandwidth of copies", bandwidth

    def exhaustion(figures: Figures) -> str:
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device="xpu")
        except torch.OutOfMemoryError:
            return "" if float(torch.ones(3, device="xpu").sum()) == 3 else "the device is not usable afterwards"
        return "a petabyte was allocated"

    yield "out of memory is an error", exhaustion

    def late_error(figures: Figures) -> str:
        x = torch.arange(4, device="xpu")
        try:
            x[torch.tensor([9], device="xpu")]
            torch.xpu.synchronize()
        except IndexError:
            return "" if int(x.sum()) == 6 else "the device is not usable afterwards"
        return "an index out of range raised nothing"

    yield "an error of a kernel is reported", late_error


# ---- operators


def _checked(case: Any) -> str:
    from xpu_ops.bench.core import check, to_xpu

    moved = to_xpu(case.args)
    if case.check:
        return check(case, moved)
    case.function(*moved)
    torch.xpu.synchronize()
    return ""


def _item(case: Any) -> Item:
    def run(figures: Figures) -> str:
        return _checked(case)

    return f"{case.section}: {case.name}", run


def _of(cases: Iterator[Any]) -> Iterator[Item]:
    for case in cases:
        yield _item(case)


def _sample() -> Iterator[Any]:
    from xpu_ops.bench import cases

    yield from cases.cases("sample")


def families() -> Iterator[Item]:
    """The first operator of each section of the benchmark's sample, so that the first fault is found early."""
    seen = set()
    for case in _sample():
        if case.section not in seen:
            seen.add(case.section)
            yield _item(case)


def operators() -> Iterator[Item]:
    """Every native operator that computes, once, against torch's CPU."""
    yield from _of(_sample())


def libraries() -> Iterator[Item]:
    """oneDNN: products, convolutions, attention, fused operators. oneMKL: transforms and factorisations."""
    from xpu_ops.bench import fused, linalg, products

    for part in (products.matmul(False), products.decode(), products.convolution(False), products.attention(False)):
        yield from _of(part)
    yield from _of(fused.cases())
    yield from _of(linalg.cases("core"))


# Samples that a move to the device changes.
_UNMOVED = {
    "as_strided.partial_views": "a moved view has no memory around it",
}


def opinfo() -> Iterator[Item]:
    """torch's own samples of its operators in float32, against the CPU; what both refuse is no error."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        reason = f"torch's samples need {error.name}"

        def missing(figures: Figures) -> str:
            raise Skipped(reason)

        yield "samples", missing
        return

    def name_of(op: Any) -> str:
        return f"{op.name}{'.' if op.variant_test_name else ''}{op.variant_test_name}"

    for op in op_db:
        if torch.float32 not in op.dtypes:
            continue

        def samples(figures: Figures, op: Any = op) -> str:
            count = 0
            if reason := _UNMOVED.get(name_of(op)):
                raise Skipped(reason)
            for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
                if sample.kwargs.get("dropout_p"):
                    continue
                one_value = sample.output_process_fn_grad  # without signs of singular vectors and the like
                moved = sample.transform(lambda t: t.to("xpu") if isinstance(t, Tensor) else t)
                try:
                    expected = op(sample.input, *sample.args, **sample.kwargs)
                except Exception:
                    continue
                with observing():
                    actual = op(moved.input, *moved.args, **moved.kwargs)
                    calls, _ = drain()
                count += 1
                if _comparable(calls) and (error := _tree_differs(one_value(actual), one_value(expected))):
                    return f"sample {count}: {error}"
            figures["samples"] = count
            return ""

        yield name_of(op), samples


@cache
def _drawn() -> set[str]:
    """Overloads whose results differ between two calls."""
    return {name for row in manifest() if not row["deterministic"] for name in row["overloads"]}


def _comparable(calls: list[Call]) -> bool:
    """Whether the device computed something that has one value: it drew nothing, and wrote the memory."""
    return not any(c.overload in _drawn() for c in calls) and not all("empty" in c.overload for c in calls)


def _tree_differs(actual: Any, expected: Any) -> str:
    from torch.utils._pytree import tree_leaves

    for a, e in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
        if isinstance(e, Tensor) and e.layout == torch.strided and (error := _differs(a, e, 1e-3)):
            return error
    return ""


# ---- models


def _networks() -> dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]]:
    conv = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.GELU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    encoder = lambda: nn.TransformerEncoder(  # noqa: E731
        nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), 2
    )
    return {
        "layers": (
            lambda: nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.SiLU(), nn.Linear(128, 10)),
            lambda: torch.randn(32, 64),
        ),
        "convolutions": (conv, lambda: torch.randn(8, 3, 32, 32)),
        "transformer": (encoder, lambda: torch.randn(4, 33, 64)),
        "LSTM": (lambda: nn.LSTM(32, 48, 2, batch_first=True), lambda: torch.randn(4, 17, 32)),
    }


def _output(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else result.logits


def models() -> Iterator[Item]:
    """Training steps of small networks, and of whole models where transformers and timm are installed."""
    from xpu_ops.bench.models import MODELS

    for name, (build, inputs) in _networks().items():

        def steps(figures: Figures, build: Any = build, inputs: Any = inputs) -> str:
            torch.manual_seed(0)
            models = {"cpu": build()}
            models["xpu"] = build().to("xpu")
            models["xpu"].load_state_dict(models["cpu"].state_dict())
            x, losses = inputs(), {}
            for device, model in models.items():
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                for _ in range(3):
                    optimizer.zero_grad()
                    out = model(x.to(device))
                    loss = (out[0] if isinstance(out, tuple) else out).square().mean()
                    loss.backward()
                    optimizer.step()
                losses[device] = loss.detach()
            return _differs(losses["xpu"], losses["cpu"], 1e-3)

        yield f"{name}, three steps of training", steps
    for name, (build, inputs) in MODELS.items():

        def forward(figures: Figures, build: Any = build, inputs: Any = inputs) -> str:
            torch.manual_seed(0)
            try:
                model = build().eval()
            except ImportError as error:
                raise Skipped(f"{error.name} is not installed") from None
            x = inputs()
            with torch.no_grad():
                expected = model(x)
                actual = model.to("xpu")(x.to("xpu"))
            return _differs(_output(actual), _output(expected), 1e-2)

        yield f"{name}, inference", forward

    def compiled(figures: Figures) -> str:
        function = lambda a, b: torch.softmax(a * b + 1, -1).sum(0)  # noqa: E731
        a, b = torch.randn(64, 65), torch.randn(65)
        return _differs(torch.compile(function)(a.to("xpu"), b.to("xpu")), function(a, b), 1e-4)

    yield "torch.compile of one function", compiled


def benchmark() -> Iterator[Item]:
    """The rows of `xpu-ops bench --level core`, with their times."""
    from xpu_ops.bench import cases
    from xpu_ops.bench.core import measure

    for case in cases.cases("core"):

        def timed(figures: Figures, case: Any = case) -> str:
            row = measure(case, seconds=0.1, rounds=5)
            figures.update(row.as_dict())
            return row.error

        yield f"{case.section}: {case.name}", timed


# In order: what a later stage needs is looked at before. Seconds for one item, after which it counts as hanging.
STAGES: dict[str, tuple[Callable[[], Iterator[Item]], float]] = {
    "devices": (devices, 120),
    "memory": (memory, 60),
    "families": (families, 120),
    "operators": (operators, 60),
    "libraries": (libraries, 120),
    "opinfo": (opinfo, 120),
    "models": (models, 300),
    "benchmark": (benchmark, 60),
}
