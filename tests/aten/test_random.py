"""Random operators: distributions at a fixed seed, reproducibility, errors as on CPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch

N = 200_000
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1234)


def phi(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def ks(sample: torch.Tensor, cdf: Callable[[torch.Tensor], torch.Tensor], resolution: float = 0.0) -> None:
    """Kolmogorov and Smirnov: the largest distance between the empirical and the true distribution function.

    The bound is exceeded by chance once in about 10^5 draws; `resolution` is what the dtype's rounding may add.
    """
    x = sample.double().cpu().flatten().sort().values
    n = x.numel()
    f = cdf(x)
    i = torch.arange(n, dtype=torch.float64)
    d = max(((i + 1) / n - f).max().item(), (f - i / n).max().item())
    assert d < 2.5 / math.sqrt(n) + resolution, d


def chi_square(counts: torch.Tensor, expected: torch.Tensor) -> None:
    """Pearson's statistic against its mean and five standard deviations; bins of fewer than 10 are merged."""
    keep = expected >= 10
    seen = torch.cat([counts[keep], counts[~keep].sum()[None]])
    want = torch.cat([expected[keep], expected[~keep].sum()[None]])
    seen, want = seen[want > 5], want[want > 5]
    degrees = max(seen.numel() - 1, 1)
    statistic = ((seen - want) ** 2 / want).sum().item()
    assert statistic < degrees + 5 * math.sqrt(2 * degrees) + 5, (statistic, degrees)


RESOLUTION = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-6, torch.float64: 0}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_continuous_distributions(dtype: torch.dtype) -> None:
    x, r = torch.empty(N, dtype=dtype, device="xpu"), RESOLUTION[dtype]
    ks(x.uniform_(-2, 3), lambda v: ((v + 2) / 5).clamp(0, 1), r)
    assert x.min().item() >= -2 and x.max().item() < 3
    ks(x.normal_(1, 2), lambda v: phi((v - 1) / 2), r)
    ks(x.exponential_(1.5), lambda v: 1 - torch.exp(-1.5 * v), r)
    assert x.min().item() > 0 or dtype is torch.float16
    ks(x.cauchy_(1, 2), lambda v: 0.5 + torch.atan((v - 1) / 2) / math.pi, r)
    ks(x.log_normal_(0.5, 0.5), lambda v: phi((v.clamp(min=1e-30).log() - 0.5) / 0.5), r)


def test_exponential_is_never_zero() -> None:
    """The smallest value of float32 rounds to 0 in float16; among these 2^25 draws it is there twice."""
    lowest = []
    for dtype in (torch.float32, torch.float16):
        torch.manual_seed(6)
        lowest.append(torch.empty(1 << 25, dtype=dtype, device="xpu").exponential_().min())
    assert lowest[0].item() > 0 and lowest[0].half().item() == 0
    assert lowest[1].item() > 0


def test_moments_and_independence() -> None:
    x = torch.randn(1 << 20, device="xpu").cpu().double()
    assert abs(x.mean()) < 5e-3 and abs(x.var() - 1) < 8e-3
    assert abs((x**3).mean()) < 1.5e-2 and abs((x**4).mean() - 3) < 4e-2
    for lag in (1, 2, 3, 1024, 2048, 4096):  # 1024 apart: values of one counter
        assert abs((x[lag:] * x[:-lag]).mean()) < 6e-3, lag
    y = torch.randn(1 << 20, device="xpu").cpu().double()
    assert abs((x * y).mean()) < 6e-3
    a, b = torch.randn(4096, dtype=torch.complex64, device="xpu").cpu(), None
    assert abs(a.real.var() - 0.5) < 0.06 and abs(a.imag.var() - 0.5) < 0.06 and b is None


@pytest.mark.parametrize("dtype", INTS + FLOATS + [torch.bool, torch.uint16, torch.uint32], ids=str)
def test_random_integers(dtype: torch.dtype) -> None:
    x = torch.empty(N, dtype=dtype, device="xpu")
    high = 2 if dtype is torch.bool else 100
    x.random_(0, high)
    counts = torch.bincount(x.cpu().long(), minlength=high).double()
    chi_square(counts, torch.full((high,), N / high, dtype=torch.float64))
    x.random_()
    limit = {torch.bool: 1, torch.float16: 2**11, torch.bfloat16: 2**8, torch.float32: 2**24, torch.float64: 2**53}
    top = limit.get(dtype) or torch.iinfo(dtype).max
    seen = x.cpu().double()
    assert seen.min() >= 0 and seen.max() <= top and seen.max() > 0.98 * top
    assert abs(seen.mean() / top - 0.5) < 5e-3
    if dtype is torch.int64:
        x.random_(-(2**60), 2**61)
        assert abs(x.cpu().double().mean() / 2**60 - 0.5) < 2e-2 and x.min().item() < -(2**59)
        x.random_(-(2**63), None)
        assert (x < 0).float().mean().item() == pytest.approx(0.5, abs=5e-3)
        x.random_(1 << 21)
        ks(x.double() + torch.rand(N, dtype=torch.float64, device="xpu"), lambda v: v / (1 << 21))


def test_random_errors() -> None:
    x = torch.empty(3, dtype=torch.uint8, device="xpu")
    for f in (
        lambda t: t.random_(5, 5),
        lambda t: t.random_(0, 300),
        lambda t: t.random_(-1, 5),
        lambda t: t.normal_(0, -1),
        lambda t: t.geometric_(0),
        lambda t: t.geometric_(1.5),
        lambda t: t.bernoulli_(1.5),
        lambda t: t.exponential_(0),
        lambda t: t.cauchy_(0, 0),
        lambda t: t.log_normal_(0, 0),
        lambda t: t.uniform_(0, 1),
        lambda t: t.cauchy_(),
    ):
        host = torch.empty(3, dtype=torch.uint8)
        with pytest.raises(Exception) as want:
            f(host)
        with pytest.raises(type(want.value)):
            f(x)
    with pytest.raises(RuntimeError, match="uniform_ expects"):
        torch.empty(3, device="xpu").uniform_(2, 1)
    with pytest.raises(RuntimeError, match="generator"):
        torch.empty(3, device="xpu").normal_(generator=torch.Generator())
    before = torch.xpu.get_rng_state()
    for f in (torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.exponential_):
        with pytest.raises(Exception):  # noqa: B017
            f(x)
    assert torch.equal(before, torch.xpu.get_rng_state())


@pytest.mark.parametrize("dtype", INTS + FLOATS + [torch.bool], ids=str)
def test_bernoulli(dtype: torch.dtype) -> None:
    x = torch.empty(N, dtype=dtype, device="xpu")
    for p in (0.0, 1e-3, 0.3, 1.0):
        seen = x.bernoulli_(p).cpu().double()
        assert set(seen.unique().tolist()) <= {0.0, 1.0}
        assert abs(seen.mean().item() - p) <= 5 * math.sqrt(p * (1 - p) / N)
    for probs in (torch.float32, torch.float64, torch.float16):
        p = torch.tensor([0.0, 0.25, 1.0, 0.75], dtype=probs, device="xpu").repeat_interleave(N // 4)
        seen = x.bernoulli_(p).cpu().double().view(4, -1).mean(1)
        assert seen[0] == 0 and seen[2] == 1 and abs(seen[1] - 0.25) < 0.01 and abs(seen[3] - 0.75) < 0.01
    x.view(4, -1).bernoulli_(torch.tensor([[0.0], [1.0], [0.0], [1.0]], device="xpu"))
    assert x.cpu().double().view(4, -1).mean(1).tolist() == [0, 1, 0, 1]
    if dtype.is_floating_point:
        p = torch.full((N,), 0.5, dtype=dtype, device="xpu")
        assert abs(torch.bernoulli(p).cpu().double().mean() - 0.5) < 0.01
        assert abs(torch.bernoulli(p, 0.1).cpu().double().mean() - 0.1) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8], ids=str)
def test_geometric(dtype: torch.dtype) -> None:
    x = torch.empty(N, dtype=dtype, device="xpu").geometric_(0.3).cpu().long()
    assert x.min() == 1
    k = torch.arange(1, 40)
    chi_square(torch.bincount(x, minlength=40)[1:40].double(), N * 0.3 * 0.7 ** (k - 1).double())


def test_normal_overloads() -> None:
    mean, std = (
        torch.tensor([[-5.0], [10.0]], device="xpu").expand(2, N // 2),
        torch.tensor([[1.0], [3.0]], device="xpu"),
    )
    for got, m, s in (
        (torch.normal(mean, 2.0), (-5, 10), (2, 2)),
        (torch.normal(1.0, std.expand(2, N // 2)), (1, 1), (1, 3)),
        (torch.normal(mean, std), (-5, 10), (1, 3)),
        (torch.normal(2.0, 3.0, (2, N // 2), device="xpu"), (2, 2), (3, 3)),
        (torch.normal(mean, std, out=torch.empty(0, device="xpu")), (-5, 10), (1, 3)),
    ):
        assert got.shape == (2, N // 2) and got.device.type == "xpu"
        for row in range(2):
            ks(got[row], lambda v, row=row, m=m, s=s: phi((v - m[row]) / s[row]), 1e-6)
    with pytest.raises(RuntimeError, match="std >= 0"):
        torch.normal(mean, -std)


def test_poisson() -> None:
    for rate in (0.3, 4.0, 9.9, 10.5, 60.0, 2000.0):
        x = torch.poisson(torch.full((N,), rate, device="xpu")).cpu()
        k = torch.arange(int(rate + 12 * math.sqrt(rate) + 10), dtype=torch.float64)
        expected = N * torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1))
        chi_square(torch.bincount(x.long(), minlength=k.numel())[: k.numel()].double(), expected)
    assert torch.equal(torch.poisson(torch.zeros(5, device="xpu")).cpu(), torch.zeros(5))
    assert torch.poisson(torch.tensor([float("inf")], device="xpu")).shape == (1,)
    for rate in (-1.0, float("nan")):
        with pytest.raises(RuntimeError, match="invalid Poisson rate"):
            torch.poisson(torch.tensor([rate], device="xpu"))
            torch.xpu.synchronize()


def test_binomial() -> None:
    for n, p in ((1, 0.5), (10, 0.3), (40, 0.9), (100, 0.5), (1000, 0.02), (5000, 0.6)):
        x = torch.binomial(torch.full((N,), float(n), device="xpu"), torch.full((N,), p, device="xpu")).cpu()
        assert x.min() >= 0 and x.max() <= n
        k = torch.arange(n + 1, dtype=torch.float64)
        log_p = (
            math.lgamma(n + 1)
            - torch.lgamma(k + 1)
            - torch.lgamma(n - k + 1)
            + k * math.log(p)
            + (n - k) * math.log1p(-p)
        )
        chi_square(torch.bincount(x.long(), minlength=n + 1).double(), N * log_p.exp())
    edge = torch.binomial(torch.tensor([5.0, 5.0, 0.0], device="xpu"), torch.tensor([0.0, 1.0, 0.5], device="xpu"))
    assert edge.cpu().tolist() == [0, 5, 0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gamma(dtype: torch.dtype) -> None:
    # samples are at least the smallest normal number of the dtype: for float16, 6 % of those of alpha = 0.3
    for alpha in (0.3, 1.0, 2.5, 100.0)[dtype is torch.float16 :]:
        x = torch._standard_gamma(torch.full((N,), alpha, dtype=dtype, device="xpu"))
        assert x.dtype == dtype and x.min().item() > 0
        ks(
            x,
            lambda v, a=alpha: torch.special.gammainc(torch.tensor(a, dtype=torch.float64), v),
            3 * RESOLUTION[dtype] + 1e-4,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_beta_of_small_parameters_is_neither_0_nor_1(dtype: torch.dtype) -> None:
    c = torch.tensor(1e-2, dtype=dtype, device="xpu")
    x = torch.distributions.Beta(c, c).sample([50_000])
    assert x.min() > 0
    assert x.max() < 1


def test_dirichlet() -> None:
    x = torch._sample_dirichlet(torch.tensor([1.0, 2.0, 3.0], device="xpu").expand(N, 3)).cpu().double()
    assert (x.sum(-1) - 1).abs().max() < 1e-5
    assert (x.mean(0) - torch.tensor([1, 2, 3]) / 6).abs().max() < 5e-3


def test_multinomial() -> None:
    weights = torch.tensor([0.0, 1.0, 3.0, 0.0, 6.0], device="xpu")
    for dtype in FLOATS:
        x = torch.multinomial(weights.to(dtype), N, replacement=True).cpu()
        counts = torch.bincount(x, minlength=5).double()
        assert counts[0] == 0 and counts[3] == 0
        chi_square(counts[[1, 2, 4]], N * torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64))
    rows = torch.multinomial(weights.expand(N, 5), 3).cpu()
    assert (rows.sort(1).values == torch.tensor([1, 2, 4])).all()
    first = torch.bincount(rows[:, 0], minlength=5).double()
    chi_square(first[[1, 2, 4]], N * torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64))
    one = torch.multinomial(weights.expand(N, 5), 1).cpu()
    chi_square(
        torch.bincount(one[:, 0], minlength=5).double()[[1, 2, 4]],
        N * torch.tensor([0.1, 0.3, 0.6], dtype=torch.float64),
    )
    for bad, match in (
        (torch.tensor([-1.0, 2.0]), "element < 0"),
        (torch.tensor([float("nan"), 2.0]), "nan"),
        (torch.tensor([2.0, float("inf"), -1.0]), "inf"),
        (torch.zeros(2), "sum of probabilities <= 0"),
    ):
        with pytest.raises(RuntimeError, match=match):
            torch.multinomial(bad.to("xpu"), 1)
        with pytest.raises(RuntimeError) as of_the_cpu:  # of several draws: its other texts
            torch.multinomial(bad, 2, replacement=True)
        with pytest.raises(RuntimeError, match=re.escape(str(of_the_cpu.value))):
            torch.multinomial(bad.to("xpu"), 2, replacement=True)
    with pytest.raises(RuntimeError, match="without replacement"):
        torch.multinomial(weights, 6)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32, torch.uint8], ids=str)
def test_randperm(dtype: torch.dtype) -> None:
    for n in (0, 1, 2, 200, 20000):
        if dtype is torch.uint8 and n > 255:
            continue
        x = torch.randperm(n, dtype=dtype, device="xpu")
        assert x.dtype == dtype and torch.equal(x.cpu().sort().values, torch.arange(n, dtype=dtype))
    counts = torch.stack([torch.randperm(4, device="xpu") for _ in range(600)]).cpu()
    for column in counts.T:
        chi_square(torch.bincount(column, minlength=4).double(), torch.full((4,), 150.0, dtype=torch.float64))
    with pytest.raises(RuntimeError) as want:
        torch.randperm(300, dtype=torch.uint8)
    with pytest.raises(RuntimeError) as got:
        torch.randperm(300, dtype=torch.uint8, device="xpu")
    assert str(got.value) == str(want.value)


def draws() -> list[torch.Tensor]:
    x = torch.empty(3, 1001, device="xpu")
    return [
        t.clone()
        for t in (
            x.normal_(),
            x.uniform_(),
            x.exponential_(),
            x.random_(100),
            x.bernoulli_(0.3),
            torch.randperm(100, device="xpu"),
            torch.poisson(x + 3),
            torch.nn.functional.dropout(x, 0.5),
        )
    ]


def test_seed_decides() -> None:
    first = draws()
    state = torch.xpu.get_rng_state()
    second = draws()
    torch.xpu.set_rng_state(state)
    assert all(torch.equal(a, b) for a, b in zip(second, draws(), strict=True))
    torch.manual_seed(1234)
    assert all(torch.equal(a, b) for a, b in zip(first, draws(), strict=True))
    assert not torch.equal(first[0], second[0])
    g = torch.Generator("xpu").manual_seed(5)
    a = torch.randn(100, device="xpu", generator=g)
    assert torch.equal(a, torch.randn(100, device="xpu", generator=g.manual_seed(5)))


def test_layout_does_not_decide() -> None:
    a, b, c = (
        torch.empty(30, 500, device="xpu"),
        torch.empty(500, 30, device="xpu").t(),
        torch.empty(60, 1000, device="xpu")[::2, ::2],
    )
    for t in (a, b, c):
        torch.manual_seed(3)
        t.normal_()
    assert torch.equal(a, b) and torch.equal(a, c)
    # a longer tensor begins with the numbers of a shorter one
    torch.manual_seed(3)
    assert torch.equal(torch.empty(100_000, device="xpu").normal_()[:15000].view(30, 500), a)


def test_dropout() -> None:
    for dtype in FLOATS:
        x = torch.randn(100, 1000, device="xpu", dtype=dtype)
        out, mask = torch.native_dropout(x, 0.2, True)
        assert mask.dtype is torch.bool and abs(mask.float().mean().item() - 0.8) < 0.01
        torch.testing.assert_close(out.cpu(), (x.cpu().double() * mask.cpu() / 0.8).to(dtype))
        grad = torch.randn_like(x)
        back = torch.ops.aten.native_dropout_backward(grad, mask, 1.25)
        torch.testing.assert_close(back.cpu(), (grad.cpu().double() * mask.cpu() * 1.25).to(dtype))
        back = torch.ops.aten.native_dropout_backward(grad.t(), mask.t().contiguous(), 1.25)
        torch.testing.assert_close(back.cpu(), (grad.cpu().double() * mask.cpu() * 1.25).to(dtype).t())
    out, mask = torch.native_dropout(x.t(), 0.5, True)
    assert out.stride() == x.t().stride() and mask.stride() == out.stride()
    strided = torch.ones(2, 3, 3, 6, device="xpu").to(memory_format=torch.channels_last)[..., ::2]
    out, mask = torch.native_dropout(strided, 0.5, True)
    assert out.stride() == mask.stride() == torch.native_dropout(strided.cpu(), 0.5, True)[0].stride()
    for p, train in ((0.0, True), (1.0, True), (0.5, False)):
        out, mask = torch.native_dropout(x, p, train)
        want, want_mask = torch.native_dropout(x.cpu(), p, train)
        assert torch.equal(out.cpu(), want) and torch.equal(mask.cpu(), want_mask)
    assert torch.native_dropout(x[:0], 0.5, True)[0].shape == (0, 1000)
    out, mask = torch._fused_dropout(x, 0.25)
    assert mask.dtype is torch.uint8 and abs(mask.float().mean().item() - 0.25) < 0.01
    torch.testing.assert_close(out, x * mask * 4)
    torch.testing.assert_close(torch._masked_scale(x, mask, 4.0), out)
    leaf = torch.randn(50, 60, device="xpu", requires_grad=True)
    out = torch.nn.functional.dropout(leaf, 0.3, True)
    out.sum().backward()
    torch.testing.assert_close(leaf.grad * leaf, out)


def test_rrelu() -> None:
    x = torch.randn(N, device="xpu", requires_grad=True)
    out = torch.nn.functional.rrelu(x, 0.1, 0.4, training=True)
    slope = (out / x).detach()
    assert torch.equal(out[x > 0], x[x > 0])
    ks(slope[x < 0], lambda v: ((v - 0.1) / 0.3).clamp(0, 1), 1e-4)
    out.sum().backward()
    torch.testing.assert_close(x.grad, torch.where(x > 0, torch.ones_like(x), slope), rtol=1e-4, atol=1e-5)
    host = x.detach().cpu()
    torch.testing.assert_close(torch.nn.functional.rrelu(x, 0.1, 0.4).cpu(), torch.nn.functional.rrelu(host, 0.1, 0.4))
    with pytest.raises(RuntimeError, match="less than or equal"):
        torch.nn.functional.rrelu(x, 0.5, 0.4, training=True)


def test_gradients_of_samplers() -> None:
    alpha = torch.tensor([0.05, 0.5, 1.0, 3.0, 20.0, 500.0], dtype=torch.float64)
    sample = alpha * torch.tensor([0.9, 0.3, 1.5, 0.8, 1.1, 1.02], dtype=torch.float64)
    for dtype in (torch.float64, torch.float32):
        want = torch._standard_gamma_grad(alpha.to(dtype), sample.to(dtype))
        got = torch._standard_gamma_grad(alpha.to(dtype).to("xpu"), sample.to(dtype).to("xpu"))
        torch.testing.assert_close(got.cpu(), want, rtol=3e-3, atol=1e-4)
    x = torch.tensor([0.01, 0.3, 0.5, 0.9, 0.999], dtype=torch.float64)
    a = torch.tensor([0.3, 2.0, 8.0, 30.0, 1.0], dtype=torch.float64)
    total = a + torch.tensor([1.0, 3.0, 9.0, 4.0, 0.5], dtype=torch.float64)
    want = torch._dirichlet_grad(x, a, total)
    torch.testing.assert_close(
        torch._dirichlet_grad(*(t.to("xpu") for t in (x, a, total))).cpu(), want, rtol=2e-2, atol=1e-3
    )


@pytest.mark.parametrize("bad", [2.0, -0.5, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
def test_bernoulli_takes_probabilities(bad: float, dtype: torch.dtype) -> None:
    for device in ("cpu", "xpu"):
        p = torch.full((5,), 0.5, dtype=dtype, device=device)
        p[3] = bad
        for f in (torch.bernoulli, torch.empty(5, device=device).bernoulli_):
            with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1 to be true"):
                f(p).cpu()
        with pytest.raises(RuntimeError, match="bernoulli_ expects p to be in"):
            p.bernoulli_(2)
