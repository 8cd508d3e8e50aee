"""scatter, index_add and their kin against the CPU."""

from __future__ import annotations

import pytest
import torch
from aten_data import ADDED, MOVED, data, ids, same

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("here_or_launched")]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_shapes(dim: int) -> None:
    for x in (data(6, 7, 8), data(8, 7, 6).permute(2, 1, 0)):
        i, s = ids(6, 5, 6, 7), data(6, 6, 8, seed=4)
        same(lambda x, i, s: x.scatter(dim, i, s), x, i, s)
        same(lambda x, i: x.scatter_(dim, i, 3.5), x, i)
        same(lambda x, i, s: x.scatter_add_(dim, i, s), x, i, s)
        same(lambda x, i, s: x.scatter(dim, i, s, reduce="add"), x, i, s)
        same(lambda x, i: x.scatter(dim, i, 2.0, reduce="multiply"), x, i)
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for include_self in (True, False):
                same(lambda x, i, s: x.scatter_reduce(dim, i, s, reduce, include_self=include_self), x, i, s)


def test_rows_of_equal_indices() -> None:
    """Neighbours of one row meet in few places: the last one stays, and sums have the order of the indices."""
    for steps in (16, 37):
        x, i, s = data(1100, 5), ids(5, 1100, steps), data(1100, steps, seed=2)
        same(lambda x, i, s: x.scatter(1, i, s), x, i, s)
        for reduce in ("sum", "prod", "amax", "amin"):
            same(lambda x, i, s: x.scatter_reduce(1, i, s, reduce), x, i, s)
        same(lambda x, i, s: x.scatter_add(1, i, s), x.round().bfloat16(), i, s.round().bfloat16())
        same(lambda x, i, s: x.scatter_add(1, i, s), x > 0, i, s > 0)
    with pytest.raises(RuntimeError, match="out of bounds"):
        bad = ids(5, 1100, 37)
        bad[70, 20] = 5
        data(1100, 5).to("xpu").scatter_(1, bad.to("xpu"), data(1100, 37).to("xpu"))
        torch.xpu.synchronize()


@pytest.mark.parametrize("dtype", [t for t in MOVED if t not in (torch.uint16, torch.float8_e4m3fn)])
def test_scatter_dtypes(dtype: torch.dtype) -> None:
    same(lambda x, i, s: x.scatter(1, i, s), data(5, 20, dtype=dtype), ids(20, 5, 30), data(5, 30, dtype=dtype))
    same(lambda x, i, s: x.scatter(0, i, s), data(40, 20, dtype=dtype), ids(40, 60, 20), data(60, 20, dtype=dtype))


@pytest.mark.parametrize("dtype", ADDED)
def test_add_dtypes(dtype: torch.dtype) -> None:
    same(lambda x, i, s: x.scatter_add(0, i, s), data(40, 20, dtype=dtype), ids(40, 60, 20), data(60, 20, dtype=dtype))
    same(lambda x, i, s: x.index_add(0, i, s), data(40, 20, dtype=dtype), ids(40, 60), data(60, 20, dtype=dtype))
    same(lambda x, i, s: x.index_copy(0, i, s), data(40, 20, dtype=dtype), ids(40, 60), data(60, 20, dtype=dtype))
    same(lambda x, i: x.index_fill(0, i, 1), data(40, 20, dtype=dtype), ids(40, 60, low=-40))


def test_zero_dim_and_empty() -> None:
    zero = torch.tensor(0)
    same(lambda x, i, s: x.scatter(0, i, s), data(), zero, data(seed=2))
    same(lambda x, i, s: x.scatter_add(0, i, s), data(), zero, data(seed=2))
    same(lambda x, i, s: x.index_add(0, i, s), data(), zero, data(seed=2))
    same(lambda x, i, s: x.index_add(0, i, s, alpha=2.5), data(5), zero, data(1, seed=2))
    same(lambda x, i, s: x.index_copy(0, i, s), data(5), zero, data(seed=2))
    same(lambda x, i: x.index_fill(0, i, 2.0), data(), zero)
    none = torch.empty(0, dtype=torch.long)
    same(lambda x, i, s: x.scatter_add(0, i, s), data(5), none, data(5))
    same(lambda x, i, s: x.index_add(0, i, s), data(5, 3), none, data(0, 3))


def test_index_reduce() -> None:
    for dim in (0, 1):
        for reduce in ("prod", "mean", "amax", "amin"):
            for include_self in (True, False):
                size = (9, 6) if dim == 0 else (5, 9)
                same(
                    lambda x, i, s: x.index_reduce(dim, i, s, reduce, include_self=include_self),
                    data(5, 6), ids(5, 9), data(*size, seed=3),
                )  # fmt: skip


def test_nan_wins() -> None:
    s = torch.tensor([1.0, float("nan"), 2.0, 3.0])
    for reduce in ("amax", "amin"):
        same(lambda x, i, s: x.scatter_reduce(0, i, s, reduce), torch.zeros(2), torch.tensor([0, 0, 0, 1]), s)


@pytest.mark.parametrize("n", [0, 1, 5000, 100_000])
def test_bincount(n: int) -> None:
    for dtype in (torch.uint8, torch.int32, torch.int64):
        same(lambda x: x.bincount(minlength=7), ids(100, n).to(dtype))
    same(lambda x: x.bincount(minlength=70_000), ids(60_000, n))  # more bins than a work-group counts in local memory
    same(lambda x, w: x.bincount(w), ids(100, n), data(n))
    same(lambda x, w: x.bincount(w), ids(100, n), data(n).half().double())


def test_bincount_of_other_types() -> None:
    for device in ("cpu", "xpu"):
        for dtype in (torch.float32, torch.bool):
            with pytest.raises(NotImplementedError, match="not implemented"):
                torch.ones(3, device=device).to(dtype).bincount()


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(reduce: str) -> None:
    lengths = torch.tensor([3, 0, 4, 1])
    for initial in (None, 1.5):
        same(lambda x, n: torch.segment_reduce(x, reduce, lengths=n, initial=initial), data(8, 5), lengths)
    offsets = torch.tensor([0, 3, 3, 7, 8])
    same(lambda x, o: torch.segment_reduce(x, reduce, offsets=o, initial=0.5), data(8, 5, 3), offsets)

    def backward(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        x.requires_grad_()
        (
            torch.segment_reduce(x, reduce, lengths=n, initial=1.0) * torch.arange(1.0, 6.0, device=x.device)
        ).sum().backward()
        return x.grad

    same(lambda x, n: backward(x.clone(), n), data(8, 5), lengths)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_deterministic(dtype: torch.dtype) -> None:
    x, i2 = data(50, 30, dtype=dtype).to("xpu"), ids(50, 3000, 30).to("xpu")
    i1, s = ids(50, 3000).to("xpu"), data(3000, 30, dtype=dtype).to("xpu")
    line, where = data(3000 * 30, dtype=dtype).to("xpu"), ids(50, 3000 * 30).to("xpu")
    wide, across = data(30, 3000, dtype=dtype).to("xpu"), ids(50, 30, 3000).to("xpu")
    for fn in (
        lambda: x.scatter(0, i2, s),
        lambda: x.scatter_add(0, i2, s),
        lambda: x[0].new_zeros(30, 50).scatter_add(1, across, wide),
        lambda: x[0].new_zeros(30, 50).scatter(1, across, wide),
        lambda: x.index_add(0, i1, s),
        lambda: x[:, 0].clone().scatter_add(0, where, line),
        lambda: x.index_copy(0, i1, s),
        lambda: x.scatter_reduce(0, i2, s, "prod"),
    ):
        first = fn().cpu()
        assert all(torch.equal(first, fn().cpu()) for _ in range(20))


@pytest.mark.parametrize("places", [3, 700, 4096, 9000])
def test_long_rows_that_a_team_shares(places: int) -> None:
    """Equal indices take turns in their order: the bits of a loop. The longest row does not fit local memory."""
    rows = 1100  # that fill a GPU of 132 units
    for steps in (256, 1100):
        x, i, s = data(rows, places), ids(places, rows, steps), data(rows, steps, seed=2)
        i[3], i[4, 100:] = 1, 2
        there = [t.to("xpu") for t in (x, i, s)]
        for reduce in ("sum", "prod", "amax"):
            f = lambda x, i, s, reduce=reduce: x.scatter_reduce(1, i, s, reduce)  # noqa: E731
            assert torch.equal(f(*there).cpu(), f(x, i, s)), reduce
        assert torch.equal(there[0].scatter(1, *there[1:]).cpu(), x.scatter(1, i, s))
        turned = x.t().contiguous().t()
        assert torch.equal(turned.to("xpu").scatter_add(1, *there[1:]).cpu(), turned.scatter_add(1, i, s))
        for dtype in (torch.bool, torch.uint8, torch.float64, torch.complex128)[: 4 if places <= 700 else 0]:
            same(lambda x, i, s: x.scatter_add(1, i, s), (x * 9).to(dtype), i, (s * 9).to(dtype))
    with pytest.raises(RuntimeError, match="out of bounds"):
        bad = i.clone()
        bad[rows - 1, 1099] = places
        there[0].scatter_add(1, bad.to("xpu"), there[2]).cpu()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex128])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_the_last_of_equal_indices_stays(columns: int, dtype: torch.dtype) -> None:
    """A GPU marks the last index of each place. The threads of torch's CPU do not agree on it."""
    x, s = data(3000, columns, dtype=dtype), data(5003, columns, dtype=dtype, seed=2)
    for index in (ids(3000, 5003), torch.full((5003,), 7), torch.arange(5003) % 3000):
        last = torch.full((3000,), -1).scatter_reduce(0, index, torch.arange(5003), "amax")
        expected = torch.where((last < 0)[:, None], x, s[last.clamp_min(0)])
        where = index.to("xpu")
        assert torch.equal(x.to("xpu").index_copy(0, where, s.to("xpu")).cpu(), expected)
        turned = x.t().contiguous().to("xpu").index_copy(1, where, s.t().contiguous().to("xpu"))
        assert torch.equal(turned.cpu().t(), expected)


@pytest.mark.parametrize("columns", [1, 17, 300, 1030])
def test_many_rows_meet_in_few_places(columns: int) -> None:
    """A GPU sorts the indices first. The sums are those of a loop over them, bit for bit."""
    index = ids(300, 5000)
    index[1000:1200] = 7
    x, s = data(300, columns), data(5000, columns, seed=3)
    assert torch.equal(x.to("xpu").index_add(0, index.to("xpu"), s.to("xpu")).cpu(), x.index_add(0, index, s))
    for skipped in (-1, 7):
        backward = torch.ops.aten.embedding_dense_backward
        torch.testing.assert_close(
            backward(s.to("xpu"), index.to("xpu"), 300, skipped, False).cpu(), backward(s, index, 300, skipped, False)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_one_column_of_many_places(dtype: torch.dtype) -> None:
    """Shared by several items, each of which takes its range of the places."""
    n, places = 200_000, 300_000
    x, s = data(places, dtype=dtype), data(n, dtype=dtype, seed=3)
    index, few = ids(places, n), ids(places - 5, n, low=places - 9)
    # Thousands of additions to one place, each rounded to 16 bits, are not what torch's CPU adds in float32.
    for i in (index, few)[: 1 if dtype == torch.bfloat16 else 2]:
        same(lambda x, i, s: x.scatter(0, i, s), x, i, s)
        if dtype != torch.bool:
            same(lambda x, i, s: x.index_put((i - places,), s, accumulate=True), x, i, s)
            same(lambda x, i, s: x.scatter_add(0, i, s), x, i, s)
            same(lambda x, i, s: x.scatter_reduce(0, i, s, "amax", include_self=False), x, i, s)
    # As a slice with steps, of 8-byte types too, and in the order of one thread.
    wide = torch.randn(2 * places, dtype=torch.float64)
    long = torch.randn(2 * n, dtype=torch.float64)
    same(lambda x, i, s: x[::2].scatter_add(0, i, s[::2]), wide, index, long)
    same(lambda x, i, s: x.index_copy(0, i, s), x, torch.randperm(places)[:n], s)
    bad = index.clone()
    bad[[5, 199_999]] = places
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.to("xpu").scatter(0, bad.to("xpu"), s.to("xpu")).cpu()


@pytest.mark.parametrize("width", [1, 5, 64, 200])
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize("n", [5000, 9000])
def test_slices_that_threads_share(n: int, width: int, skewed: bool) -> None:
    """Many indices of few slices: each thread adds those of its places, in the order of the indices."""
    torch.manual_seed(0)
    index = torch.randint(-50, 50, (n,)) if not skewed else torch.full((n,), 7)
    base, source = torch.randn(50, width), torch.randn(n, width)
    want = base.clone().index_put_((index,), source, accumulate=True)
    got = base.to("xpu").index_put_((index.to("xpu"),), source.to("xpu"), accumulate=True)
    torch.testing.assert_close(got.cpu(), want, atol=1e-3, rtol=1e-4)
    added = base.to("xpu").index_add_(0, (index % 50).to("xpu"), source.to("xpu"))
    assert torch.equal(added.cpu(), base.clone().index_add_(0, index % 50, source))
    left = base.to("xpu").requires_grad_()
    torch.nn.functional.embedding((index % 50).to("xpu"), left, padding_idx=7).backward(source.to("xpu"))
    wanted = base.clone().requires_grad_()
    torch.nn.functional.embedding(index % 50, wanted, padding_idx=7).backward(source)
    torch.testing.assert_close(left.grad.cpu(), wanted.grad, atol=1e-3, rtol=1e-4)


def test_a_call_fails_once() -> None:
    """A type without an upstream kernel is refused before a kernel reports an index, which the next call would raise."""
    x = torch.ones(3, dtype=torch.bool, device="xpu")
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        x.scatter_reduce(0, torch.tensor([99], device="xpu"), x[:1], "mean")
    torch.xpu.synchronize()


def test_mean_of_complex_numbers() -> None:
    x, index = torch.full((4,), 1 + 2j), torch.tensor([0, 0, 1])
    source = torch.tensor([1j, 3.0, 2 - 2j])
    for include_self in (True, False):
        # The CPU has no kernel: a mean is that of each part.
        real, imag = (
            a.index_reduce(0, index, b, "mean", include_self=include_self)
            for a, b in ((x.real, source.real), (x.imag, source.imag))
        )
        got = x.to("xpu").index_reduce(0, index.to("xpu"), source.to("xpu"), "mean", include_self=include_self)
        torch.testing.assert_close(got.cpu(), torch.complex(real, imag))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_many_terms_of_16_bits_are_rounded_once(dtype: torch.dtype) -> None:
    x, index, source = data(7, dtype=dtype), ids(7, 4000), data(4000, dtype=dtype, seed=3).abs()
    want = x.float().scatter_add(0, index, source.float()).to(dtype)
    here, there, values = x.to("xpu"), index.to("xpu"), source.to("xpu")
    for got in (
        here.scatter_add(0, there, values),
        here.index_add(0, there, values),
        here.index_put((there,), values, accumulate=True),
        here.clone().put_(there, values, accumulate=True),
    ):
        torch.testing.assert_close(got.cpu(), want, rtol=torch.finfo(dtype).eps, atol=0)
    table = torch.ops.aten.embedding_dense_backward(values[:, None], there, 7, -1, False)[:, 0]
    want = torch.zeros(7).scatter_add(0, index, source.float()).to(dtype)
    torch.testing.assert_close(table.cpu(), want, rtol=torch.finfo(dtype).eps, atol=0)
