"""Quantized tensors against the CPU: conversions, memory, copies between devices, and what torch makes of them."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_same, to_device

import xpu_ops

A = torch.ops.aten
DTYPES = [torch.quint8, torch.qint8, torch.qint32]

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*quantize.*:UserWarning", "ignore:TypedStorage is deprecated:UserWarning"
)


@pytest.fixture(autouse=True)
def no_fallback(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.function.__name__.endswith("_fall_back"):
        yield
        return
    with xpu_ops.fallback.forbid():
        yield


def values(*shape: int) -> torch.Tensor:
    """Quarters: ties of a grid of halves, on both sides of every range of eight bits."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 % 1201 - 600) / 4).reshape(shape)


LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "contiguous": lambda: values(6, 50),
    "transposed": lambda: values(50, 6).t(),
    "stepped": lambda: values(6, 100)[:, ::2],
    "expanded": lambda: values(6, 1).expand(6, 50),
    "channels last": lambda: values(2, 3, 5, 7).to(memory_format=torch.channels_last),
    "many": lambda: values(3, 70, 90),
    "empty": lambda: values(6, 50)[:, :0],
    "none": lambda: values(0, 50),
    "one": lambda: values(1, 1),
}


def zeros_of(dtype: torch.dtype, n: int) -> torch.Tensor:
    return torch.arange(n) % 5 + (3 if dtype == torch.quint8 else -2)


def scales_of(n: int) -> torch.Tensor:
    """Powers of two: their reciprocals are exact, so that ties stay ties."""
    return 2.0 ** (torch.arange(n) % 4 - 2)


def per_channel(x: torch.Tensor, axis: int, dtype: torch.dtype, device: str, floats: bool = False) -> torch.Tensor:
    scales, zeros = scales_of(x.shape[axis]), zeros_of(dtype, x.shape[axis])
    return torch.quantize_per_channel(
        x.to(device), scales.to(device), (zeros + 0.25 if floats else zeros).to(device), axis, dtype
    )


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    """Scheme, parameters, layout and integers."""
    assert got.is_quantized and got.device.type == "xpu" and got.dtype == want.dtype
    assert got.qscheme() == want.qscheme() and got.shape == want.shape
    if want.numel():
        assert got.stride() == want.stride()
    if want.qscheme() == torch.per_tensor_affine:
        assert (got.q_scale(), got.q_zero_point()) == (want.q_scale(), want.q_zero_point())
    else:
        assert got.q_per_channel_axis() == want.q_per_channel_axis()
        assert got.q_per_channel_scales().device == got.device
        assert_same(got.q_per_channel_scales(), want.q_per_channel_scales())
        assert_same(got.q_per_channel_zero_points(), want.q_per_channel_zero_points())
    assert_same(got.int_repr(), want.int_repr(), strides=True)
    assert_same(got.dequantize(), want.dequantize(), strides=True)


# ---- conversions


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_per_tensor(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout]()
    for scale, zero in ((0.5, 3), (0.1, 100), (3.0, 0)):
        same(
            torch.quantize_per_tensor(x.to("xpu"), scale, zero, dtype), torch.quantize_per_tensor(x, scale, zero, dtype)
        )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_per_channel(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout]()
    for axis in range(2):  # the CPU takes no other of a channels-last tensor
        same(per_channel(x, axis, dtype, "xpu"), per_channel(x, axis, dtype, "cpu"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last", "many"])
def test_zero_points_between_the_points(layout: str, dtype: torch.dtype) -> None:
    """Against the formula: torch 2.13's kernels for the CPU end the process without AVX-512."""
    x = LAYOUTS[layout]()
    low, high = {torch.quint8: (0, 255), torch.qint8: (-128, 127), torch.qint32: (-(2**31), 2**31 - 1)}[dtype]
    for axis in (0, 1):
        got = per_channel(x, axis, dtype, "xpu", floats=True)
        assert got.qscheme() == torch.per_channel_affine_float_qparams
        sizes = [-1 if d == axis else 1 for d in range(x.dim())]
        scales, zeros = scales_of(x.shape[axis]).view(sizes), (zeros_of(dtype, x.shape[axis]) + 0.25).view(sizes)
        points = (x / scales + zeros).round().clamp(low, high)
        assert_same(got.int_repr().long(), points.long())
        assert_same(got.dequantize(), (points - zeros) * scales)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_values(dtype: torch.dtype) -> None:
    x, scales = torch.randn(70, 33) * 20, torch.rand(33) + 0.05
    for scale in scales[:5].tolist():
        same(torch.quantize_per_tensor(x.to("xpu"), scale, 2, dtype), torch.quantize_per_tensor(x, scale, 2, dtype))
    zeros = zeros_of(dtype, 33)
    got = torch.quantize_per_channel(*to_device((x, scales, zeros)), 1, dtype)
    same(got, torch.quantize_per_channel(x, scales, zeros, 1, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number(dtype: torch.dtype) -> None:
    for x in (torch.tensor(3.3), torch.tensor(-1e30)):
        same(torch.quantize_per_tensor(x.to("xpu"), 0.1, 0, dtype), torch.quantize_per_tensor(x, 0.1, 0, dtype))


def test_ends_of_the_range() -> None:
    """NaN is the lowest point; C++ leaves open what the CPU makes of it."""
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, -0.0], device="xpu")
    for dtype, low, high in ((torch.quint8, 0, 255), (torch.qint8, -128, 127), (torch.qint32, -(2**31), 2**31 - 1)):
        q = torch.quantize_per_tensor(x, 0.1, 1, dtype)
        assert q.int_repr().tolist() == [low, high, low, high, low, 1]


def test_parameters_in_tensors() -> None:
    x = values(4, 5)
    scale, zero = torch.tensor(0.25), torch.tensor(7)
    same(A.quantize_per_tensor.tensor_qparams(*to_device((x, scale, zero)), torch.quint8),
         A.quantize_per_tensor.tensor_qparams(x, scale, zero, torch.quint8))  # fmt: skip
    lists = [x, x[0], x[:0]], torch.tensor([0.25, 0.5, 1.0]), torch.tensor([7, 0, 1])
    for got, want in zip(
        A.quantize_per_tensor.tensors(*to_device(lists), torch.quint8),
        A.quantize_per_tensor.tensors(*lists, torch.quint8),
        strict=True,
    ):
        same(got, want)
    assert [t.shape for t in torch.dequantize([got, got])] == [got.shape] * 2


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("reduce", [False, True])
def test_dynamic(dtype: torch.dtype, reduce: bool) -> None:
    for x in (torch.randn(30, 20), torch.rand(7) + 3, torch.zeros(4)):
        same(torch.quantize_per_tensor_dynamic(x.to("xpu"), dtype, reduce),
             torch.quantize_per_tensor_dynamic(x, dtype, reduce))  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
def test_from_integers(dtype: torch.dtype) -> None:
    q = torch.arange(60, dtype=dtype).reshape(12, 5)
    for t in (q, q.t(), q[::2], q[:0]):
        same(A._make_per_tensor_quantized_tensor(t.to("xpu"), 0.5, 3), A._make_per_tensor_quantized_tensor(t, 0.5, 3))
        scales, zeros = scales_of(t.shape[1]), zeros_of(torch.quint8, t.shape[1])
        got = A._make_per_channel_quantized_tensor(*to_device((t, scales, zeros)), 1)
        same(got, A._make_per_channel_quantized_tensor(t, scales, zeros, 1))


BAD: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "double": (torch.quantize_per_tensor, (values(3).double(), 0.1, 0, torch.quint8)),
    "integers": (torch.quantize_per_tensor, (values(3).int(), 0.1, 0, torch.quint8)),
    "not quantized": (torch.quantize_per_tensor, (values(3), 0.1, 0, torch.uint8)),
    "zero above": (torch.quantize_per_tensor, (values(3), 0.1, 256, torch.quint8)),
    "zero below": (torch.quantize_per_tensor, (values(3), 0.1, -1, torch.quint8)),
    "zeros above": (torch.quantize_per_channel, (values(2, 3), torch.ones(2), torch.tensor([1, 128]), 0, torch.qint8)),
    "axis": (torch.quantize_per_channel, (values(2, 3), torch.ones(2), torch.zeros(2).long(), 2, torch.qint8)),
    "negative axis": (torch.quantize_per_channel, (values(2, 3), torch.ones(3), torch.zeros(3).long(), -1, torch.qint8)),
    "scales": (torch.quantize_per_channel, (values(2, 3), torch.ones(3), torch.zeros(3).long(), 0, torch.qint8)),
    "zeros": (torch.quantize_per_channel, (values(2, 3), torch.ones(2), torch.zeros(3).long(), 0, torch.qint8)),
    "rank of scales": (torch.quantize_per_channel, (values(2, 3), torch.ones(2, 1), torch.zeros(2).long(), 0, torch.qint8)),
    "whole scales": (torch.quantize_per_channel, (values(2, 3), torch.ones(2).int(), torch.zeros(2).long(), 0, torch.qint8)),
    "dynamic of 32 bits": (torch.quantize_per_tensor_dynamic, (values(3), torch.qint32, False)),
    "dynamic of nothing": (torch.quantize_per_tensor_dynamic, (values(0), torch.quint8, False)),
    "floats as integers": (A._make_per_tensor_quantized_tensor, (values(3), 0.1, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors(name: str) -> None:
    function, args = BAD[name]
    with pytest.raises(Exception) as expected:
        function(*args)
    with pytest.raises(RuntimeError) as raised:
        function(*to_device(args))
    assert isinstance(expected.value, RuntimeError) and str(raised.value)


def test_types_of_less_than_a_byte_are_refused() -> None:
    x, one = torch.randn(4, 4, device="xpu"), torch.ones(4, device="xpu")
    for call in (
        lambda: torch.quantize_per_channel(x, one, one, 0, torch.quint4x2),
        lambda: torch._empty_affine_quantized([2], dtype=torch.quint2x4, device="xpu"),
    ):
        with pytest.raises(NotImplementedError, match="exist on the CPU alone; xpu has quint8, qint8 and qint32"):
            call()
    with pytest.raises(RuntimeError, match="requires quantized dtype"):
        torch._empty_affine_quantized([2], dtype=torch.uint8, device="xpu")


# ---- memory


def pair(kind: str, dtype: torch.dtype = torch.qint8, shape: tuple[int, ...] = (4, 6)) -> list[torch.Tensor]:
    x = values(*shape)
    if kind == "tensor":
        return [torch.quantize_per_tensor(x.to(device), 0.5, 3, dtype) for device in ("xpu", "cpu")]
    return [per_channel(x, 1, dtype, device) for device in ("xpu", "cpu")]


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda q: q.view(3, 8),
    "reshape": lambda q: q.t().reshape(-1),
    "slice": lambda q: q[1:, ::2],
    "select": lambda q: q[2],
    "permute": lambda q: q.permute(1, 0),
    "unsqueeze": lambda q: q.unsqueeze(1).squeeze(1).unsqueeze(0).squeeze(),
    "unfold": lambda q: q.unfold(1, 2, 2),
    "as_strided": lambda q: q.as_strided((2, 3), (3, 1), 4),
    "expand": lambda q: q[:, :1].expand(4, 5),
    "chunk": lambda q: q.chunk(2, 1)[1],
    "detach": lambda q: q.detach(),
    "contiguous": lambda q: q.t().contiguous(),
    "clone": lambda q: q[:, 1:].clone(),
    "copy": copy.deepcopy,
    "relu": torch.relu,
    "flip": lambda q: q.flip(1),
    "index_select": lambda q: q.index_select(1, torch.tensor([5, 0, 0], device=q.device)),
    "greatest": lambda q: q.max(1).values,
    "least": lambda q: q.min(0).values,
    "max_pool2d": lambda q: torch.max_pool2d(q.view(2, 3, 4)[None], 2, 1, 1),
    "filled": lambda q: q.clone().fill_(7.6),
    "relu_": lambda q: q.clone().relu_(),
}


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
@pytest.mark.parametrize("name", VIEWS)
def test_views_and_moves(name: str, dtype: torch.dtype) -> None:
    got, want = (VIEWS[name](q) for q in pair("tensor", dtype))
    same(got, want)


@pytest.mark.parametrize("kind", ["tensor", "channels"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_between_devices(kind: str, dtype: torch.dtype) -> None:
    got, want = pair(kind, dtype)
    same(want.to("xpu"), want)
    back = got.cpu()
    assert back.device.type == "cpu" and torch.equal(back, want)
    if kind == "channels":
        assert back.q_per_channel_scales().device.type == "cpu"
    for t in (got, want):
        same(got.clone().copy_(t), want)
        same(torch.empty_like(got).copy_(t), want)
        assert torch.equal(want.clone().copy_(t), want)
    assert torch.equal(got, want.to("xpu")) and not torch.equal(got, got.flip(0))
    assert got.is_xpu and repr(got.cpu()) == repr(want)


def test_copies_of_values() -> None:
    x = values(4, 6)
    for source in (x, x.to("xpu"), x.to("xpu").double(), torch.tensor(2.3)):
        got, want = pair("tensor")
        same(got.copy_(source), want.copy_(source.cpu().float().expand(4, 6).contiguous()))
    got, want = pair("tensor")
    assert torch.equal(want.clone().copy_(x.to("xpu")), want.copy_(x))
    with pytest.raises(RuntimeError, match="use dequantize"):
        x.to("xpu").copy_(got)
    with pytest.raises(RuntimeError, match="same type"):
        got.copy_(pair("tensor", torch.quint8)[0])
    with pytest.raises(RuntimeError, match="same qscheme"):
        got.copy_(pair("channels")[0])


@pytest.mark.parametrize("kind", ["tensor", "channels"])
def test_printed(kind: str) -> None:
    got, want = pair(kind)
    text = repr(got)
    assert "device='xpu:0'" in text and "quantization_scheme" in text
    assert text.splitlines()[0] == repr(want).splitlines()[0]


@pytest.mark.parametrize("kind", ["tensor", "channels"])
@pytest.mark.parametrize("where", ["xpu", "cpu"])
def test_saved_and_loaded(kind: str, where: str) -> None:
    got, want = pair(kind)
    file = io.BytesIO()
    torch.save({"q": got, "row": got[1:]}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=where, weights_only=False)
    assert loaded["q"].device.type == where
    assert torch.equal(loaded["q"].cpu(), want)
    assert torch.equal(loaded["row"].cpu().dequantize(), want[1:].dequantize())


def test_new_ones() -> None:
    q = torch._empty_affine_quantized([2, 3], scale=0.5, zero_point=4, dtype=torch.qint8, device="xpu")
    assert q.device.type == "xpu" and q.q_zero_point() == 4 and q.shape == (2, 3)
    last = torch._empty_affine_quantized(
        [2, 3, 4, 5], scale=0.5, zero_point=4, dtype=torch.qint8, device="xpu", memory_format=torch.channels_last
    )
    assert last.is_contiguous(memory_format=torch.channels_last)
    one = torch.ones(3, device="xpu")
    for device in ("xpu", "cpu"):  # of a device other than that of the scales, too
        c = torch._empty_per_channel_affine_quantized(
            [2, 3], scales=one, zero_points=one.long(), axis=1, dtype=torch.qint8, device=device
        )
        assert {c.device.type, c.q_per_channel_scales().device.type} == {device}
    assert torch.empty(3, dtype=torch.quint8, device="xpu").is_quantized
    assert torch.empty_strided((2, 3), (1, 2), dtype=torch.quint8, device="xpu").stride() == (1, 2)
    assert q.resize_(5).shape == (5,)
    with pytest.raises(RuntimeError, match="per-tensor schemes"):
        pair("channels")[0].resize_(5)


def test_memory_is_shared() -> None:
    q = pair("tensor")[0]
    q[1].fill_(0)
    assert q.dequantize()[1].tolist() == [0] * 6
    alias = q.view(-1)
    alias.relu_()
    assert q.int_repr().min() == 3


def test_pooling_of_channels_last() -> None:
    x = values(2, 4, 9, 8)
    for t in (x, x.to(memory_format=torch.channels_last)):
        for args in ((2,), (3, 2, 1), (2, 1, 0, 2, True)):
            got, want = (
                torch.max_pool2d(torch.quantize_per_tensor(t.to(device), 0.5, 3, torch.quint8), *args)
                for device in ("xpu", "cpu")
            )
            same(got, want)


def test_schemes_that_have_no_kernel_raise() -> None:
    c = pair("channels")[0]
    for call in (torch.relu, lambda q: q.index_select(0, torch.tensor([0], device="xpu")), lambda q: q.clone().relu_()):
        with pytest.raises(RuntimeError, match="one scale only"):
            call(c)


# ---- everything else runs on the CPU, counted


def test_other_operators_fall_back() -> None:
    got, want = pair("tensor", torch.quint8)
    for function in (
        torch.sigmoid,
        lambda q: torch.cat([q, q]),
        lambda q: q.mean(1, keepdim=True),
        lambda q: q.topk(2)[0],
    ):
        xpu_ops.fallback.reset()
        a, b = function(got), function(want)
        assert sum(xpu_ops.fallback.counts().values()) >= 1
        same(a, b)
    mask = torch.arange(6) % 2 == 0
    got.masked_fill_(mask.to("xpu"), 1.5)
    same(got, want.masked_fill_(mask, 1.5))
    assert_same(got == got, want == want)


def test_nothing_is_composed_that_the_cpu_has() -> None:
    """torch composes structured operators of other structured ones, which quantized tensors do not have."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    composed = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    names = [n for n in torch._C._dispatch_get_all_op_names() if has(n, "QuantizedCPU") and not has(n, "QuantizedXPU")]
    assert len(names) > 20
    assert [n for n in names if any(has(n, key) for key in composed)] == []


def test_operators_that_the_cpu_has_not_fall_back() -> None:
    """They reach the fallback, which says so."""
    with pytest.raises(NotImplementedError, match="no kernel for quantized tensors, neither on the XPU device nor"):
        torch.sin(pair("tensor")[0])


@pytest.mark.parametrize("name", ["linear", "conv"])
def test_packed_layers_fall_back(name: str) -> None:
    """torch.ao's static flow: observed on the device, converted, run; the packed weights are the CPU's."""
    from torch.ao import quantization as Q

    torch.manual_seed(0)
    layers = [torch.nn.Linear(8, 6)] if name == "linear" else [torch.nn.Conv2d(3, 4, 3)]
    model = torch.nn.Sequential(Q.QuantStub(), *layers, torch.nn.ReLU(), Q.DeQuantStub()).eval()
    model.qconfig = Q.get_default_qconfig("fbgemm")
    x = torch.randn(2, 8) if name == "linear" else torch.randn(2, 3, 7, 7)
    results = []
    for device in ("cpu", "xpu"):
        prepared = Q.prepare(copy.deepcopy(model).to(device))
        prepared(x.to(device))
        converted = Q.convert(prepared)
        results.append(converted(x.to(device)))
    assert results[1].device.type == "xpu"
    assert_same(results[1], results[0])
    # A model that was quantized on the CPU moves.
    moved = Q.convert(Q.prepare(copy.deepcopy(model)))
    assert moved.to("xpu")(x.to("xpu")).device.type == "xpu"


def test_dynamic_layers_fall_back() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()
    x = torch.randn(5, 8)
    want = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, torch.qint8)
    xpu_ops.fallback.reset()
    for there in (
        torch.ao.quantization.quantize_dynamic(copy.deepcopy(model).to("xpu"), {torch.nn.Linear}, torch.qint8),
        copy.deepcopy(want).to("xpu"),
    ):
        assert_same(there(x.to("xpu")), want(x))
    assert xpu_ops.fallback.counts()["quantized::linear_dynamic"] == 4
