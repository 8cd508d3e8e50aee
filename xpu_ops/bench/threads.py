"""Time against threads: the same rows on more and more of the processors, xpu and torch CPU in turn.

Each number of threads is a process of its own with as many processors, since the device's threads are made once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from typing import Any

import torch
import torch.nn.functional as F

from .core import Case, Row, geomean, measure, with_gradients

SECTION = "threads"


def cases() -> Iterator[Case]:
    """Rows whose speed-up says something: small and large streams, scans, sums by index, sorts, products."""
    gen = torch.Generator().manual_seed(0)

    def real(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape, generator=gen).to(dtype)

    def index(end: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, end, shape, generator=gen)

    def row(name: str, function: Any, *args: Any, check: bool = True) -> Case:
        return Case(SECTION, name, function, args, check=check)

    for size in (1000, 100_000, 1_000_000, 16_000_000):
        yield row(f"add {size:.0e}", torch.add, real(size), real(size))
    million, square = real(1_000_000), real(1024, 1024)
    yield row("exp 1e6", torch.exp, million)
    yield row("sum 1e6", torch.sum, million)
    yield row("sum 2e7", torch.sum, real(20_000_000))
    yield row("cumsum of rows 1024 x 4096", lambda x: x.cumsum(1), real(1024, 4096))
    yield row("cumsum of columns 4096 x 1024", lambda x: x.cumsum(0), real(4096, 1024))
    yield row("softmax 4096 x 1024", lambda x: x.softmax(1), real(4096, 1024))
    norm = with_gradients(lambda x, w, b: F.layer_norm(x, (768,), w, b))
    yield row("layer_norm and gradients 4096 x 768", norm, real(4096, 768), real(768), real(768))
    yield row("matmul 256", torch.mm, real(256, 256), real(256, 256))
    yield row("matmul 1024", torch.mm, square, square)
    yield row("matmul 2048", torch.mm, real(2048, 2048), real(2048, 2048))
    yield row("matmul 1024 bf16", torch.mm, square.bfloat16(), square.bfloat16())
    yield row("linear 32 x 2048 x 2048", F.linear, real(32, 2048), real(2048, 2048))
    images, kernel = real(8, 64, 56, 56), real(64, 64, 3, 3)
    yield row("convolution 3x3 of 64 at 56", lambda x, w: F.conv2d(x, w, padding=1), images, kernel)
    yield row("its gradients", with_gradients(lambda x, w: F.conv2d(x, w, padding=1)), images, kernel)
    yield row("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), images)
    for dtype in (torch.float32, torch.bfloat16):
        q = real(2, 8, 512, 64, dtype=dtype)
        attention = lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)  # noqa: E731
        yield row(f"attention 2x8x512x64 causal {str(dtype).removeprefix('torch.')}", attention, q)
    lookup = with_gradients(lambda w, i: F.embedding(i, w))
    yield row("embedding and gradient 8192 of 4096 x 512", lookup, real(4096, 512), index(4096, 8192))
    yield row("index_select 1e5 x 64", lambda x, i: x.index_select(0, i), real(100_000, 64), index(100_000, 100_000))
    place = index(100_000, 1_000_000)
    yield row("scatter_add 1e6 into 1e5", lambda x, i, y: x.scatter_add(0, i, y), real(100_000), place, million)
    rows = index(4096, 65_536)
    yield row(
        "index_add 65536 into 4096 x 128",
        lambda x, i, y: x.index_add(0, i, y),
        real(4096, 128),
        rows,
        real(65_536, 128),
    )
    yield row("bincount 1e6 of 1e4", torch.bincount, index(10_000, 1_000_000))
    yield row("histc 1e6", lambda x: x.histc(100), million, check=False)  # edges are rounded another way
    yield row("nonzero 1e6", torch.nonzero, million > 0)
    yield row("sort 1e6", lambda x: x.sort()[0], million)  # ties keep their order here, not on the CPU
    yield row("sort of rows 1024 x 4096", lambda x: x.sort()[0], real(1024, 4096))
    yield row("unique 1e6", torch.unique, place)
    yield row("topk 1e6", lambda x: x.topk(100)[0], million)
    yield row("searchsorted 1e6 in 1e5", torch.searchsorted, million[:100_000].sort()[0], million)


def counts(text: str) -> list[int]:
    """The numbers of threads of `--threads 1,2,4`.

    Raises:
        ValueError: a part is not a number, or not between 1 and the processors that this process may use.
    """
    most = len(os.sched_getaffinity(0))
    numbers = [int(part) for part in text.split(",")]
    for number in numbers:
        if not 1 <= number <= most:
            raise ValueError(f"{number} is not between 1 and {most}, the processors of this process")
    return numbers


def child(threads: int, filter: str) -> None:
    """Prints the rows of this process, in which the affinity is set before any thread is made."""
    torch.set_num_threads(threads)
    rows = [measure(case).as_dict() for case in cases() if filter in f"{SECTION} {case.name}"]
    print(json.dumps(rows))


_START = """
import os, sys
threads = int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
from xpu_ops.bench import threads as module
module.child(threads, sys.argv[2])
"""


def measured(threads: list[int], filter: str = "") -> dict[int, list[Row]]:
    """The rows for each number of threads, each in a new process on the first processors of this one.

    Raises:
        RuntimeError: a process failed; the text has its last line.
    """
    out: dict[int, list[Row]] = {}
    for number in threads:
        print(f"{number} threads", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, "-c", _START, str(number), filter], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{number} threads: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
        out[number] = [
            Row(**{k: v for k, v in row.items() if k != "ratio"}) for row in json.loads(done.stdout.splitlines()[-1])
        ]
    return out


def markdown(results: dict[int, list[Row]], device: str) -> str:
    """One line per row: microseconds per number of threads, the speed-up from the first to the last, torch CPU's, the ratio."""
    threads = list(results)
    first, last = threads[0], threads[-1]
    lines = [
        f"Device {device}. Microseconds on xpu; x: time on {first} by time on {last} threads; ratio: torch CPU's time by "
        f"xpu's on {last}.",
        "",
        f"| row | {' | '.join(map(str, threads))} | x | torch x | ratio |",
        "|---" * (len(threads) + 4) + "|",
    ]
    gains, theirs, ratios = [], [], []
    for parts in zip(*results.values(), strict=True):
        name = parts[0].name
        if any(p.error or not p.xpu_us for p in parts):
            lines.append(f"| {name} | {'; '.join(sorted({p.error for p in parts if p.error}))} |")
            continue
        gains.append(parts[0].xpu_us / parts[-1].xpu_us)
        theirs.append(parts[0].cpu_us / parts[-1].cpu_us)
        ratios.append(parts[-1].ratio)
        times = " | ".join(f"{p.xpu_us:.0f}" for p in parts)
        lines.append(f"| {name} | {times} | {gains[-1]:.1f} | {theirs[-1]:.1f} | {ratios[-1]:.2f} |")
    lines.append(
        f"| geometric mean |{' |' * len(threads)} {geomean(gains):.1f} | {geomean(theirs):.1f} | {geomean(ratios):.2f} |"
    )
    return "\n".join([*lines, ""])


def chart(results: dict[int, list[Row]]) -> str:
    """An SVG picture of the geometric mean speed-up against threads: xpu, torch CPU, and a line for as many times as threads."""
    threads = list(results)
    curves = {
        "xpu": ("#2a7f62", [_gain(results, n, "xpu_us") for n in threads]),
        "torch CPU": ("#b5543c", [_gain(results, n, "cpu_us") for n in threads]),
        "threads": ("#999999", [n / threads[0] for n in threads]),
    }
    width, height, left = 480, 300, 40
    top = max(threads[-1] / threads[0], *curves["xpu"][1], 2.0)

    def place(n: int, gain: float) -> str:
        x = left + (width - left - 90) * (n - threads[0]) / max(threads[-1] - threads[0], 1)
        return f"{x:.1f},{height - 30 - (height - 50) * gain / top:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for n in threads:
        parts.append(
            f'<text x="{place(n, 0).split(",")[0]}" y="{height - 12}" text-anchor="middle" fill="#222222">{n}</text>'
        )
    for name, (colour, gains) in curves.items():
        points = [place(n, gain) for n, gain in zip(threads, gains, strict=True)]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = map(float, points[-1].split(","))
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(name)} {gains[-1]:.1f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _gain(results: dict[int, list[Row]], threads: int, side: str) -> float:
    first = next(iter(results.values()))
    pairs = zip(first, results[threads], strict=True)
    return geomean([getattr(a, side) / getattr(b, side) for a, b in pairs if a.xpu_us and b.xpu_us])
