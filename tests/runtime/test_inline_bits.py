"""Inline work has the bits of the kernel that would have been launched, on the calling thread and behind other kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch.nn.functional import nll_loss

import xpu_ops
from xpu_ops import _C

pytestmark = [
    pytest.mark.skipif(not _C.host_accessible(0), reason="nothing runs inline where the host has no device memory"),
    pytest.mark.usefixtures("own_stream"),
]
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


class Busy:
    """While `on`, whoever makes operands leaves kernels behind on the stream."""

    on = False


def same_bits(results: Callable[[], list[torch.Tensor]]) -> None:
    xpu_ops.set_inline(False)
    device = [r.cpu() for r in results()]
    torch.xpu.synchronize()
    xpu_ops.set_inline(True)
    assert _C.inline_ready()
    here = []
    for r in results():
        torch.xpu.synchronize()  # an operator that was launched must not keep the next ones from the calling thread
        here.append(r.cpu())
    Busy.on = True
    try:
        behind = [r.cpu() for r in results()]
    finally:
        Busy.on = False
    compare(here, device)
    compare(behind, device)


def compare(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a.dtype == b.dtype and a.stride() == b.stride(), i
        nan = torch.isnan(a) if a.is_floating_point() else torch.zeros_like(a, dtype=torch.bool)
        assert torch.equal(nan, torch.isnan(b)), i
        width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
        bits = [t.contiguous().masked_fill(nan, 0).view(width) for t in (a, b)]
        assert torch.equal(*bits), (i, a.flatten()[:8], b.flatten()[:8])


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Random ones, with what is special where there is room."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=g, dtype=torch.float64) * 4
    if dtype.is_floating_point and x.numel() > 40:
        x.view(-1)[-20:-16] = torch.tensor([float("inf"), -0.0, 0.0, 1e-41], dtype=torch.float64)
    there = x.to(dtype).to("xpu")
    if Busy.on:
        torch.ones(1 << 21, device="xpu").sin()
    return there


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.bool])
def test_pointwise_lengths_and_layouts(dtype: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        for n in (1, 15, 63, 64, 65, 255, 256, 257, 1030, 5000):
            x, y = values((n,), dtype, 1), values((n,), dtype, 2)
            out += [x * y, x * 3, x == y, torch.where(x > 1, x, y), torch.maximum(x, y)]
            if dtype != torch.bool:
                out += [x - y, x.clamp(-2, 3), torch.relu(x), -x, x.abs()]
            if dtype.is_floating_point:
                out += [x / y, x.sqrt(), x.floor(), x.trunc(), x.round(), x.reciprocal(), torch.copysign(x, y)]
                out += [torch.fmin(x, y), 1.5 / x, x + 0.1, x.isinf(), x.to(torch.float32), x.sign()]
        x, y = values((6, 70, 5), dtype, 3), values((5, 70, 6), dtype, 4).permute(2, 1, 0)
        w = values((6, 1, 5), dtype, 5)
        out += [x * y, y * x, x[:, ::2] == y[:, 1::2], x * w, w * y, x[..., :1] * y[:1], x.transpose(0, 1) * 2]
        z = x.clone()
        z[:, 1::3].mul_(y[:, 1::3])
        rows = values((5, 700), dtype, 7)  # a value for each row, which is longer than what is computed at a time
        out += [rows * rows[:, :1], rows[:, :1] * rows[:, 1:], torch.where(rows[:, :1] > 1, rows, rows[:1])]
        wide = values((300, 90), dtype, 6)
        out += [z, wide * wide[0], wide[:, 5:80] * wide[:, 10:85], wide.t() * wide.t()[0], wide[::2, ::3] * 2]
        if dtype != torch.bool:
            out += [
                torch.add(y, x, out=torch.empty_like(w.expand(6, 70, 5)).transpose(0, 1).contiguous().transpose(0, 1))
            ]
        return out

    same_bits(results)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_beside_operands(dtype: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        for n in (1, 15, 257, 1030):
            x, y, z = (values((n,), dtype, seed) for seed in (1, 2, 3))
            out += [
                x > 0.1,
                F.elu(x, 1.5),
                F.leaky_relu(x, 0.2),
                F.softplus(x, 1.5, 3),
                F.hardshrink(x),
                x.round(decimals=1),
            ]
            out += [
                F.threshold(x, 0.1, 7),
                x.clamp(-1, 1.5),
                x.clamp(min=0.3),
                torch.lerp(x, y, 0.3),
                torch.lerp(x, y, 0.7),
            ]
            out += [torch.lerp(x, y, z), torch.addcmul(x, y, z, value=0.3), torch.addcdiv(x, y, z, value=0.3)]
            aten = torch.ops.aten
            out += [aten.threshold_backward(x, y, 0.1), aten.softplus_backward(x, y, 1.5, 3)]
            out += [aten.hardshrink_backward(x, y, 0.5), aten.softshrink_backward(x, y, 0.5)]
            out += [x.clone().masked_fill_(y > 0, 0.1)]
        return out

    same_bits(results)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64])
def test_exact_functions(dtype: torch.dtype) -> None:
    """Remainders and functions of bits, of every pair of numbers that are special, and where quotients are large."""
    special = [0.0, 1.0, 3.0, 7.0, 0.1, 1e-3, 65504.0, 2.0**-14, 6e-8, 16777215.0, 2.0**28, 1e30, 2.0**-126, 1e-45]
    special += [3.4e38, float("inf"), float("nan")]
    if not dtype.is_floating_point:
        special = [0, 1, 2, 3, 7, 100, 1 << 20, 2**31 - 1, torch.iinfo(dtype).max, torch.iinfo(dtype).min]
    v = torch.tensor(special, dtype=torch.float64 if dtype.is_floating_point else dtype)
    v = torch.cat([v, -v]).to(dtype)
    r = torch.randn(3000, generator=torch.Generator().manual_seed(3)).mul(100)
    a, b = (
        torch.cat([w, r.roll(k).to(dtype)]) for k, w in enumerate((v.repeat(v.numel()), v.repeat_interleave(v.numel())))
    )

    def results() -> list[torch.Tensor]:
        x, y = a.to("xpu"), b.to("xpu")
        if Busy.on:
            torch.ones(1 << 21, device="xpu").sin()
        out = []
        for start in range(0, a.numel(), 1000):
            p, q = x[start : start + 1000], y[start : start + 1000]
            out += [
                torch.fmod(p, q),
                torch.remainder(p, q),
                torch.floor_divide(p, q),
                torch.div(p, q, rounding_mode="floor"),
            ]
            out += [torch.fmod(p, 3), torch.remainder(p, -7)]
            out += [torch.fmax(p, q), torch.fmin(p, q), torch.clamp(p, q, p.flip(0))]
            if not dtype.is_floating_point:
                out += [torch.gcd(p, q), torch.lcm(p, q)]
            if dtype.is_floating_point:
                out += [
                    torch.nextafter(p, q),
                    p.angle(),
                    *torch.frexp(p),
                    p.isposinf(),
                    p.isneginf(),
                    p.isfinite(),
                    p.isinf(),
                ]
                out += [p.round(decimals=d) for d in (2, 0, -1, 37, 39, 400, -39, -400)]
        return out

    same_bits(results)


REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "any", "all"]
REDUCED = [*FLOATS, torch.int64, torch.int32, torch.bool]
# torch has no mean of integers and no argmax of bool.
MISSING = [("mean", t) for t in REDUCED if t not in FLOATS] + [("argmax", torch.bool), ("argmin", torch.bool)]


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, t) for n in REDUCTIONS for t in REDUCED if (n, t) not in MISSING], ids=str
)
def test_reductions(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch, name)
    cases: list[tuple[tuple[int, ...], int | None]] = [((n,), 0) for n in (1, 2, 15, 16, 17, 63, 64, 65, 100, 1000)]
    cases += [((n,), 0) for n in (2047, 4096, 5003, 10000, 20011)]
    cases += [
        ((7, 9), 0),
        ((7, 9), 1),
        ((100, 10), 1),
        ((2000, 10), 1),
        ((1100, 17), 1),
        ((3, 1000), 1),
        ((64, 100), 0),
    ]
    cases += [((130, 70), 0), ((100, 3), 0), ((700, 20), 0), ((33, 40, 5), 1), ((5, 6, 7, 8), 2), ((90, 90), None)]

    def results() -> list[torch.Tensor]:
        out = []
        for shape, dim in cases:
            x = values(shape, dtype)
            if name == "prod" and dtype.is_floating_point:
                x = (x * 0.01).exp()
            out.append(function(x) if dim is None else function(x, dim))
            if dim is not None and len(shape) > 1:
                out.append(function(x, dim, keepdim=True))
                out.append(function(x.transpose(0, 1), dim))
        return out

    same_bits(results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
def test_cumsum(dtype: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = [values((n,), dtype).cumsum(0) for n in (1, 5, 16, 17, 100, 1000, 4001, 16000)]
        out += [values((n,), dtype)[: n - 16].cumsum(0) for n in (1000, 6000)]
        return [*out, values((40, 33), dtype).cumsum(1), values((40, 33), dtype).cumsum(0)]

    same_bits(results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin"])
def test_products_and_extremes(name: str, dtype: torch.dtype) -> None:
    """Of products the errors, which go past infinity, and of extremes the places, which NaN takes."""

    def results() -> list[torch.Tensor]:
        out: list[torch.Tensor] = []
        for shape in ((1,), (5,), (16,), (17,), (100,), (1000,), (40, 33), (3, 500)):
            x = values(shape, dtype)
            cases = [x, (x * 0.25).exp2()] if name == "cumprod" and dtype.is_floating_point else [x, x.round()]
            if dtype.is_floating_point:
                cases.append(torch.where(x > 6, torch.nan, x))
            for y in cases:
                got = getattr(y, name)(-1)
                out += [got] if isinstance(got, torch.Tensor) else got
        return out

    same_bits(results)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nll_loss(dtype: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        weight = values((7,), dtype, 8)
        for n in (1, 15, 16, 17, 1000):
            x, image = values((n, 7), dtype, 9), values((n, 7, 2, 3), dtype, 10)
            target = torch.arange(n, device="xpu") * 5 % 7
            labels = (torch.arange(6 * n, device="xpu") * 3 % 7).view(n, 2, 3)
            torch.xpu.synchronize()
            for w, ignore in product((None, weight), (-100, 3)):
                for y, t in ((x, target), (x, target.byte()), (image, labels)):
                    out += [
                        nll_loss(y, t, w, ignore_index=ignore),
                        nll_loss(y, t, w, ignore_index=ignore, reduction="sum"),
                    ]
        return out

    same_bits(results)


@pytest.mark.parametrize("index_type", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.int64, torch.complex128], ids=str)
def test_moves_by_index(dtype: torch.dtype, index_type: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        for shape in ((7,), (7, 1), (7, 40), (3, 7, 5), (7, 2, 3, 4)):
            x = values(shape, torch.float64).to(dtype)
            for t in (x, x.transpose(0, -1), x[..., ::2]):
                for d in range(t.dim()):
                    n = t.size(d)
                    i = (torch.arange(2 * n, device="xpu") * 5 % n).to(index_type)
                    key = (slice(None),) * d
                    out += [t.index_select(d, i), t.gather(d, torch.zeros_like(t, dtype=torch.int64)), t[(*key, i - n)]]
                    put = t.clone()
                    put[(*key, i[:n].unique())] = t.narrow(d, 0, len(i[:n].unique()))
                    out += [put, t.index_fill(d, i[:1], 1)]
            out += [x.take(torch.arange(x.numel() - 1, -1, -1, device="xpu")), torch.embedding(x.flatten()[:, None], i)]
        if dtype.is_complex:
            return [torch.view_as_real(t) for t in out]
        return out

    same_bits(results)


@pytest.mark.parametrize("index_type", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.bool], ids=str)
def test_writes_by_index(dtype: torch.dtype, index_type: torch.dtype) -> None:
    """Equal indices too, whose order decides."""

    def results() -> list[torch.Tensor]:
        out = []
        for shape in ((7,), (700,), (7, 1), (7, 40), (40, 7), (3, 7, 5), (7, 2, 3, 4)):
            x, v = values(shape, torch.float64).to(dtype), values(shape, torch.float64, 5).to(dtype)
            for t, s in (
                (x, v),
                (x.transpose(0, -1), v.transpose(0, -1)),
                (x, v.mT.contiguous().mT if v.dim() > 1 else v),
            ):
                for d in range(t.dim()):
                    n = t.size(d)
                    i = (torch.arange(n, device="xpu") * 5 % max(n // 2, 1)).to(index_type)
                    wide = i.to(torch.int64).view(-1, *[1] * (t.dim() - 1 - d)).expand(t.shape)
                    out += [t.index_add(d, i, s), t.scatter_add(d, wide, s)]
                    if dtype in (torch.float32, torch.float64, torch.int64):
                        out += [t.scatter_reduce(d, wide, s, r) for r in ("prod", "amax", "amin", "mean")]
                    once = torch.arange(n - 1, -1, -1, device="xpu").view(-1, *[1] * (t.dim() - 1 - d)).expand(t.shape)
                    last = torch.tensor([n - 1], device="xpu")
                    out += [t.scatter(d, once, s), t.scatter(d, once, 1)]
                    if index_type == torch.int64:
                        out.append(t.index_copy(d, last, s.narrow(d, 0, 1)))
        return out

    same_bits(results)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.int64, torch.complex128], ids=str)
def test_what_a_mask_names(dtype: torch.dtype) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        for shape in ((), (1,), (300,), (2048,), (2049,), (7, 40), (3, 0, 2), (3, 7, 5, 2)):
            x = (values(shape, torch.float64) * 0.2).round().to(dtype)
            mask = values(shape, torch.float64, 3) > 1
            for t, m in ((x, mask), (x.mT, mask.mT) if x.dim() > 1 else (x, ~mask), (x, torch.zeros_like(mask))):
                out += [t.nonzero(), m.nonzero(), t.masked_select(m), t[m]]
        if dtype.is_complex:
            return [torch.view_as_real(t) if t.is_complex() else t for t in out]
        return out

    same_bits(results)


def test_nll_loss_reports_later() -> None:
    """A target out of range is reported at the next synchronisation, wherever the loss was computed."""
    x, target = values((5, 3), torch.float32), torch.tensor([0, 1, 7, 2, 9], device="xpu")
    for here in (True, False):
        xpu_ops.set_inline(here)
        torch.xpu.synchronize()
        nll_loss(x, target)
        with pytest.raises(IndexError, match="Target [79] is out of bounds"):
            torch.xpu.synchronize()


@pytest.mark.parametrize("scale", [1.0, 3e38, 1e-45])
def test_amp_update_scale(scale: float) -> None:
    def results() -> list[torch.Tensor]:
        out = []
        for found, steps in product((0.0, 1.0, float("nan")), (0, 4)):
            s = torch.tensor([scale], device="xpu")
            tracker = torch.tensor([steps], dtype=torch.int32, device="xpu")
            f = torch.tensor([found], device="xpu")
            torch.xpu.synchronize()
            torch._amp_update_scale_(s, tracker, f, 2.0, 0.5, 5)
            out += [s, tracker]
        return out

    same_bits(results)


def test_small_dense_calls_are_those_of_the_cpu() -> None:
    """Types, strides and errors of calls that need no iterator, and of their neighbours that do."""

    def checks(device: str) -> list[tuple[object, ...]]:
        x = torch.arange(6.0, device=device).view(2, 3)
        odd = torch.as_strided(x, (3, 1), (1, 7))
        zero = torch.tensor(2.0, device=device)
        double = torch.tensor(3.0, dtype=torch.float64)
        half = x.bfloat16()
        calls: list[Callable[[], torch.Tensor]] = [
            lambda: x + x, lambda: x + 1, lambda: x + double, lambda: zero + double, lambda: zero * 2.5, lambda: 2 - x,
            lambda: x + True, lambda: x + 1j, lambda: x > 2, lambda: x / 2, lambda: half * 1.001, lambda: half + x,
            lambda: odd * 2, lambda: odd * odd, lambda: odd.neg(), lambda: x.t() + x.t(), lambda: x + x[0],
            lambda: torch.add(x, x, alpha=True), lambda: torch.add(x, x, alpha=1j), lambda: torch.sub(x, x, alpha=2),
            lambda: torch.mul(x, x, out=torch.empty(0, device=device)),
            lambda: torch.mul(x, x, out=torch.empty(2, 3, device=device)),
            lambda: torch.mul(x, x, out=torch.empty(2, 3, dtype=torch.float64, device=device)),
            lambda: torch.mul(x, x, out=torch.empty(2, 3, dtype=torch.int32, device=device)),
            lambda: torch.eq(x, x, out=torch.empty(2, 3, device=device)),
            lambda: x.clone().mul_(x), lambda: x.clone().eq_(x), lambda: x.clone().add_(2), lambda: zero.clone().add_(double),
            lambda: zero.clone().add_(x), lambda: torch.arange(8.0, device=device)[:6].mul_(torch.arange(6.0, device=device)),
            lambda: torch.where(x > 1, x, x), lambda: torch.where(x > 1, x, 3.0), lambda: torch.where(x > 1, x, half),
            lambda: torch.relu(odd), lambda: (x > 1) & (x > 1),
            lambda: torch.add(x, 1, alpha=2.5), lambda: torch.gt(x, 2, out=torch.empty(2, 3, device=device)),
            lambda: x.clone().gt_(2), lambda: x.eq(True), lambda: odd > 2, lambda: zero > 1,
            lambda: torch.heaviside(x, double), lambda: torch.lerp(x, x + 1, 0.3),
        ]  # fmt: skip
        i, truth = torch.arange(6, device=device).view(2, 3), x > 2
        j, whole = i.int(), torch.tensor(3)
        for t in (i, j, truth, j.to(torch.uint8), zero.int()):
            calls += [
                partial(f, t)
                for f in (
                    lambda t: t + t, lambda t: t - t, lambda t: t * t, lambda t: t & t, lambda t: ~t, lambda t: -t,
                    lambda t: t + 1, lambda t: 2 - t, lambda t: t + 1.5, lambda t: t + True, lambda t: t & True, lambda t: t & 5,
                    lambda t: t + 1j, lambda t: t > 2, lambda t: t > 2.5, lambda t: t.eq(True), lambda t: t == t,
                    lambda t: t + whole, lambda t: t * double, lambda t: t / t.new_ones(t.shape), lambda t: (t + 3) // 2,
                    lambda t: t % 4, lambda t: torch.remainder(7, t + 1), lambda t: t << 1, lambda t: t ^ t, lambda t: t.pow(2),
                    lambda t: torch.where(truth, t, t) if t.dim() else t, lambda t: torch.where(t > 1, t, 2),
                    lambda t: torch.where(t > 1, 2.5, t), lambda t: torch.add(t, t, alpha=2), lambda t: torch.add(t, t, alpha=True),
                    lambda t: torch.add(t, t, alpha=1.5), lambda t: torch.add(t, t, out=t.new_empty(t.shape)),
                    lambda t: torch.add(t, t, out=t.new_empty(t.shape, dtype=torch.float64)), lambda t: t.clone().add_(1.5),
                    lambda t: t if t.dtype == torch.bool else t.abs(), lambda t: t.sign(), lambda t: t.relu(), lambda t: t.isnan(), lambda t: torch.maximum(t, t),
                    lambda t: t.logical_not(), lambda t: torch.logical_xor(t, t), lambda t: t.clone().logical_and_(t),
                    lambda t: t.masked_fill(t > 1, 7), lambda t: t.masked_fill(t > 1, 2**40), lambda t: t.masked_fill(t > 1, True),
                )
            ]  # fmt: skip
        for t in (x, half, i, j, truth, zero, odd):
            calls += [
                partial(f, t)
                for f in (
                    lambda t: t.clamp(1, 3), lambda t: t.clamp(min=2), lambda t: t.clamp(1.5, 3), lambda t: t.clamp(max=2**40),
                    lambda t: t.clamp(), lambda t: t.clamp(max=True), lambda t: t.clamp(min=float("nan")),
                    lambda t: t.clamp_min(2), lambda t: t.clamp_max(1.5), lambda t: t.clone().clamp_(1.5, 2),
                    lambda t: F.threshold(t, 1, 7), lambda t: F.threshold(t, 1.5, 2.5),
                    lambda t: torch.ops.aten.threshold_backward(t, t - 2, 1), lambda t: F.elu(t - 2, 2), lambda t: F.softplus(t),
                    lambda t: F.leaky_relu(t - 2, 0.1), lambda t: F.hardshrink(t, 2),
                    lambda t: torch.ops.aten.hardshrink_backward(t + 1, t, 2), lambda t: torch.ops.aten.softplus_backward(t, t - 2, 2, 20),
                    lambda t: torch.ops.aten.softshrink_backward(t + 1, t, 2), lambda t: torch.addcmul(t, t, t, value=2),
                    lambda t: torch.addcmul(t, t, t, value=0.5), lambda t: torch.addcdiv(t, t, t + 1, value=2), lambda t: t.round(decimals=1),
                    lambda t: torch.addcmul(t, t, double), lambda t: torch.lerp(t, t + 1, 2),
                    lambda t: t.masked_fill(t > 1, 0.5), lambda t: t.masked_fill(t > 1, double),
                )
            ]  # fmt: skip
        base = torch.arange(10.0, device=device)
        calls += [
            lambda: base[1:7].add_(base[:6]),
            lambda: base[:6].add_(base[:6]),
            lambda: x.masked_fill(x > 1, 1e300),
        ]
        found: list[tuple[object, ...]] = []
        for call in calls:
            try:
                r = call()
                found.append((r.dtype, r.shape, r.stride(), [f"{v:.4g}" for v in r.flatten().tolist()]))
            except (RuntimeError, IndexError) as error:
                found.append((str(error),))
        return found

    here = checks("xpu")
    xpu_ops.set_inline(False)
    launched = checks("xpu")
    xpu_ops.set_inline(True)
    for i, (a, b, c) in enumerate(zip(here, launched, checks("cpu"), strict=True)):
        assert a == b, i
        assert a == c or len(a) == len(c) == 1, i  # both refuse


def test_numbers_that_metas_refuse() -> None:
    x, double = torch.rand(6, device="xpu"), torch.tensor(3.0, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="different dtypes"):
        torch.heaviside(x, double)
    with pytest.raises(RuntimeError, match="same device"):
        torch.addcdiv(x, double, x)
    with pytest.raises(RuntimeError, match="At least one of"):
        x.clamp()
    with pytest.raises(RuntimeError, match="without overflow"):
        x.int().masked_fill(x > 0, 2**40)


def test_every_row_of_lengths_around_a_block() -> None:
    """Rows that share a call and rows that have one each."""
    for columns, rows in product((3, 63, 64, 65, 300), (1, 2, 9)):
        base = torch.arange(rows * columns * 2).view(rows, columns * 2).to("xpu")
        assert torch.equal((base[:, ::2] * 3).cpu(), base.cpu()[:, ::2] * 3)
        assert torch.equal(
            (base[:, :columns] + base[:, columns:]).cpu(), base.cpu()[:, :columns] + base.cpu()[:, columns:]
        )
