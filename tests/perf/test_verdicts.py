"""Targets of the benchmark: met, missed, or too noisy to tell; a filter without rows is an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from xpu_ops.bench.core import Row
from xpu_ops.bench.verdicts import verdicts


def row(ratio: float, spread: float, section: str = "sparse") -> Row:
    return Row(section, "case", 100.0 * ratio, 100.0, spread)


@pytest.mark.parametrize(
    ("ratio", "spread", "outcome"), [(1.5, 0.1, "met"), (0.5, 0.1, "missed"), (1.5, 0.7, "noisy"), (0.85, 0.2, "noisy")]
)
def test_verdict_of_a_section(ratio: float, spread: float, outcome: str) -> None:
    lines = verdicts([row(ratio, spread)], 10.0, 100.0)
    assert [line.split()[0] for line in lines if line.endswith("against 0.90")] == [outcome]
    assert all("sparse" in line for line in lines)


def test_the_mean_of_many_rows_is_less_noisy_than_each() -> None:
    lines = verdicts([row(1.5, 0.9)] * 100, 10.0, 100.0)
    assert [line.split()[0] for line in lines] == ["met", "noisy"]


def test_no_module_compiled_is_met() -> None:
    compiled = Row("process", "modules compiled at the first call", 0.0, 0.0, 0.0)
    assert [line.split()[0] for line in verdicts([compiled], 10.0, 100.0)] == ["met"]


def test_growth_names_the_worse_pair() -> None:
    rows = [Row("scaling add", n, 1.0, us, 0.0) for n, us in (("1e+07", 100.0), ("1e+08", 2000.0))]
    assert next(line for line in verdicts(rows, 10.0, 100.0) if "1e8" in line).startswith("missed")


def test_growth_of_what_a_cache_holds_counts_against_the_triad() -> None:
    rows = [Row("scaling add", n, 1.0, us, 0.0, 8 * int(float(n))) for n, us in (("1e+07", 100.0), ("1e+08", 2000.0))]
    found = {triad: next(line for line in verdicts(rows, triad, 1.0) if "1e8" in line) for triad in (400.0, 4000.0)}
    assert found[400.0].startswith("met")
    assert found[4000.0].startswith("missed")


def test_a_filter_without_rows_exits_with_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xpu_ops.bench", "--filter", "no such row"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert "no row's section or name contains 'no such row'" in done.stdout
