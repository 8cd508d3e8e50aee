"""searchsorted, bucketize, isin and histograms against the CPU."""

from __future__ import annotations

import pytest
import torch
from aten_data import data, ids, same

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype: torch.dtype, right: bool) -> None:
    line = data(50, dtype=dtype).sort().values
    rows = data(4, 50, dtype=dtype).sort().values
    same(lambda b, v: torch.searchsorted(b, v, right=right), line, data(6, 7, dtype=dtype, seed=2))
    same(lambda b, v: torch.searchsorted(b, v, right=right, out_int32=True), rows, data(4, 9, dtype=dtype, seed=2))
    same(lambda b, v: torch.bucketize(v, b, right=right), line, data(6, 7, dtype=dtype, seed=2))
    same(lambda b, v: torch.searchsorted(b, 1.5, side="right" if right else "left"), line, line)


def test_searchsorted_more() -> None:
    x = data(4, 50)
    order = x.argsort()
    same(lambda b, v, s: torch.searchsorted(b, v, sorter=s), x, data(4, 9, seed=2), order)
    same(lambda b, v: torch.searchsorted(b, v), data(50, 4).sort(0).values.t(), data(9, 4, seed=2).t())
    nan = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    same(lambda b, v: torch.searchsorted(b, v), torch.tensor([-1.0, 0.0, 1.0, float("inf"), float("nan")]), nan)
    same(lambda b, v: torch.searchsorted(b, v), torch.arange(5), data(7))
    same(lambda b, v: torch.searchsorted(b, v), torch.empty(0), data(7))
    same(lambda b, v: torch.searchsorted(b, v), data(5).sort().values, torch.empty(0, 3))
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError):
            torch.searchsorted(data(3, 4).to(device), data(2, 4).to(device))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.float32, torch.float64])
def test_isin(dtype: torch.dtype) -> None:
    for tests in (0, 3, 200):
        for invert in (False, True):
            same(
                lambda e, t: torch.isin(e, t, invert=invert),
                data(30, 7, dtype=dtype),
                data(tests, dtype=dtype, seed=2),
            )
    same(lambda e, t: torch.isin(e, 3), data(30, dtype=dtype), data(1))
    same(lambda e, t: torch.isin(3, t), data(1), data(30, dtype=dtype))
    nan = torch.tensor([float("nan"), 1.0])
    same(lambda e, t: torch.isin(e, t), nan, torch.cat([nan, data(60)]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc(dtype: torch.dtype) -> None:
    for n in (0, 1, 20_000):
        same(lambda x: torch.histc(x, 13, -1, 2), data(n, dtype=dtype))
        same(lambda x: torch.histc(x, 13), data(n, dtype=dtype))
    same(lambda x: torch.histc(x[::3], 5000, -1, 2), data(70_000, dtype=dtype))
    same(lambda x: torch.histc(x, 4), torch.full((5,), 2.0, dtype=dtype))
    same(lambda x: torch.histc(x, 4, 0, 2), torch.tensor([0.0, 2.0, 1.0, float("nan"), 5.0], dtype=dtype))
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="is not finite"):
            torch.histc(torch.tensor([float("nan")], device=device))
        with pytest.raises(RuntimeError):
            torch.histc(data(4).to(device), 3, 2, 1)


@pytest.mark.parametrize("density", [False, True])
def test_histogram(density: bool) -> None:
    edges = torch.tensor([-2.0, -1.0, 0.0, 0.5, 3.0])
    same(lambda x, e: torch.histogram(x, e, density=density), data(500, 3), edges)
    same(lambda x: torch.histogram(x, 9, density=density), data(500, 3))
    same(lambda x: torch.histogram(x, 9, range=(-1.0, 1.0), density=density), data(500))
    same(lambda x, w: torch.histogram(x, 9, weight=w, density=density), data(500), data(500, seed=2).abs())
    same(lambda x: torch.histogramdd(x, [3, 4], density=density), data(500, 2))
    same(lambda x: torch.histogramdd(x, [3, 4], range=[-1.0, 1.0, -2.0, 2.0], density=density), data(500, 2))
    same(
        lambda x, e, w: torch.histogramdd(x, [e, e], weight=w, density=density),
        data(500, 2),
        edges,
        data(500, seed=2).abs(),
    )


@pytest.mark.parametrize("device", ["cpu", "xpu"])
def test_histogram_out_of_another_type(device: str) -> None:
    hist, edges = torch.empty(0, device=device), torch.empty(0, dtype=torch.int32, device=device)
    with pytest.raises(RuntimeError, match="input tensor and bin_edges tensor should have the same dtype"):
        torch.histogram(torch.rand(3, device=device), 4, out=(hist, edges))


def test_counts_of_ids() -> None:
    same(lambda x: torch.bincount(x), ids(9, 1000))


@pytest.mark.parametrize("bins", [1, 7, 100_000])
@pytest.mark.parametrize("n", [15, 16, 17, 4099])
def test_histc_counts_sixteen_at_a_time(n: int, bins: int) -> None:
    """The bins of vectors of sixteen and of the rest; values on the edges, outside, infinite and NaN."""
    x = torch.rand(n, generator=torch.Generator().manual_seed(n)) * 4 - 1
    x[:8] = torch.tensor([0.0, 2.0, float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1.0])
    for values in (x, torch.stack([x, x], 1)[:, 0]):
        assert torch.equal(values.xpu().histc(bins, 0, 2).cpu(), values.histc(bins, 0, 2))
