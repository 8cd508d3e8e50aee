"""Device copies, casts and fills against CPU: dtypes, layouts, overlap, bits of views."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e5m2fnuz, torch.float8_e4m3fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


def values(dtype: torch.dtype, n: int = 4099) -> torch.Tensor:
    """Bit patterns of the dtype: all of them where it has 8 or 16 bits, special values among the rest."""
    g = torch.Generator().manual_seed(7)
    size = torch.empty(0, dtype=dtype).element_size()
    if dtype is torch.bool:
        return torch.randint(0, 2, (n,), generator=g).bool()
    if dtype.is_complex:
        x = torch.randn(n, generator=g) * 3
        y = torch.randn(n, generator=g)
        x[:64], y[:32] = 0, 0
        x[100], y[101] = float("inf"), float("nan")
        return torch.complex(x, y).to(dtype)
    if size == 1:
        return torch.arange(n).to(torch.uint8).view(dtype)
    if size == 2:
        return torch.arange(65536).to(torch.int32).to(torch.int16).view(dtype)
    if dtype.is_floating_point:
        x = torch.randn(n, generator=g, dtype=torch.float64) * 10.0 ** torch.randint(-44, 38, (n,), generator=g)
        x[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-42])
        x[6:200] = torch.arange(194) * 0.5 - 40
        return x.to(dtype)
    shift = torch.randint(0, 62, (n,), generator=g)
    return torch.randint(-(2**62), 2**62, (n,), generator=g).bitwise_right_shift(shift).to(dtype)


def in_range(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where a cast of a float to an integer is defined (and the same on every CPU)."""
    if not x.is_floating_point() or dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        return torch.ones_like(x, dtype=torch.bool)
    wide = dtype in (torch.int64, torch.uint64)
    v = x.double()
    return (v > (-(2.0**62) if wide else -(2.0**31))) & (v < (2.0**62 if wide else 2.0**31 - 256))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal bits, any NaN equal to any other."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.is_complex():
        return same(torch.view_as_real(a), torch.view_as_real(b))
    if not a.is_floating_point():
        return (
            bool(
                (
                    a.view(torch.int8 if a.element_size() == 1 else torch.int64)
                    == b.view(a.dtype).view(torch.int8 if a.element_size() == 1 else torch.int64)
                ).all()
            )
            if a.element_size() in (1, 8)
            else torch.equal(a, b)
        )
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    nan_a, nan_b = a.double().isnan() if a.element_size() > 1 else a.float().isnan(), b.float().isnan()
    equal = a.contiguous().view(bits) == b.contiguous().view(bits)
    return bool((equal | (nan_a & nan_b)).all())


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_cast(source: torch.dtype, to: torch.dtype) -> None:
    x = values(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = x[in_range(x, to)]
        want = x.to(to)
        got = x.to("xpu").to(to)
        short = [part.to(to) for part in x.to("xpu").split(4099)]  # on the calling thread
    assert got.device.type == "xpu" and same(got.cpu(), want)
    assert all(same(part.cpu(), right) for part, right in zip(short, want.split(4099), strict=True))


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(-1, -2),
    "permuted": lambda t: t.permute(2, 0, 3, 1),
    "rows": lambda t: t[..., 3:-2],
    "steps": lambda t: t[:, ::2, 1::3, ::2],
    "expanded": lambda t: t[:, :1].expand(-1, 7, -1, -1),
    "expanded inner": lambda t: t[..., :1].expand(-1, -1, -1, 33),
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "offset": lambda t: t.flatten()[5:1005].view(10, 4, 25),
    "scalar": lambda t: t[1, 2, 3, 4],
    "empty": lambda t: t[:, :0],
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.int64, torch.complex128], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dtype: torch.dtype) -> None:
    base = torch.arange(6 * 8 * 21 * 40).reshape(6, 8, 21, 40).to(dtype)
    view = LAYOUTS[layout]
    x = view(base.to("xpu"))
    want = view(base)
    assert torch.equal(x.contiguous().cpu(), want)
    assert torch.equal(x.clone().cpu(), want) and x.clone().stride() == want.clone().stride()
    # strided on the host, dense on the device, and the other way round
    assert torch.equal(want.to("xpu").cpu(), want)
    assert torch.equal(x.cpu(), want) and x.cpu().stride() == want.clone().stride()
    # into strided memory, with and without a cast
    if "expanded" not in layout:
        for source in (
            want.flip(0) if want.dim() else want + 1,
            (want.flip(0) if want.dim() else want + 1).to(torch.float64),
        ):
            if dtype.is_complex and source.dtype is torch.float64:
                continue
            host = base.clone()
            view(host).copy_(source)
            device = base.to("xpu")
            view(device).copy_(source.to("xpu"))
            assert torch.equal(device.cpu(), host)
            device = base.to("xpu")
            view(device).copy_(source)
            assert torch.equal(device.cpu(), host)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.int64], ids=str)
def test_short_rows(dtype: torch.dtype) -> None:
    """Of 2 to 33 elements, apart from each other on one side or on both; what lies between them stays."""
    for width in range(2, 34):
        source = torch.arange(700 * (width + 3)).reshape(700, width + 3).to(dtype)
        view, target = source[:, 2 : width + 2], torch.zeros(700, width + 1, dtype=dtype)
        there, written = source.to("xpu")[:, 2 : width + 2], target.to("xpu")
        assert torch.equal(there.contiguous().cpu(), view)
        written[:, :width].copy_(there)
        target[:, :width].copy_(view)
        assert torch.equal(written.cpu(), target)
        padded = torch.nn.functional.pad(view.contiguous().to("xpu"), (1, 2), value=3)
        assert torch.equal(padded.cpu(), torch.nn.functional.pad(view, (1, 2), value=3))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32], ids=str)
def test_permutations(order: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randint(-100, 100, (5, 33, 18, 67)).to(dtype)
    assert torch.equal(x.to("xpu").permute(order).contiguous().cpu(), x.permute(order).contiguous())


@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_drawn_views(data: st.DataObject) -> None:
    """Permuted, sliced, stepped and expanded views of every element size, into dense memory and into views."""
    dtype = data.draw(st.sampled_from([torch.uint8, torch.bfloat16, torch.float32, torch.float64, torch.complex128]))
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 16, 19, 33, 70]), min_size=1, max_size=4))
    assume(math.prod(sizes) < 1_000_000)
    base = torch.arange(math.prod(sizes)).reshape(sizes).to(dtype)
    order = data.draw(st.permutations(range(len(sizes))))
    steps = [data.draw(st.sampled_from([1, 1, 1, 2, 3, 4])) for _ in sizes]
    starts = [data.draw(st.sampled_from([0, 0, 1])) for _ in sizes]

    def view(t: torch.Tensor) -> torch.Tensor:
        t = t.permute(order)
        return t[tuple(slice(a, None, s) for a, s in zip(starts, steps, strict=True))]

    want, x = view(base), base.to("xpu")
    assert torch.equal(view(x).contiguous().cpu(), want.contiguous())
    host, device = base.clone(), base.to("xpu")
    view(host).copy_(want.flip(0))
    view(device).copy_(want.flip(0).to("xpu"))
    assert torch.equal(device.cpu(), host)
    wide = data.draw(st.sampled_from([1, 5, 40]))
    assert torch.equal(
        view(x).unsqueeze(-1).expand(*want.shape, wide).contiguous().cpu(), want.unsqueeze(-1).expand(*want.shape, wide)
    )


def test_many_dims() -> None:
    x = torch.arange(2**12).reshape([2] * 12)
    order = [11, 3, 7, 0, 9, 5, 1, 10, 2, 8, 4, 6]
    assert torch.equal(x.to("xpu").permute(order).contiguous().cpu(), x.permute(order).contiguous())
    assert torch.equal(x.to("xpu").permute(order).float().cpu(), x.permute(order).float())


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_conj_and_neg_bits(dtype: torch.dtype) -> None:
    x = torch.randn(7, 9, dtype=dtype)
    d = x.to("xpu")
    assert torch.equal(d.conj().clone().cpu(), x.conj().resolve_conj())
    assert torch.equal(d.conj().resolve_conj().cpu(), x.conj().resolve_conj())
    assert torch.equal(d.conj().imag.clone().cpu(), x.conj().imag.clone())
    assert torch.equal(d.conj().imag.to(torch.float16).cpu(), x.conj().imag.to(torch.float16))
    assert torch.equal(d.mT.conj().cpu().resolve_conj(), x.mT.conj().resolve_conj())
    a, b = torch.zeros_like(x), torch.zeros_like(d)
    a.conj().copy_(x), b.conj().copy_(d)
    assert torch.equal(b.cpu(), a)
    a.conj().imag.fill_(2.5), b.conj().imag.fill_(2.5)
    assert torch.equal(b.cpu(), a)
    a.conj().fill_(1 + 2j), b.conj().fill_(1 + 2j)
    assert torch.equal(b.cpu(), a)


def test_overlap() -> None:
    x = torch.arange(100.0, device="xpu")
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].copy_(x[:-1])
    with pytest.raises(RuntimeError, match="single memory location"):
        x.view(10, 10).copy_(x.view(10, 10).t())
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.zeros(1, device="xpu").expand(3).copy_(torch.arange(3.0, device="xpu"))
    with pytest.raises(RuntimeError, match="single memory location"):
        x.copy_(x[1:2])
    with pytest.raises(RuntimeError, match="single memory location"):
        x[None].copy_(x)
    assert x.copy_(x) is x
    assert torch.equal(x.cpu(), torch.arange(100.0))


def test_broadcast_and_errors() -> None:
    x = torch.zeros(3, 4, device="xpu")
    x.copy_(torch.arange(4.0, device="xpu"))
    assert torch.equal(x.cpu(), torch.arange(4.0).expand(3, 4))
    with pytest.raises(RuntimeError, match="must match the size of tensor|broadcast"):
        x.copy_(torch.zeros(5, device="xpu"))


def test_item_of_nothing() -> None:
    with pytest.raises(RuntimeError, match="Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.empty(0, device="xpu"))
    with pytest.raises(RuntimeError, match="a Tensor with 0 elements cannot be converted to Scalar"):
        torch.empty(0, device="xpu").item()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fill(dtype: torch.dtype) -> None:
    value = True if dtype is torch.bool else 2
    for view in (
        lambda t: t,
        lambda t: t[::2, 1:],
        lambda t: t.t(),
        lambda t: t[:, :0],
        lambda t: t[1, 2],
        lambda t: t[:1].expand(4, -1),
        lambda t: t[:, 2:3].expand(-1, 20),
    ):
        a, b = torch.zeros(5, 7).to(dtype), torch.zeros(5, 7).to(dtype).to("xpu")
        view(a).fill_(value), view(b).fill_(value)
        assert same(b.cpu(), a)
        view(a).zero_(), view(b).zero_()
        assert same(b.cpu(), a)
    if dtype not in (torch.float8_e8m0fnu,):
        full = torch.full((3, 5), value, dtype=dtype)
        assert same(torch.full((3, 5), value, dtype=dtype, device="xpu").cpu(), full)
    b.fill_(torch.tensor(value, device="xpu"))
    b.fill_(torch.tensor(value))


def test_fill_errors() -> None:
    x = torch.zeros(3, dtype=torch.uint8, device="xpu")
    with pytest.raises(RuntimeError, match="overflow"):
        x.fill_(300)
    with pytest.raises(RuntimeError, match="0-dimension"):
        x.fill_(torch.zeros(2, device="xpu"))
    with pytest.raises(RuntimeError, match="single memory location|overflow|complex"):
        x.fill_(1j)
    x.fill_(x[1])


def test_to_and_memory_format() -> None:
    x = torch.randn(2, 3, 4, 5)
    d = x.to("xpu")
    for f in (torch.contiguous_format, torch.channels_last, torch.preserve_format):
        assert d.clone(memory_format=f).stride() == x.clone(memory_format=f).stride()
        y, e = d.to(torch.float16, memory_format=f), x.to(torch.float16, memory_format=f)
        assert y.stride() == e.stride() and torch.equal(y.cpu(), e)
    assert torch.equal(d[0].permute(2, 0, 1).double().cpu(), x[0].permute(2, 0, 1).double())


@pytest.mark.parametrize("dims", [65, 70, 130])
def test_more_dimensions_than_64(dims: int) -> None:
    """All but a few are one element long. A buffer of 64 dimensions was written past its end."""
    base = torch.arange(8.0).view([2] * 3 + [1] * (dims - 3))
    calls = (
        lambda x: x.clone(),
        lambda x: x.transpose(0, 2).contiguous(),
        lambda x: x.transpose(0, dims - 1).to(torch.int32),
        lambda x: x[:1].expand([5] + [2] * 2 + [1] * (dims - 3)).clone(),
        lambda x: x.repeat([3] + [1] * dims),
        lambda x: torch.zeros_like(x).copy_(x),
        lambda x: torch.ones_like(x).fill_(3),
        lambda x: torch.roll(x, 1, 0),
    )
    for call in calls:
        want, got = call(base), call(base.to("xpu"))
        assert got.shape == want.shape and torch.equal(got.cpu().flatten(), want.flatten())
