"""The targets of the project as data, and the verdict of a run on each."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import compiled, compiled_models, fused, generation, process
from .core import Row, geomean


@dataclass(frozen=True)
class Machine:
    """Limits measured in the same run: GB/s of a triad and Gflop/s of the largest f32 product, on torch CPU."""

    triad_gbs: float
    gemm_gflops: float


@dataclass(frozen=True)
class Target:
    """A bound on one figure of the chosen rows. `less`: the figure must not exceed it."""

    name: str
    chosen: Callable[[Row], bool]
    figure: Callable[[Row, Machine], float]
    whole: Callable[[list[float]], float]
    want: float
    less: bool = False


@dataclass(frozen=True)
class Verdict:
    """`outcome` is met, missed, or noisy: the value is nearer to the bound than its spread allows to tell."""

    target: str
    value: float
    want: float
    outcome: str

    def __str__(self) -> str:
        return f"{self.outcome:6} {self.target}: {self.value:.2f} against {self.want:.2f}"


# Sections, wanted geometric mean, wanted lowest.
SECTIONS: dict[str, tuple[tuple[str, ...], float, float]] = {
    "pointwise, reductions, copies": (("pointwise", "reduction", "copy"), 2.0, 0.9),
    "layouts": (("layouts",), 1.5, 1.0),
    "norms, softmax, pooling": (("norm", "softmax", "pooling"), 1.2, 0.9),
    "matmul": (("matmul",), 1.05, 0.9),
    "convolution": (("convolution",), 1.05, 0.9),
    "attention": (("attention",), 1.0, 1.0),
    "indexing, sort": (("indexing",), 1.0, 0.9),
    "sampling": (("sampling",), 2.0, 0.9),
    "sparse": (("sparse",), 1.0, 0.9),
    "other families": (("foreach", "loss", "sequence", "quantization", "factory"), 1.0, 0.9),
    "models": (("model",), 1.5, 0.95),
    "collectives": (("distributed",), 1.0, 0.9),
    "compiled against eager": ((compiled.AGAINST_EAGER,), 1.5, 0.9),
    "compiled against compiled CPU": ((compiled.AGAINST_CPU,), 1.3, 0.0),
    "compiled models against eager": ((compiled_models.AGAINST_EAGER,), 1.1, 1.0),
    "compiled models against compiled CPU": ((compiled_models.AGAINST_CPU,), 1.3, 0.0),
}
_TRANSCENDENTAL = frozenset(["exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "erf", "sigmoid", "pow"])
_SORTS = ("sort", "topk", "argsort", "msort")


def _ratio(row: Row, machine: Machine) -> float:
    return row.ratio


def _microseconds(row: Row, machine: Machine) -> float:
    return row.xpu_us


def _share_of_peak(row: Row, machine: Machine) -> float:
    return row.flops / row.xpu_us / 1e3 / machine.gemm_gflops


def _share_of_triad(row: Row, machine: Machine) -> float:
    return row.bytes_moved / row.xpu_us / 1e3 / machine.triad_gbs


def _in_section(prefixes: tuple[str, ...]) -> Callable[[Row], bool]:
    # A thousand elements measure the host path, which has rows of its own.
    return lambda r: r.section.startswith(prefixes) and not r.section.endswith("1e+03")


def _from_1e5(row: Row) -> bool:
    return not row.section.endswith(("1e+03", "1e+04"))


def _is(section: str, name: str) -> Callable[[Row], bool]:
    return lambda r: r.section == section and r.name == name


def targets(machine: Machine) -> Iterator[Target]:
    """Every target of the project. Some choose rows by what bounds them on this machine."""
    yield Target("one-element add, microseconds", lambda r: r.name == "add, 1 element", _microseconds, max, 3.0, True)
    yield Target("20-op chain, ratio", lambda r: r.name.startswith("20-op chain"), _ratio, min, 0.7)
    for name, (prefixes, mean, lowest) in SECTIONS.items():
        yield Target(f"{name}, geometric mean ratio", _in_section(prefixes), _ratio, geomean, mean)
        if lowest:
            yield Target(f"{name}, lowest ratio", _in_section(prefixes), _ratio, min, lowest)
    yield Target(
        "sort and topk, lowest ratio",
        lambda r: _from_1e5(r) and r.name.startswith(_SORTS) and r.section != process.FIRST_USE,
        _ratio,
        min,
        2.0,
    )
    yield Target(
        "transcendental, geometric mean ratio",
        lambda r: _from_1e5(r) and r.section.startswith("pointwise") and r.name in _TRANSCENDENTAL,
        _ratio,
        geomean,
        2.0,
    )
    yield Target(
        "f32 products from 1024, lowest share of peak",
        lambda r: bool(r.flops and r.section == "matmul" and re.search(r"mm f32 (1024|2048|4096)$", r.name)),
        _share_of_peak,
        min,
        0.85,
    )
    yield Target(
        "fused against unfused, geometric mean ratio", lambda r: r.section == fused.SECTION, _ratio, geomean, 1.2
    )
    # Bytes take longer than operations, at what the machine can do of each.
    yield Target(
        "fused against unfused, bound by memory, lowest ratio",
        lambda r: r.section == fused.SECTION and r.bytes_moved / machine.triad_gbs > r.flops / machine.gemm_gflops,
        _ratio,
        min,
        1.2,
    )
    yield Target(
        "import to first result, seconds",
        _is("process", process.FIRST),
        lambda r, m: r.xpu_us / 1e6,
        max,
        1.0,
        True,
    )
    yield Target("modules compiled at the first call", _is("process", process.LINKED), _microseconds, max, 0, True)
    yield Target(
        "resident memory of training, of torch CPU's",
        _is("process", process.MEMORY),
        lambda r, m: r.xpu_us / r.cpu_us,
        max,
        1.5,
        True,
    )
    yield Target(
        "first call of a family, milliseconds",
        lambda r: r.section == process.FIRST_USE,
        lambda r, m: r.xpu_us / 1e3,
        max,
        10.0,
        True,
    )
    yield Target(
        "memory after twenty operators, MiB above torch CPU's",
        _is("process", process.TWENTY),
        lambda r, m: r.xpu_us - r.cpu_us,
        max,
        100.0,
        True,
    )
    yield Target("generation, lowest ratio", lambda r: r.section == generation.SECTION, _ratio, min, 1.0)
    yield Target(
        "generation, lowest share of the triad",
        lambda r: r.section == generation.SECTION,
        _share_of_triad,
        min,
        0.8,
    )
    yield Target("two workers against one, lowest ratio", lambda r: r.section == "workers", _ratio, min, 1.7)
    yield Target(
        "memory-bound rows at 1.6e7, median share of the triad",
        lambda r: r.section.endswith("2e+07") and bool(r.bytes_moved),
        _share_of_triad,
        statistics.median,
        0.85,
    )


def growth(rows: list[Row], machine: Machine) -> Row | None:
    """The row with the highest time per element of 1e8 over that of 1e7, as its ratio.

    A cache that holds a part of 1e7 elements makes them faster than the triad: 1e8 then counts against the triad.
    """
    by_name = {(r.section, r.name): r for r in rows}
    found = [
        Row(
            r.section,
            "1e8 over 1e7",
            large.xpu_us,
            max(10 * r.xpu_us, large.bytes_moved / machine.triad_gbs / 1e3),
            max(r.spread, large.spread),
        )
        for (section, name), r in by_name.items()
        if name == "1e+07" and (large := by_name.get((section, "1e+08")))
    ]
    return max(found, key=lambda r: r.ratio, default=None)


def against_bf16(rows: list[Row], weights: str) -> list[Row]:
    """Steps of `generate` with these weights against those with bf16: ratio = how many times the tokens."""
    steps = {r.name: r for r in rows if r.section == generation.SECTION}
    pairs = [(steps.get(name.replace(weights, "bf16")), r) for name, r in steps.items() if name.startswith(weights)]
    return [Row(r.section, r.name, wide.xpu_us, r.xpu_us, max(r.spread, wide.spread)) for wide, r in pairs if wide]


def judge(target: Target, rows: list[Row], machine: Machine) -> Verdict:
    """The verdict on one target. The uncertainty is the spread of the row that decides, or of the mean of all."""
    figures = [target.figure(r, machine) for r in rows]
    value = target.whole(figures)
    if target.whole in (min, max):
        spread = rows[figures.index(value)].spread
    else:
        spread = statistics.median(r.spread for r in rows) / len(rows) ** 0.5
    margin = abs(value / target.want - 1) if target.want else abs(value)
    met = value <= target.want if target.less else value >= target.want
    return Verdict(target.name, value, target.want, "noisy" if spread > margin else "met" if met else "missed")


def verdicts(rows: list[Row], triad: float, gemm: float) -> list[str]:
    """One line per target that the rows say something about: met, missed, or too noisy to tell."""
    machine = Machine(triad, gemm)
    good = [r for r in rows if not r.error]
    out = [str(judge(t, chosen, machine)) for t in targets(machine) if (chosen := [r for r in good if t.chosen(r)])]
    if worst := growth(good, machine):
        target = Target("time per element of 1e8 over that of 1e7, highest", lambda r: True, _ratio, max, 1.25, True)
        out.append(str(judge(target, [worst], machine)))
    for weights, want in (("int8", 1.7), ("int4", 2.8)):
        if steps := against_bf16(good, weights):
            target = Target(
                f"tokens with {weights} of those with bf16, geometric mean", lambda r: True, _ratio, geomean, want
            )
            out.append(str(judge(target, steps, machine)))
    return out
