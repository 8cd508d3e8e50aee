"""The benchmark's rows of many cores: numbers of threads, a process for each, table and picture."""

from __future__ import annotations

import os
import xml.etree.ElementTree as xml

import pytest

from xpu_ops.bench import threads
from xpu_ops.bench.core import Row


def test_numbers_of_threads() -> None:
    assert threads.counts("1") == [1]
    most = len(os.sched_getaffinity(0))
    for wrong in ("0", f"1,{most + 1}", "two", ""):
        with pytest.raises(ValueError):
            threads.counts(wrong)


def test_a_process_per_number_of_threads() -> None:
    results = threads.measured([1], "add 1e+03")
    (row,) = results[1]
    assert row.name == "add 1e+03" and not row.error
    assert row.xpu_us > 0 and row.cpu_us > 0
    assert threads.measured([1], "no such row") == {1: []}


def test_rows_have_names_of_their_own() -> None:
    names = [case.name for case in threads.cases()]
    assert len(set(names)) == len(names) >= 28


def rows(*times: tuple[float, float]) -> list[Row]:
    return [Row(threads.SECTION, f"row {i}", cpu, xpu, 0.0) for i, (cpu, xpu) in enumerate(times)]


def test_table_and_picture() -> None:
    results = {1: rows((100, 80), (100, 20)), 4: rows((50, 10), (50, 10))}
    text = threads.markdown(results, "a device")
    assert "| row 0 | 80 | 10 | 8.0 | 2.0 | 5.00 |" in text
    assert "| geometric mean | | | 4.0 | 2.0 | 5.00 |" in text
    picture = xml.fromstring(threads.chart(results))
    labels = [t.text for t in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert labels == ["1", "4", "xpu 4.0", "torch CPU 2.0", "threads 4.0"]


def test_rows_without_a_figure_say_why() -> None:
    broken = Row(threads.SECTION, "row 1", 0.0, 0.0, 0.0, error="differs")
    text = threads.markdown({1: [*rows((1, 1)), broken], 2: [*rows((1, 1)), broken]}, "a device")
    assert "| row 1 | differs |" in text
