"""Sorting, top-k, order statistics and unique against torch's CPU kernels."""

from __future__ import annotations

import pytest
import torch

INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(), (0,), (3, 0), (1,), (7, 5), (3, 40), (2, 300), (2, 5000), (300000,)]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random values with ties; floats with NaN, infinities and both zeros."""
    x = torch.randn(shape) * 50
    if dtype == torch.bool:
        return x > 0
    if not dtype.is_floating_point:
        big = 2**40 if dtype == torch.int64 else 1
        return (x.abs() if dtype == torch.uint8 else x).to(dtype) * big
    x = x.round()
    flat = x.view(-1)
    if flat.numel() > 4:
        flat[::7], flat[::5], flat[::10], flat[1], flat[3] = float("nan"), 0.0, -0.0, float("inf"), -float("inf")
    return x.to(dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """So that -0 and 0 differ and NaN equals itself."""
    return x.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, torch.bool], ids=str)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_exact(dtype, descending) -> None:
    for shape in SHAPES:
        x = values(shape, dtype)
        for dim in range(-1, max(x.dim() - 1, 0)):
            v, i = torch.sort(x, dim=dim, descending=descending, stable=True)
            gv, gi = torch.sort(x.to("xpu"), dim=dim, descending=descending, stable=True)
            assert gv.stride() == v.stride()
            assert torch.equal(gi.cpu(), i), (shape, dim)
            if shape:
                assert torch.equal(bits(gv.cpu()), bits(v)), (shape, dim)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.float32, torch.float64, torch.float16])
def test_one_row_in_several_chunks(dtype) -> None:
    """Such rows leave out the digits that their keys do not reach, and read integers off the keys."""
    rows = [values((2**20 + 77,), dtype), torch.full((2**20 + 77,), 3, dtype=dtype)]
    if dtype == torch.int64:
        rows += [
            torch.randint(-(2**63), 2**63 - 1, (2**20 + 77,)),
            torch.randint(2**40 - 9, 2**40 + 2999, (2**20 + 77,)),
        ]
    for x in rows:
        for descending in (False, True):
            v, i = x.sort(descending=descending, stable=True)
            gv, gi = x.to("xpu").sort(descending=descending, stable=True)
            assert torch.equal(gi.cpu(), i)
            assert torch.equal(bits(gv.cpu()), bits(v))


def test_sort_of_views_and_out() -> None:
    x = torch.randn(6, 5, 4).transpose(0, 2)
    v, i = x.sort(1)
    gx = x.to("xpu")
    gv, gi = gx.sort(1)
    assert torch.equal(gv.cpu(), v)
    assert torch.equal(gi.cpu(), i)
    out = (torch.empty(5, 4, 6, device="xpu").transpose(0, 1), torch.empty(4, 5, 6, dtype=torch.long, device="xpu"))
    torch.sort(gx, 1, out=out)
    assert torch.equal(out[0].cpu(), v)
    assert torch.equal(x.argsort(dim=0, stable=True), gx.argsort(dim=0, stable=True).cpu())
    assert torch.equal(torch.msort(x), torch.msort(gx).cpu())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, *FLOATS], ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype, largest) -> None:
    cases = [((5,), 2), ((), 1), ((3, 4000), 50), ((2, 20000), 200), ((2, 3000), 300), ((3, 4, 5), 0), ((2, 0), 0)]
    # Around the limits between rows that are sorted and rows of which a bound is read off 64 or 256 maxima.
    cases += [
        ((9, 65), 1),
        ((9, 66), 11),
        ((9, 65), 11),
        ((3, 360), 60),
        ((2, 4096), 61),
        ((2, 4100), 240),
        ((2, 5000), 241),
        ((2, 32767), 1000),
        ((2, 40001), 2500),
    ]
    # A row in parts, whose results are merged; most of a row is equal to the last that is taken.
    cases += [((70001,), 5), ((131079,), 60), ((1, 65536), 1), ((65537,), 100), ((2, 400000), 240)]
    for shape, k in cases:
        given = values(shape, dtype)
        # As it is, all equal, and in the order that leaves the maxima of neighbours furthest from what is looked for.
        for x in (given, torch.ones(shape, dtype=dtype), given.sort(-1, descending=largest)[0] if shape else given):
            v, i = torch.topk(x.to("xpu"), k, largest=largest)
            expected, order = torch.sort(x, stable=True, descending=largest)
            if shape:
                expected, order = expected[..., :k], order[..., :k]
            torch.testing.assert_close(v.cpu(), expected, equal_nan=True, rtol=0, atol=0)
            assert torch.equal(i.cpu(), order)
    x = torch.randn(6, 2000)
    v, _ = torch.topk(x.to("xpu"), 3, dim=0)
    torch.testing.assert_close(v.cpu(), torch.topk(x, 3, dim=0)[0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float16], ids=str)
def test_order_statistics(dtype) -> None:
    for shape in [(), (1,), (9,), (4, 10), (3, 500), (2, 3, 4)]:
        x = values(shape, dtype) if shape != (9,) else values((9,), torch.float32).nan_to_num(3).to(dtype)
        g = x.to("xpu")
        for name in ("median", "nanmedian"):
            torch.testing.assert_close(getattr(g, name)().cpu(), getattr(x, name)(), equal_nan=True)
        for dim in range(-1, max(x.dim() - 1, 0)):
            for name in ("median", "nanmedian"):
                v, i = getattr(g, name)(dim)
                torch.testing.assert_close(v.cpu(), getattr(x, name)(dim)[0], equal_nan=True)
                picked = x.gather(dim, i.cpu().unsqueeze(dim)).squeeze(dim) if shape else x
                torch.testing.assert_close(picked, v.cpu(), equal_nan=True)
            v, _ = g.kthvalue(1, dim, keepdim=True)
            torch.testing.assert_close(v.cpu(), x.kthvalue(1, dim, keepdim=True)[0], equal_nan=True)
    x = torch.randint(0, 4, (5, 30))
    v, i = x.to("xpu").mode(1)
    assert torch.equal(v.cpu(), x.mode(1)[0])
    assert torch.equal(x.gather(1, i.cpu()[:, None])[:, 0], v.cpu())


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.float32, torch.bfloat16], ids=str)
def test_unique(dtype) -> None:
    for shape in [(), (0,), (1,), (40,), (6, 7), (3000,), (50_001,)]:
        x = values(shape, dtype) if dtype != torch.int64 else torch.randint(-5, 5, shape)
        if x.is_floating_point():
            x = x.nan_to_num(2.0).abs()
        for f in (torch.unique, torch.unique_consecutive):
            for got, want in zip(
                f(x.to("xpu"), return_inverse=True, return_counts=True),
                f(x, return_inverse=True, return_counts=True),
                strict=True,
            ):
                assert torch.equal(got.cpu(), want), (f, shape)
            assert torch.equal(f(x.to("xpu")).cpu(), f(x))
    x = torch.randint(0, 2, (50, 4, 2)).to(dtype)
    for dim in range(3):
        for f in (torch.unique, torch.unique_consecutive):
            got = f(x.to("xpu"), dim=dim, return_inverse=True, return_counts=True)
            want = f(x, dim=dim, return_inverse=True, return_counts=True)
            assert all(torch.equal(a.cpu(), b) for a, b in zip(got, want, strict=True)), (f, dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64, torch.int16])
@pytest.mark.parametrize("length", [1, 7, 100, 30_000, 10**6])
def test_runs_of_any_length(dtype, length) -> None:
    """Long ones are noted when they are counted, as far as there is room; their ends fall into and between blocks."""
    n = 300_003
    x = (torch.arange(n) // length % 3000).to(dtype)
    x[n // 2] = -1
    if dtype.is_floating_point:
        x[64:128] = -x[64:128]
        x[200:203] = float("nan")
    for part in (x, x[1:], x[:64], x[:1000]):
        got = torch.unique_consecutive(part.to("xpu"), return_inverse=True, return_counts=True)
        want = torch.unique_consecutive(part, return_inverse=True, return_counts=True)
        assert torch.equal(got[0].cpu().nan_to_num(7.5), want[0].nan_to_num(7.5))
        assert torch.equal(got[1].cpu(), want[1])
        assert torch.equal(got[2].cpu(), want[2])


def test_errors_are_those_of_the_cpu() -> None:
    for f in (
        lambda d: torch.kthvalue(torch.ones(2, 3, device=d), 7, 0),
        lambda d: torch.median(torch.ones(0, 3, device=d), 0),
        lambda d: torch.mode(torch.ones(0, 3, device=d), 0),
        lambda d: torch.mode(
            torch.ones(3, 3, device=d), out=(torch.ones(3, device=d).int(), torch.arange(3, device=d))
        ),
        lambda d: torch.mode(torch.ones(3, 3, device=d), out=(torch.ones(3, device=d), torch.ones(3, device=d))),
        lambda d: torch.topk(torch.ones(3, device=d), 4),
        lambda d: torch.unique(torch.ones(0, 3, device=d), dim=1),
        lambda d: torch.ones(3, dtype=torch.bool, device=d).kthvalue(1),
    ):
        with pytest.raises(Exception) as expected:
            f("cpu")
        with pytest.raises(type(expected.value)) as got:
            f("xpu")
        assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int8], ids=str)
@pytest.mark.parametrize("length", [1, 7, 32, 33, 300, 2047])
def test_one_value_of_short_rows(length: int, dtype: torch.dtype) -> None:
    """Of equal elements the place is that of a stable sort; wide and narrow spreads, zeros of both signs, NaN, infinity."""
    gen = torch.Generator().manual_seed(length)
    x = torch.randn(6, length, generator=gen) * torch.tensor([1.0, 1e4, 3.0, 0.01, 30.0, 1e30])[:, None]
    x = x.clamp(-120, 120).to(dtype) if not dtype.is_floating_point else x.to(dtype)
    x[2] = x[2].round() if dtype.is_floating_point else x[2]
    if dtype.is_floating_point:
        x[4, ::3], x[4, 1::3], x[5, ::5] = 0.0, -0.0, float("inf")
    for k in {1, (length + 1) // 2, (length + 9) // 10, length}:
        values, indices = x.to("xpu").kthvalue(k)
        expected, order = x.sort(dim=-1, stable=True)
        assert torch.equal(values.cpu(), expected[:, k - 1])
        assert torch.equal(indices.cpu(), order[:, k - 1])
    if dtype.is_floating_point:
        x[1, 3::4], x[3] = float("nan"), float("nan")
    for name in ("median", "nanmedian"):
        values, indices = getattr(x.to("xpu"), name)(1)
        torch.testing.assert_close(values.cpu(), getattr(x, name)(1).values, equal_nan=True, rtol=0, atol=0)
        picked = x.gather(1, indices.cpu()[:, None])[:, 0]
        torch.testing.assert_close(picked, values.cpu(), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("length", [2048, 5000, 40000])
def test_one_value_of_long_rows(length: int, dtype: torch.dtype) -> None:
    """kthvalue and medians of rows that are not sorted: digits of the value are found one after the other."""
    gen = torch.Generator().manual_seed(length)
    x = (torch.randn(3, length, generator=gen) * 100).to(dtype)
    for k in (1, length // 3, length):
        values, indices = x.to("xpu").kthvalue(k)
        assert torch.equal(values.cpu(), x.kthvalue(k).values)
        assert torch.equal(x.gather(1, indices.cpu()[:, None])[:, 0], values.cpu())
    for name in ("median", "nanmedian"):
        if name == "nanmedian" and dtype.is_floating_point:
            x[1, ::7] = float("nan")
        values, indices = getattr(x.to("xpu"), name)(1)
        assert torch.equal(values.cpu(), getattr(x, name)(1).values)
        assert torch.equal(x.gather(1, indices.cpu()[:, None])[:, 0], values.cpu())
