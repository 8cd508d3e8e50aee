"""Executes the planned cases on the GPU and measures them against torch CUDA's operators on the same data."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tools.gpu import recording
from tools.gpu.device.cubins import Cubins
from tools.gpu.device.cuda import MOST_GROUPS_Y, CudaError, Launcher

SECONDS = 0.12  # of one measurement
MOST_ROUNDS = 50
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
    """Seconds of one call on the device, in trains of calls: the faster of two."""

    def train(count: int) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            f()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    f()
    torch.cuda.synchronize()
    once = train(1)
    count = max(1, min(MOST_ROUNDS, int(seconds / 2 / max(once, 1e-6))))
    return once if once > seconds else min(train(count), train(count))


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
    """How far off, as a number that is 0 for equal results, and as text. Errors are relative to the value, or to the
    root mean square of all where that is larger."""
    if not theirs.is_floating_point():
        count = int((ours != theirs).sum())
        return float(count), f"{count} of {theirs.numel()} differ"
    a, b = ours.flatten(), theirs.flatten()
    parts = [slice(i, i + (1 << 25)) for i in range(0, b.numel(), 1 << 25)]
    square = sum(float(b[i].float().nan_to_num(0, 0, 0).square().sum()) for i in parts)
    least = max(math.sqrt(square / max(b.numel(), 1)), 1e-30)
    worst = 0.0
    for i in parts:
        x, y = a[i].float(), b[i].float()
        off = (x - y).abs() / y.abs().clamp(min=least)
        off = torch.where((x == y) | (x.isnan() & y.isnan()), torch.zeros_like(off), off)
        worst = max(worst, float(off.nan_to_num(nan=math.inf).max()))
    return worst, f"{worst:.1e}"


# The largest error that counts as right: sums of many in another order, rounded once more.
RIGHT = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


class Bench:
    def __init__(self, cubins: Cubins, blocking: bool) -> None:
        """`blocking`: the device is waited for after each launch, so that the kernel that kills it is named."""
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.zeros(1, device="cuda")
        self._cubins, self._blocking = cubins, blocking
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

        if self._blocking:
            for launch, launcher in zip(case.launches, launchers, strict=True):
                launcher(stream)
                try:
                    torch.cuda.synchronize()
                except Exception as error:
                    text = f"{launch.kernel} {launch.groups} of {launch.local}: {str(error).splitlines()[0]}"
                    raise CudaError(text) from None
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
        """The time of each kernel, those of one name together: in the order of the case, since a kernel may use up what
        the one before it left."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(launchers) + 1)]
        marks[0].record()
        for launcher, mark in zip(launchers, marks[1:], strict=True):
            launcher(stream)
            mark.record()
        marks[-1].synchronize()
        times: dict[str, list[float]] = {}
        for launch, begin, end in zip(case.launches, marks, marks[1:], strict=False):
            key = f"{launch.kernel} {launch.groups} of {launch.local}"
            times.setdefault(key, []).append(begin.elapsed_time(end) * 1e3)
        figure.parts = [
            f"{key}: {sum(us):.0f} us" + (f" in {len(us)} launches" if len(us) > 1 else "") for key, us in times.items()
        ]


def plans(folder: Path, only: list[str]) -> Iterator[tuple[dict[str, Any], recording.Case]]:
    for rec in sorted(folder.glob("bench_*.rec")):
        cases = recording.cases(rec)
        for plan in json.loads(rec.with_suffix(".json").read_text()):
            if not only or any(o in plan["name"] for o in only):
                yield plan, cases[plan["name"]]


def run_here(
    cubins: Cubins, folder: Path, results: Path, only: list[str], first: int, last: int, blocking: bool
) -> None:
    """Cases first to last - 1 in this process; a line of `results` per case."""
    bench = Bench(cubins, blocking)
    with open(results, "a") as out:
        about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "peak": bench.peak}
        out.write(json.dumps(about) + "\n")
        for number, (plan, case) in enumerate(plans(folder, only)):
            if not first <= number < last:
                continue
            try:
                figure = bench.run(plan, case)
            except CudaError as error:
                figure = Figure(plan["name"], plan["group"], failed=str(error)[:200])
            out.write(json.dumps({"number": number, "figure": asdict(figure)}) + "\n")
            out.flush()
            print(line(figure), flush=True)
            if figure.failed:
                torch.cuda.synchronize()  # ends the process where the device cannot go on
            torch.cuda.empty_cache()


def run(command: list[str], folder: Path, out: Path, seconds: float, only: list[str]) -> None:
    """All cases, in a process that is started again where a kernel kills it; writes <out>/bench.json.

    `command` runs this module on the payload.
    """
    results = Path("/tmp/gpu_bench.jsonl")
    results.unlink(missing_ok=True)
    end = time.monotonic() + seconds
    cases = list(plans(folder, only))
    figures: dict[int, dict[str, Any]] = {}
    about: dict[str, Any] = {}
    first = 0
    while first < len(cases) and time.monotonic() < end:
        try:
            process = [*command, "--results", str(results), "--only", *only]
            subprocess.run([*process, "--first", str(first)], timeout=end - time.monotonic())
            read(results, figures, about)
            failed = next((n for n in range(first, len(cases)) if n not in figures), None)
            if failed is None:
                break
            again = [*process, "--first", str(failed), "--last", str(failed + 1), "--blocking"]
            subprocess.run(again, timeout=max(1.0, end - time.monotonic()), stderr=subprocess.DEVNULL)
            read(results, figures, about)
            figures.setdefault(
                failed, asdict(Figure(cases[failed][0]["name"], cases[failed][0]["group"], failed="killed the process"))
            )
            first = failed + 1
        except subprocess.TimeoutExpired:
            break
        write(out, cases, figures, about)
    read(results, figures, about)
    write(out, cases, figures, about)


def write(
    out: Path,
    cases: list[tuple[dict[str, Any], recording.Case]],
    figures: dict[int, dict[str, Any]],
    about: dict[str, Any],
) -> None:
    missing = [asdict(Figure(plan["name"], plan["group"], failed="no time left")) for plan, _ in cases]
    record = {**about, "figures": [figures.get(n, missing[n]) for n in range(len(cases))]}
    (out / "bench.json").write_text(json.dumps(record, indent=1))


def read(results: Path, figures: dict[int, dict[str, Any]], about: dict[str, Any]) -> None:
    """Adds what a process has written."""
    for text in results.read_text().splitlines() if results.exists() else []:
        record = json.loads(text)
        if "figure" in record:
            figures[record["number"]] = record["figure"]
        else:
            about.update(record)


def line(f: Figure) -> str:
    if f.failed:
        return f"{f.name:42s} {f.failed}"
    ratio = f.us / f.torch_us
    mark = "" if f.right else "  WRONG"
    text = f"{f.name:42s} {f.us:9.1f} us ({f.share:4.2f})  torch {f.torch_us:9.1f} us ({f.torch_share:4.2f})  x{ratio:6.2f}  {f.error}{mark}"
    return "\n      ".join([text + (f"  {f.commands} commands" if f.commands else ""), *f.parts[:12]])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.gpu.device.bench", description=__doc__)
    parser.add_argument("--payload", type=Path, default=Path("."))
    parser.add_argument("--cubins", type=Path, default=Path("/tmp/gpu_cubins"))
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=1 << 30)
    parser.add_argument("--blocking", action="store_true")
    args = parser.parse_args()
    cubins = Cubins(args.payload / "ptx", args.cubins)
    run_here(cubins, args.payload / "bench", args.results, args.only, args.first, args.last, args.blocking)
    return 0


if __name__ == "__main__":
    sys.exit(main())
