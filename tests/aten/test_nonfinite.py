"""Infinities, NaN and ends of ranges where a formula that is right elsewhere loses them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

INF, NAN = math.inf, math.nan
COMPLEX = [torch.complex64, torch.complex128]


def same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(torch.view_as_real(got.cpu()), torch.view_as_real(want), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex32, *COMPLEX], ids=str)
@pytest.mark.parametrize("n", [1, 67])
def test_a_real_alpha_keeps_complex_infinities(dtype: torch.dtype, n: int) -> None:
    a = torch.tensor([complex(INF, 1)] * n).to("xpu", dtype)
    b = torch.tensor([complex(2, INF)] * n).to("xpu", dtype)
    wide = torch.complex64
    for got, want in [
        (a + b, complex(INF, INF)),
        (a - b, complex(INF, -INF)),
        (torch.rsub(a, b), complex(-INF, INF)),
        (torch.add(a, b, alpha=2), complex(INF, INF)),
        (torch.add(a, b, alpha=-3), complex(INF, -INF)),
        (a.clone().add_(b), complex(INF, INF)),
    ]:
        same(got.to(wide), torch.tensor([want] * n, dtype=wide))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_a_complex_alpha_multiplies(dtype: torch.dtype) -> None:
    a, b = torch.tensor([1 + 2j], dtype=dtype), torch.tensor([3 - 1j], dtype=dtype)
    same(torch.add(a.to("xpu"), b.to("xpu"), alpha=2j), a + 2j * b)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("n", [1, 5, 100])
def test_an_infinite_part_makes_a_norm_infinite(dtype: torch.dtype, n: int) -> None:
    x = torch.ones(n, dtype=dtype)
    x[0] = complex(NAN, -INF)
    y = x.to("xpu")
    assert torch.linalg.vector_norm(y).item() == INF
    assert torch.linalg.vector_norm(y.expand(3, n), dim=1).tolist() == [INF] * 3
    assert torch._foreach_norm([y])[0].item() == INF
    assert torch._foreach_norm([y], 1)[0].item() == INF
    assert F.normalize(y, dim=0)[1:].abs().sum().item() == 0
    x[0] = complex(NAN, 1)
    assert math.isnan(torch.linalg.vector_norm(x.to("xpu")).item())


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_whole_powers_of_complex_infinities_are_products(dtype: torch.dtype) -> None:
    z = torch.tensor([complex(INF, -INF), complex(INF, 1), complex(2, -INF)], dtype=dtype)
    one, two = torch.ones(3, dtype=dtype), torch.full((3,), 2, dtype=dtype)
    same(z.to("xpu").pow(one.to("xpu")), z)
    same(z.to("xpu").pow(two.to("xpu")), z * z)
    same(z.to("xpu").pow((one + two).to("xpu")), z * z * z)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_powers_of_nan_and_infinity_are_those_of_c(dtype: torch.dtype) -> None:
    parts = [0.0, 1.5, -0.5, INF, -INF, NAN]
    values = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)
    exponents = torch.tensor([complex(a, b) for a in (0.5, NAN, INF, -INF) for b in (0.25, NAN, INF)], dtype=dtype)
    base, e = values[:, None], exponents[None]
    want, got = base.pow(e), base.to("xpu").pow(e.to("xpu")).cpu()
    for part in (torch.real, torch.imag):
        assert torch.equal(part(got).isnan(), part(want).isnan())
        assert torch.equal(part(got).isinf(), part(want).isinf())


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", ["sin", "sinh", "asin", "asinh"])
def test_signs_of_infinities_that_annex_g_leaves_open_are_those_of_the_cpu(name: str, dtype: torch.dtype) -> None:
    z = torch.tensor([complex(a, b) for a in (NAN, INF, -INF) for b in (NAN, INF, -INF)], dtype=dtype)
    same(getattr(torch, name)(z.to("xpu")), getattr(torch, name)(z))


@pytest.mark.parametrize("dtype", [torch.complex32, *COMPLEX], ids=str)
@pytest.mark.parametrize("integer", [torch.int32, torch.int64, torch.bool], ids=str)
def test_ldexp_scales_the_parts_of_complex_numbers(dtype: torch.dtype, integer: torch.dtype) -> None:
    z = torch.tensor([complex(INF, 1), complex(3, NAN), complex(-1, 2)]).to(dtype)
    e = torch.tensor([1, 0, 1], dtype=integer)
    want = torch.tensor([complex(INF, 2), complex(3, NAN), complex(-2, 4)]).to(dtype)
    wide = torch.complex64
    same(torch.ldexp(z.to("xpu"), e.to("xpu")).to(wide), want.to(wide))
    same(torch.ldexp(z.to("xpu").conj(), e.to("xpu")).to(wide), want.to(wide).conj().resolve_conj())
    same(z.to("xpu").ldexp_(e.to("xpu")).to(wide), want.to(wide))
    out = torch.empty(0, dtype=dtype, device="xpu")
    same(torch.ldexp(z.to("xpu"), e.to("xpu"), out=out).to(wide), want.to(wide))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.ldexp(z.to("xpu"), e.to("xpu"), out=torch.empty(0, device="xpu"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 50])
def test_i0_of_infinity(dtype: torch.dtype, n: int) -> None:
    x = torch.tensor([INF, -INF, NAN] * n, dtype=dtype, device="xpu")
    got = torch.i0(x).cpu()
    assert got[::3].eq(INF).all() and got[1::3].eq(INF).all() and got[2::3].isnan().all()


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("n", [1, 40])
def test_gcd_of_the_lowest_number(dtype: torch.dtype, n: int) -> None:
    low = torch.iinfo(dtype).min
    a, b = torch.tensor([low, 3, low, low, 0] * n, dtype=dtype), torch.tensor([1, low, 12, low, low] * n, dtype=dtype)
    assert torch.gcd(a.to("xpu"), b.to("xpu")).tolist() == [1, 1, 4, low, low] * n


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 40])
def test_the_slope_of_logit_at_its_ends(dtype: torch.dtype, n: int) -> None:
    x = torch.tensor([-0.0, 0.0, 1.0, 0.5, 2.0] * n, dtype=dtype, device="xpu")
    got = torch.ops.aten.logit_backward(torch.ones_like(x), x)
    torch.testing.assert_close(got.cpu(), torch.tensor([-INF, INF, INF, 4.0, NAN] * n, dtype=dtype), equal_nan=True)


@pytest.mark.parametrize("value", [complex(NAN, INF), complex(NAN, 1), complex(2, 3)])
def test_logcumsumexp_of_one_number_is_that_number(value: complex) -> None:
    x = torch.tensor(value)
    same(torch.logcumsumexp(x.to("xpu"), 0), x)
    out = torch.empty((), dtype=x.dtype, device="xpu")
    same(torch.logcumsumexp(x.to("xpu"), 0, out=out), x)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_loss_keeps_nan(zero_infinity: bool) -> None:
    log_probs = torch.full((4, 2, 3), -1.0)
    log_probs[1, 0] = NAN  # every path of the first sample
    targets = torch.tensor([[1, 2], [1, 2]])
    lengths = torch.tensor([4, 4]), torch.tensor([2, 2])

    def loss(device: str) -> Tensor:
        options = {"reduction": "none", "zero_infinity": zero_infinity}
        return F.ctc_loss(log_probs.to(device), targets.to(device), *lengths, **options).cpu()  # type: ignore[arg-type]

    got = loss("xpu")
    assert got[0].isnan() and got[1].isfinite()
    torch.testing.assert_close(got, loss("cpu"), equal_nan=True)


def test_ctc_loss_keeps_nan_of_states_beside_impossible_ones() -> None:
    log_probs = torch.full((3, 1, 3), -INF)
    log_probs[:, 0, 1] = torch.tensor([NAN, -1.0, -1.0])
    args = torch.tensor([[1, 2]]), torch.tensor([3]), torch.tensor([2])
    want = F.ctc_loss(log_probs, *args, reduction="none")
    got = F.ctc_loss(log_probs.to("xpu"), args[0].to("xpu"), *args[1:], reduction="none").cpu()
    assert want.isnan().all() and got.isnan().all()


def batch_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, torch.zeros_like(w), torch.ones_like(w), w, b, training=True)


def batch_norm_running(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.batch_norm(x, torch.full_like(w, 0.5), torch.ones_like(w), w, b)


def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 2, w, b)


def instance_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.instance_norm(x, weight=w, bias=b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("norm", [batch_norm, batch_norm_running, group_norm, instance_norm])
@pytest.mark.parametrize("last", [False, True])
def test_infinite_weights_of_norms(
    norm: Callable[[Tensor, Tensor, Tensor], Tensor], dtype: torch.dtype, last: bool
) -> None:
    x = torch.linspace(-3, 5, 3 * 4 * 5 * 6, dtype=torch.float64).reshape(3, 4, 5, 6).to(dtype)
    if last:
        x = x.to(memory_format=torch.channels_last)
    w = torch.tensor([INF, 1, -INF, 2], dtype=dtype)
    b = torch.tensor([0, 1, 2, INF], dtype=dtype)
    want, got = norm(x, w, b), norm(x.to("xpu"), w.to("xpu"), b.to("xpu")).cpu()
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.isinf(), want.isinf())
    tolerance = 5e-2 if dtype == torch.bfloat16 else 1e-5  # the mean times the scale rounds on the CPU
    torch.testing.assert_close(got, want, equal_nan=True, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("sizes", [(8, 8), (5, 9), (9, 5)])
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_attention_takes_a_mask_and_the_causal_one(sizes: tuple[int, int], kind: str, dtype: torch.dtype) -> None:
    rows, keys = sizes
    q = torch.randn(2, 3, rows, 16, dtype=dtype)
    k, v = torch.randn(2, 2, 3, keys, 16, dtype=dtype).unbind()
    mask = torch.rand(rows, keys) < 0.7
    mask[:, 0] = True
    attn_mask = mask if kind == "bool" else torch.randn(rows, keys, dtype=dtype)
    past = torch.ones(rows, keys, dtype=torch.bool).tril()
    both = mask & past if kind == "bool" else attn_mask.masked_fill(~past, -INF)
    want = F.scaled_dot_product_attention(q, k, v, attn_mask=both)
    parts = [t.to("xpu").requires_grad_() for t in (q, k, v)]
    got = F.scaled_dot_product_attention(*parts, attn_mask=attn_mask.to("xpu"), is_causal=True)
    tolerance = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)
    got.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in parts)


COMPLEX_PARTS = [complex(a, b) for a in (INF, -INF, NAN, 1.0) for b in (INF, -INF, NAN, 2.0)]


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("n", [1, 3, 20])
def test_a_mean_of_complex_infinities_is_divided_by_a_complex_count(dtype: torch.dtype, n: int) -> None:
    x = torch.zeros(len(COMPLEX_PARTS), n, dtype=dtype)
    x[:, -1] = torch.tensor(COMPLEX_PARTS, dtype=dtype)
    same(x.to("xpu").mean(1), x.mean(1))
    same(x.t().to("xpu").mean(0), x.mean(1))
    same(x.to("xpu").mean(), x.mean())
    same(x[:, :0].to("xpu").mean(1), x[:, :0].mean(1))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("n", [1, 2, 40])
def test_complex_products_along_a_row_begin_with_one(dtype: torch.dtype, n: int) -> None:
    x = torch.full((len(COMPLEX_PARTS), n), 2.0, dtype=dtype)
    x[:, 0] = torch.tensor(COMPLEX_PARTS, dtype=dtype)
    same(x.to("xpu").cumprod(1)[:, 0], x.cumprod(1)[:, 0])
    same(x.t().to("xpu").cumprod(0)[0], x.cumprod(1)[:, 0])


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("n", [1, 40])
def test_log1p_of_a_number_that_is_nan_in_part_is_nan(dtype: torch.dtype, n: int) -> None:
    x = torch.tensor(COMPLEX_PARTS, dtype=dtype).repeat(n)
    same(x.to("xpu").log1p(), x.log1p())


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("factors", [(1, 1), (0, 1), (1, 2), (0.5, 1), (1 + 1j, 1j), (0.5, 0.4 + 0.6j)])
def test_addr_of_complex_infinities(dtype: torch.dtype, factors: tuple[complex, complex]) -> None:
    beta, alpha = factors
    start, x, y = (torch.tensor([[2 + 1j, complex(INF, 1)]], dtype=dtype).expand(16, 2).clone(),
                   torch.tensor(COMPLEX_PARTS, dtype=dtype), torch.tensor([1.0, 2j], dtype=dtype))  # fmt: skip
    want = start.addr(x, y, beta=beta, alpha=alpha)
    same(start.to("xpu").addr(x.to("xpu"), y.to("xpu"), beta=beta, alpha=alpha), want)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (1, 6), (7, 1), (5, 40)])
@pytest.mark.parametrize("by_columns", [False, True])
def test_products_of_a_complex_matrix_and_a_vector_are_multiplied_by_one(
    dtype: torch.dtype, shape: tuple[int, int], by_columns: bool
) -> None:
    """Which infinities become NaN depends on the layout, in torch as here."""
    rows, columns = shape
    for value in COMPLEX_PARTS:
        m = torch.ones(shape, dtype=dtype)
        m = m.t().contiguous().t() if by_columns else m
        x, start = torch.full((columns,), 2 + 1j, dtype=dtype), torch.full((rows,), complex(INF, 1), dtype=dtype)
        x[-1] = value
        same(m.to("xpu").mv(x.to("xpu")), m.mv(x))
        for beta, alpha in ((1, 1), (0, 1), (0.5, 2), (1, 1j)):
            got = start.to("xpu").addmv(m.to("xpu"), x.to("xpu"), beta=beta, alpha=alpha)
            same(got, start.addmv(m, x, beta=beta, alpha=alpha))
        m[0, 0], x[-1] = value, 1
        same(m.to("xpu").mv(x.to("xpu")), m.mv(x))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_padding_of_a_float64_convolution_is_zeros(dims: int, groups: int) -> None:
    """Times an infinite weight it is NaN."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, *[6, 7, 5][:dims], dtype=torch.float64)
    w = torch.randn(4, 4 // groups, *[3] * dims, dtype=torch.float64)
    w.view(-1)[0] = INF
    conv = getattr(F, f"conv{dims}d")
    for options in ({"padding": 1}, {"padding": 2, "stride": 2, "dilation": 2}, {}):
        want = conv(x, w, groups=groups, **options)
        got = conv(x.to("xpu"), w.to("xpu"), groups=groups, **options)
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)
        assert want.isnan().any() == bool(options)


@pytest.mark.parametrize("places", [3, [1, 3], [0, 7, -2]])
def test_tensor_split_takes_places_on_the_device(places: int | list[int]) -> None:
    x = torch.arange(20.0).reshape(5, 4)
    on_device = x.to("xpu").requires_grad_()
    want = torch.tensor_split(x, torch.tensor(places))
    for at in (torch.tensor(places), torch.tensor(places, device="xpu")):
        got = torch.tensor_split(on_device, at)
        assert [g.tolist() for g in got] == [w.tolist() for w in want]
    got[0].sum().backward()
    assert on_device.grad is not None and on_device.grad.sum().item() == want[0].numel()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 2, 3)])
def test_saturated_weights_are_a_copy(shape: tuple[int, ...]) -> None:
    w = torch.full(shape, 1e5, device="xpu")
    got = torch.ops.aten._saturate_weight_to_fp16(w)
    assert got.eq(65504).all() and got.shape == w.shape and w.eq(1e5).all()
    assert torch.ops.aten._saturate_weight_to_fp16(-w).eq(-65504).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("beta", [12.0, 79.0, 100.0, -100.0, 705.0, 1e4])
def test_steep_kaiser_windows(dtype: torch.dtype, beta: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    n, steep = 9, abs(beta)
    want = [mpmath.besseli(0, steep * mpmath.sqrt(1 - mpmath.mpf(k - 4) ** 2 / 16)) for k in range(n)]
    want = [float(v / mpmath.besseli(0, steep)) for v in want]
    got = torch.kaiser_window(n, periodic=False, beta=beta, dtype=dtype, device="xpu")
    # an exponent of size beta keeps its absolute error
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-13}[dtype]
    tolerance = max(tolerance, steep * (1e-15 if dtype == torch.float64 else 5e-7))
    torch.testing.assert_close(got.cpu(), torch.tensor(want, dtype=dtype), rtol=tolerance, atol=1e-30)


def test_a_kaiser_window_of_infinite_beta_is_its_middle() -> None:
    assert torch.kaiser_window(5, periodic=False, beta=INF, device="xpu").tolist() == [0, 0, 1, 0, 0]
    assert torch.kaiser_window(4, periodic=True, beta=INF, device="xpu").tolist() == [0, 0, 1, 0]
