"""Targets of the benchmark: met, missed, or too noisy to tell; a filter without rows is an error."""

from __future__ import annotations

import pytest
import torch
import typer

from xpu_ops.bench import __main__ as command
from xpu_ops.bench import cases, core, process, report
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


def test_a_filter_without_rows_exits_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cases, "cases", lambda level: iter([core.Case("host", "add", torch.add, ())]))
    monkeypatch.setattr(command, "limits", dict)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    with pytest.raises(typer.Exit) as exit:
        command.main(filter="no such row")
    assert exit.value.exit_code == 1
    assert "no row's section or name contains 'no such row'" in capsys.readouterr().out


def test_every_row_prints_its_unit() -> None:
    rows = [row(0.5, 0.1), Row("process", "resident memory", 278.0, 346.0, 0.0, unit="MiB")]
    text = report.markdown(rows, {"triad_gbs": 1.0, "gemm_gflops": 1.0}, "device", [])
    assert "resident memory: 0.80 (278 MiB, xpu 346 MiB)" in text
    assert "case: 0.50 (50 us, xpu 100 us)" in text


def test_rows_of_processes_that_are_no_times_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_run", lambda *_, **__: {"seconds": 1.0, "linked": 0, "kib": 2048, "mib": 3.0})
    rows = process.rows(lambda section, name: section == "process")
    units = {r.name: (r.unit, r.xpu_us) for r in rows}
    assert units == {
        process.FIRST: ("us", 1e6),
        process.LINKED: ("modules", 0),
        process.MEMORY: ("MiB", 2.0),
        process.TWENTY: ("MiB", 3.0),
    }
