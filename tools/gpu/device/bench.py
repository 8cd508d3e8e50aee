"""Executes the planned cases on the GPU and measures them against torch CUDA's operators on the same data."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tools.gpu import recording
from tools.gpu.device.cubins import Cubins
from tools.gpu.device.cuda import MOST_GROUPS_Y, CudaError, Launcher

SECONDS = 0.12  # of one measurement
MOST_ROUNDS = 30
COPIED = 1 << 28  # floats: 1 GiB


@dataclass
class Figure:
    """One case."""

    name: str
    group: str
    us: float = 0.0
    torch_us: float = 0.0
    share: float = 0.0  # of the card's copy bandwidth
    torch_share: float = 0.0
    error: str = ""  # against torch's results: the largest relative error, or the number of differing elements
    right: bool = False
    launches: int = 0
    commands: int = 0  # copies and fills by the driver, which are not executed
    parts: list[str] = field(default_factory=list)
    failed: str = ""


def measured(f: Callable[[], object], seconds: float = SECONDS) -> float:
    """Seconds of one call on the device: the median of single calls where they are long, else of a train."""
    f()
    torch.cuda.synchronize()
    times: list[float] = []
    spent = 0.0
    while len(times) < 3 or (spent < seconds and len(times) < MOST_ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        f()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
        spent += times[-1]
        if spent > 2:
            break
    return sorted(times)[len(times) // 2]


def copy_bandwidth() -> float:
    """Bytes per second that torch's copy of 1 GiB reads and writes."""
    x = torch.empty(COPIED, device="cuda").normal_()
    y = torch.empty_like(x)
    return 2 * x.numel() * x.element_size() / measured(lambda: y.copy_(x))


def fill(t: torch.Tensor, how: str) -> None:
    kind, _, bound = how.partition(":")
    if kind == "normal":
        t.normal_()
    elif kind == "uniform":
        t.uniform_()
    elif kind == "zeros":
        t.zero_()
    elif kind == "ramp":
        n = t.numel()
        numbers = torch.arange(n, device="cuda")
        t.copy_((numbers if not t.is_floating_point() else numbers / n).view(t.shape))
    elif kind == "index":
        t.random_(0, int(bound))
    elif kind == "mix":
        t.copy_(((torch.arange(t.numel(), device="cuda") * 2654435761 >> 7) % int(bound)).view(t.shape))
    else:
        raise ValueError(f"unknown way to fill a tensor: {how}")


class Placed:
    """The memory of a case on the device: every block of its launches and tensors."""

    def __init__(self, case: recording.Case, tensors: list[list[Any]]) -> None:
        sizes: dict[int, int] = {}
        for launch in case.launches:
            for b in launch.blocks:
                sizes[b.address] = max(sizes.get(b.address, 0), b.size)
        for address, shape, strides, dtype, *_ in tensors:
            known = any(a <= address < a + n for a, n in sizes.items())
            if not known and math.prod(shape):
                span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
                sizes[address] = span * getattr(torch, dtype).itemsize
        self._memory = {a: torch.zeros(n + 256, dtype=torch.uint8, device="cuda") for a, n in sizes.items()}
        self.addresses = recording.Addresses({a: (n, self._memory[a].data_ptr()) for a, n in sizes.items()})
        self._sizes = sizes
        for launch in case.launches:
            for b in launch.blocks:
                if b.before is not None and any(b.before):
                    data = torch.frombuffer(bytearray(self.addresses.relocated(b.before)), dtype=torch.uint8)
                    self._memory[b.address][: b.size].copy_(data)

    def tensor(self, address: int, shape: list[int], strides: list[int], dtype: str) -> torch.Tensor:
        kind = getattr(torch, dtype)
        if not math.prod(shape):
            return torch.empty(shape, dtype=kind, device="cuda")
        base = next(a for a, n in self._sizes.items() if a <= address < a + n)
        raw = self._memory[base][address - base :]
        raw = raw[: raw.numel() // kind.itemsize * kind.itemsize]
        return raw.view(kind).as_strided(shape, strides)


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[float, str]:
    """How far off, as a number that is 0 for equal results, and as text."""
    if not theirs.is_floating_point():
        count = int((ours != theirs).sum())
        return float(count), f"{count} of {theirs.numel()} differ"
    a, b = ours.flatten(), theirs.flatten()
    worst = 0.0
    step = 1 << 25
    for i in range(0, b.numel(), step):
        x, y = a[i : i + step].float(), b[i : i + step].float()
        off = (x - y).abs() / y.abs().clamp(min=0.1)
        off = torch.where((x == y) | (x.isnan() & y.isnan()), torch.zeros_like(off), off)
        worst = max(worst, float(off.nan_to_num(nan=math.inf).max()))
    return worst, f"{worst:.1e}"


# The largest relative error (from 0.1 on) that counts as right: sums of many in another order, rounded once more.
RIGHT = {"float32": 2e-3, "float16": 2e-2, "bfloat16": 5e-2}


class Bench:
    def __init__(self, cubins: Cubins) -> None:
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.zeros(1, device="cuda")
        self._cubins = cubins
        self.peak = copy_bandwidth()
        torch.cuda.empty_cache()

    def _launchers(self, case: recording.Case, placed: Placed) -> list[Launcher]:
        found = []
        for launch in case.launches:
            if launch.groups[1] > MOST_GROUPS_Y:
                raise CudaError(f"{launch.kernel}: {launch.groups[1]} groups in the second dimension")
            function = self._cubins.function(launch.kernel, launch.items, launch.digest)
            found.append(Launcher(function, launch.groups, launch.local, placed.addresses.relocated(launch.args)))
        return found

    def run(self, plan: dict[str, Any], case: recording.Case) -> Figure:
        """One case. Raises CudaError where the device cannot go on."""
        figure = Figure(plan["name"], plan["group"], launches=len(case.launches))
        figure.commands = len(case.steps) - figure.launches
        missing = sorted({s.kernel for s in case.launches if self._cubins.module_of(s.kernel, s.digest) is None})
        if missing or not case.launches:
            figure.failed = f"no kernel {', '.join(missing)}" if missing else "no launch"
            return figure
        placed = Placed(case, [*plan["inputs"].values(), *plan["outputs"]])
        inputs = {n: placed.tensor(*t[:4]) for n, t in plan["inputs"].items()}
        for n, t in plan["inputs"].items():
            fill(inputs[n], t[4])
        scope = {"torch": torch, "F": torch.nn.functional, "A": torch.ops.aten}
        theirs_in = {n: t.clone() if n == "o" else t for n, t in inputs.items()}

        def theirs() -> Any:
            with torch.no_grad():
                return eval(plan["expr"], scope, theirs_in)

        stream = torch.cuda.current_stream().cuda_stream
        launchers = self._launchers(case, placed)

        def ours() -> None:
            for launcher in launchers:
                launcher(stream)

        result = theirs()
        ours()
        torch.cuda.synchronize()
        self._compare(figure, plan, placed, result)
        del result
        figure.us, figure.torch_us = measured(ours) * 1e6, measured(theirs) * 1e6
        figure.share, figure.torch_share = (
            plan["moved"] / (us / 1e6) / self.peak for us in (figure.us, figure.torch_us)
        )
        if len(launchers) > 1 and figure.us < 1e6:
            self._parts(figure, case, launchers, stream)
        elif len(launchers) == 1:
            first = case.launches[0]
            figure.parts = [f"{first.kernel} {first.groups} of {first.local}"]
        return figure

    @staticmethod
    def _compare(figure: Figure, plan: dict[str, Any], placed: Placed, result: Any) -> None:
        results = result if isinstance(result, (tuple, list)) else [result]
        texts, right = [], True
        for number, (where, r) in enumerate(zip(plan["outputs"], [r for r in results if r is not None], strict=False)):
            if plan["check"] == "none" or (plan["check"] == "values" and number > 0):
                continue
            o = placed.tensor(*where)
            if o.shape != r.shape:
                texts.append(f"shape {tuple(o.shape)}, torch {tuple(r.shape)}")
                right = False
                continue
            off, text = difference(o, r)
            texts.append(text)
            # Of equal elements another one may be named: indices of 1 % at most may differ.
            right &= off <= (RIGHT.get(where[3], 1e-5) if r.is_floating_point() else 0.01 * r.numel() * (number > 0))
        figure.error, figure.right = ", ".join(texts) or "not compared", right

    @staticmethod
    def _parts(figure: Figure, case: recording.Case, launchers: list[Launcher], stream: int) -> None:
        """The time of each kernel, those of one name together."""
        times: dict[str, float] = {}
        counts: dict[str, int] = {}
        for launch, launcher in zip(case.launches, launchers, strict=True):
            key = f"{launch.kernel} {launch.groups} of {launch.local}"
            counts[key] = counts.get(key, 0) + 1
            if counts[key] == 1:
                times[key] = measured(lambda launcher=launcher: launcher(stream), 0.0) * 1e6  # type: ignore[misc]
        figure.parts = [
            f"{key}: {us:.0f} us" + (f" x {counts[key]}" if counts[key] > 1 else "") for key, us in times.items()
        ]


def run(cubins: Cubins, folder: Path, out: Path, seconds: float, only: list[str]) -> list[Figure]:
    """All cases of a folder of plans, until the time is over; writes <out>/bench.json after each."""
    bench = Bench(cubins)
    device = torch.cuda.get_device_name()
    print(f"{device}: copy of 1 GiB {bench.peak / 1e9:.0f} GB/s, torch {torch.__version__}", flush=True)
    end = time.monotonic() + seconds
    figures: list[Figure] = []
    for rec in sorted(folder.glob("bench_*.rec")):
        cases = recording.cases(rec)
        for plan in json.loads(rec.with_suffix(".json").read_text()):
            if only and not any(o in plan["name"] for o in only):
                continue
            if time.monotonic() > end:
                figures.append(Figure(plan["name"], plan["group"], failed="no time left"))
                continue
            fatal = False
            try:
                figure = bench.run(plan, cases[plan["name"]])
            except Exception as error:  # one case must not cost the others
                figure = Figure(plan["name"], plan["group"], failed=f"{type(error).__name__}: {str(error)[:200]}")
                fatal = "CUDA error" in str(error) or isinstance(error, CudaError)
            figures.append(figure)
            torch.cuda.empty_cache()
            print(line(figure), flush=True)
            record = {
                "device": device,
                "torch": torch.__version__,
                "peak": bench.peak,
                "figures": [asdict(f) for f in figures],
            }
            (out / "bench.json").write_text(json.dumps(record, indent=1))
            if fatal:
                print("the device cannot go on")
                return figures
    return figures


def line(f: Figure) -> str:
    if f.failed:
        return f"{f.name:42s} {f.failed}"
    ratio = f.us / f.torch_us
    mark = "" if f.right else "  WRONG"
    text = f"{f.name:42s} {f.us:9.1f} us ({f.share:4.2f})  torch {f.torch_us:9.1f} us ({f.torch_share:4.2f})  x{ratio:6.2f}  {f.error}{mark}"
    return "\n      ".join([text + (f"  {f.commands} commands" if f.commands else ""), *f.parts[:12]])
