"""The benchmark's numbers as Markdown and as a chart, from the rows of one run."""

from __future__ import annotations

import re
from collections import defaultdict
from html import escape
from pathlib import Path

from . import process
from .core import Row, geomean

BENCH = "bench"


def by_section(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows that were measured without an error, by section in their order."""
    out: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        if not r.error and r.xpu_us:
            out[r.section].append(r)
    return dict(out)


def markdown(rows: list[Row], machine: dict[str, float], device: str, verdicts: list[str]) -> str:
    """One line a section, the rows under 0.9, and the verdicts."""
    sections = by_section(rows)
    lines = [
        f"Device {device}, 2 threads each; triad {machine['triad_gbs']:.0f} GB/s, largest f32 product "
        f"{machine['gemm_gflops']:.0f} Gflop/s on torch CPU in the same run.",
        "",
        "| section | rows | geometric mean | lowest | highest |",
        "|---|---|---|---|---|",
    ]
    for name, members in sections.items():
        low, high = min(members, key=lambda r: r.ratio), max(members, key=lambda r: r.ratio)
        lines.append(
            f"| {name} | {len(members)} | {geomean([r.ratio for r in members]):.2f} | {low.ratio:.2f} {low.name} | "
            f"{high.ratio:.2f} {high.name} |"
        )
    scaling = {name: members for name, members in sections.items() if name.startswith("scaling")}
    if scaling:
        sizes = list(dict.fromkeys(r.name for members in scaling.values() for r in members))
        lines += [
            "",
            "Time against size, microseconds on xpu:",
            "",
            f"| | {' | '.join(sizes)} |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for name, members in scaling.items():
            times = {r.name: f"{r.xpu_us:.0f}" for r in members}
            lines.append(f"| {name.removeprefix('scaling ')} | {' | '.join(times.get(size, '') for size in sizes)} |")
    # First calls have a target of their own: what they are compared with has long begun.
    slow = sorted(
        (r for r in rows if not r.error and 0 < r.ratio < 0.9 and r.section != process.FIRST_USE), key=lambda r: r.ratio
    )
    lines += ["", f"Rows under 0.9 ({len(slow)} of {len(rows)}):", ""]
    lines += [
        f"- {r.section}: {r.name}: {r.ratio:.2f} ({r.cpu_us:.0f} {r.unit}, xpu {r.xpu_us:.0f} {r.unit})" for r in slow
    ]
    broken = [r for r in rows if r.error]
    if broken:
        lines += ["", "Rows without a figure:", "", *[f"- {r.section}: {r.name}: {r.error}" for r in broken]]
    return "\n".join([*lines, "", "```", *verdicts, "```", ""])


def chart(rows: list[Row]) -> str:
    """An SVG bar chart of the geometric mean ratio of every section; a line marks torch CPU."""
    sections = {name: geomean([r.ratio for r in members]) for name, members in by_section(rows).items()}
    widest = max([2.0, *sections.values()])
    width, left, bar = 640, 190, 20
    scale = (width - left - 60) / widest
    height = bar * len(sections) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, (name, value) in enumerate(sections.items()):
        y = i * bar + 10
        colour = "#2a7f62" if value >= 1 else "#b5543c"
        parts.append(f'<text x="{left - 6}" y="{y + 12}" text-anchor="end" fill="#222222">{escape(name)}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="{bar - 5}" fill="{colour}"/>')
        parts.append(f'<text x="{left + value * scale + 4:.1f}" y="{y + 12}" fill="#222222">{value:.2f}</text>')
    x = left + scale
    parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="4" y2="{height - 14}" stroke="#222222" stroke-dasharray="3 3"/>')
    parts.append(f'<text x="{x:.1f}" y="{height - 3}" text-anchor="middle" fill="#222222">torch CPU</text></svg>')
    return "\n".join(parts) + "\n"


def write(document: Path, text: str, svg: str, section: str = BENCH) -> None:
    """Replaces what stands between the section's markers of a Markdown file, and writes the chart beside it.

    Raises ValueError where the file has no markers.
    """
    marker = re.compile(rf"(<!-- {section} -->\n).*?(<!-- /{section} -->)", re.DOTALL)
    old = document.read_text()
    if not marker.search(old):
        raise ValueError(f"{document}: no <!-- {section} --> ... <!-- /{section} --> to fill")
    document.write_text(marker.sub(lambda m: m.group(1) + text + m.group(2), old))
    chart = document.with_suffix(".svg") if section == BENCH else document.with_name(f"{document.stem}_{section}.svg")
    chart.write_text(svg)
