"""onednn::qlinear_pointwise and onednn::qconv_pointwise: against exact arithmetic, and against torch's own CPU kernels."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.anisotropic import anisotropic
from support.compare import assert_near
from support.dirty import dirty_memory

import xpu_ops

ops = torch.ops.onednn
UNARY: list[tuple[str, list[Any], str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("none", [], "", lambda t: t),
    ("relu", [], "", F.relu),
    ("gelu", [], "tanh", lambda t: F.gelu(t, approximate="tanh")),
    ("hardtanh", [-0.5, 1.0], "", lambda t: t.clamp(-0.5, 1.0)),
    ("swish", [], "", F.silu),
]
OUTPUTS = [torch.float32, torch.bfloat16, torch.uint8, torch.int8]
X_SCALE, OUT_SCALE, OUT_ZERO = 0.02, 0.05, 3


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    with xpu_ops.fallback.forbid():
        yield


def integers(low: int, high: int, *shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    # Small enough that no machine's 8-bit instructions saturate between two products.
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def activations(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return (
        integers(0, 60, *shape, dtype=dtype, seed=seed)
        if dtype == torch.uint8
        else integers(-30, 30, *shape, dtype=dtype, seed=seed)
    )


def scales(n: int) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(9)) * 0.02 + 0.01


def output(dtype: torch.dtype) -> tuple[float, int, torch.dtype]:
    return (1.0, 0, dtype) if dtype.is_floating_point else (OUT_SCALE, OUT_ZERO, dtype)


def quantized(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return value
    info = torch.iinfo(dtype)
    return (value / OUT_SCALE + OUT_ZERO).round().clamp(info.min, info.max)


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert actual.dtype == dtype
    atol = {torch.float32: 1e-4, torch.bfloat16: 2e-2}.get(dtype, 1.0)  # a rounding tie may go either way
    assert_near(actual, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=atol)
    if not dtype.is_floating_point:
        assert (actual.cpu().double() != expected.double()).double().mean() < 0.02


def xpu(*tensors: Any) -> list[Any]:
    return [t.to("xpu") if isinstance(t, torch.Tensor) else t for t in tensors]


class Linear:
    def __init__(self, dtype: torch.dtype, per_channel: bool, zero: int, rows: tuple[int, ...] = (12,)) -> None:
        self.x = activations(*rows, 40, dtype=dtype)
        self.w = integers(-20, 20, 24, 40, dtype=torch.int8, seed=1)
        self.scale = scales(24 if per_channel else 1)
        self.zeros = torch.zeros(self.scale.numel(), dtype=torch.int32)
        self.bias = torch.linspace(-1, 1, 24)
        self.zero = zero

    def exact(self) -> torch.Tensor:
        w = self.w.double() * self.scale.double()[:, None]
        return F.linear((self.x.double() - self.zero) * X_SCALE, w, self.bias.double())

    def call(
        self, device: str, rest: tuple[Any, ...], other: tuple[Any, ...] = (), tensors: bool = False
    ) -> torch.Tensor:
        x, w, s, z, b = (t.to(device) for t in (self.x, self.w, self.scale, self.zeros, self.bias))
        packed = ops.qlinear_prepack(w, list(self.x.shape))
        quant: tuple[Any, ...] = (X_SCALE, self.zero)
        if tensors:
            quant = (
                torch.tensor([X_SCALE], device=device),
                torch.tensor([self.zero], dtype=torch.int32, device=device),
            )
        op = ops.qlinear_pointwise.binary if other else ops.qlinear_pointwise
        if tensors:
            op = ops.qlinear_pointwise.binary_tensor if other else ops.qlinear_pointwise.tensor
        return op(x, *quant, packed, s, z, *other, b, *rest)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
@pytest.mark.parametrize("out", OUTPUTS, ids=str)
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("zero", [0, 7])
def test_qlinear(dtype: torch.dtype, out: torch.dtype, per_channel: bool, zero: int) -> None:
    case = Linear(dtype, per_channel, zero)
    for name, args, algorithm, function in UNARY:
        rest = (*output(out), name, args, algorithm)
        expected = quantized(function(case.exact()), out)
        actual = case.call("xpu", rest)
        close(actual, expected, out)
        again = case.call("xpu", rest, tensors=True)
        assert torch.equal(actual, again)
        close(again, expected, out)
        close(case.call("cpu", rest), expected, out)  # torch's own kernel of the schema agrees


def test_qconv_that_meets_only_padding() -> None:
    """Padding is the zero point; oneDNN took it for 0 where no window meets the image."""
    x = activations(3, 3, 7, 1, dtype=torch.uint8).to("xpu")
    w = integers(-20, 20, 2, 3, 4, 2, dtype=torch.int8, seed=1).to("xpu")
    scale, zeros, where = (
        scales(2).to("xpu"),
        torch.zeros(2, dtype=torch.int32, device="xpu"),
        ([3, 1], [1, 1], [1, 2], 1),
    )
    packed = ops.qconv_prepack(w, scale, X_SCALE, 7, *where, list(x.shape))
    actual = ops.qconv_pointwise(
        x, X_SCALE, 7, packed, scale, zeros, None, *where, *output(torch.float32), "none", [], ""
    )
    assert actual.shape == (3, 2, 2, 1) and not actual.any()


def qconv_as_exact(call: dict[str, Any], dtype: torch.dtype, zero: int, out: torch.dtype) -> None:
    """A quantized convolution in memory that is not zero, against double."""
    (cin, cout), groups, kernel = call["channels"], call["groups"], call["kernel"]
    where = (call["stride"], call["padding"], call["dilation"], groups)
    x = activations(call["batch"], cin, *call["size"], dtype=dtype)
    if call["last"] and len(kernel) > 1:
        x = x.to(memory_format=torch.channels_last if len(kernel) == 2 else torch.channels_last_3d)
    w = integers(-20, 20, cout, cin // groups, *kernel, dtype=torch.int8, seed=1)
    s, b = scales(cout), torch.linspace(-1, 1, cout) if call["bias"] else None
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    exact = conv(
        (x.double() - zero) * X_SCALE,
        w.double() * s.double().reshape(-1, *[1] * (len(kernel) + 1)),
        None if b is None else b.double(),
        *where,
    )
    x, w, s, zeros, b = xpu(x, w, s, torch.zeros(cout, dtype=torch.int32), b)
    packed = ops.qconv_prepack(w, s, X_SCALE, zero, *where, list(x.shape))
    op = (ops.qconv1d_pointwise, ops.qconv2d_pointwise, ops.qconv3d_pointwise)[len(kernel) - 1]
    dirty_memory()
    close(op(x, X_SCALE, zero, packed, s, zeros, b, *where, *output(out), "none", [], ""), quantized(exact, out), out)


@pytest.mark.parametrize("out", [torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("seed", range(4))
def test_qconv_of_dimensions_that_differ(seed: int, zero: int, out: torch.dtype) -> None:
    draw = random.Random(seed)
    for call in filter(None, (anisotropic(draw) for _ in range(60))):
        if call["transposed"]:
            continue
        try:
            qconv_as_exact(call, torch.uint8, zero, out)
        except AssertionError as error:
            raise AssertionError(f"{call}: {error}") from None


@pytest.mark.parametrize("results", [17, 32, 48])
def test_qconv_of_groups_with_one_channel(results: int) -> None:
    """oneDNN took another group's compensation of the zero point."""
    call = {"size": [5, 9], "kernel": [2, 4], "stride": [1, 1], "padding": [2, 2], "dilation": [2, 1], "groups": 2}
    call |= {"channels": (2, 2 * results), "batch": 1, "last": True, "bias": True}
    qconv_as_exact(call, torch.uint8, 7, torch.float32)


@pytest.mark.parametrize("out", [torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("binary", ["sum", "add"])
@pytest.mark.parametrize("rows", [(12,), (2, 5)], ids=str)
def test_qlinear_binary(out: torch.dtype, binary: str, rows: tuple[int, ...]) -> None:
    case = Linear(torch.uint8, True, 5, rows)
    exact = case.exact()
    other = torch.randn(exact.shape, generator=torch.Generator().manual_seed(3))
    scale, zero, value = 1.0, 0, other.double()
    if out == torch.uint8:
        scale, zero = 0.04, 20
        other = (other / scale + zero).round().clamp(0, 255).to(torch.uint8)
        value = (other.double() - zero) * scale
    expected = quantized(F.relu(exact + value), out)
    given = other.to("xpu")
    rest = (*output(out), scale, zero, binary, 1.0, "relu", [], "")
    actual = case.call("xpu", rest, (given,))
    close(actual, expected, out)
    if binary == "sum":
        assert actual.data_ptr() == given.data_ptr()
    else:
        assert torch.equal(given.cpu(), other)
        assert torch.equal(case.call("xpu", rest, (given,), tensors=True), actual)


def test_packed_weights_are_used_again() -> None:
    from xpu_ops import onednn

    x, w = activations(64, 256, dtype=torch.uint8).to("xpu"), integers(-20, 20, 256, 256, dtype=torch.int8).to("xpu")
    packed = ops.qlinear_prepack(w, None)
    args = (x, X_SCALE, 3, packed, scales(256).to("xpu"), torch.zeros(256, dtype=torch.int32, device="xpu"), None)
    with torch.no_grad():
        results = [ops.qlinear_pointwise(*args, 1.0, 0, torch.float32, "none", [], "").cpu()]
        for _ in range(3):  # kept from the second use on
            results.append(ops.qlinear_pointwise(*args, 1.0, 0, torch.float32, "none", [], "").cpu())
        before = onednn.weight_cache.packs
        results.append(ops.qlinear_pointwise(*args, 1.0, 0, torch.float32, "none", [], "").cpu())
        assert onednn.weight_cache.packs == before
    exact = F.linear((x.cpu().double() - 3) * X_SCALE, w.cpu().double() * scales(256).double()[:, None])
    for r in results:
        torch.testing.assert_close(r.double(), exact, rtol=1e-4, atol=1e-3)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = [
    # input, weight, stride, padding, groups
    ((2, 8, 9, 9), (16, 8, 3, 3), 1, 1, 1),
    ((2, 8, 9, 9), (16, 8, 1, 1), 1, 0, 1),
    ((2, 8, 9, 9), (16, 4, 3, 3), 2, 1, 2),
    ((2, 16, 9, 9), (16, 1, 3, 3), 1, 1, 16),
    ((2, 8, 9), (16, 8, 3), 1, 1, 1),
    ((1, 4, 5, 6, 7), (8, 4, 2, 2, 2), 1, 0, 1),
]


class Conv:
    def __init__(self, case: int, dtype: torch.dtype, per_channel: bool, zero: int, last: bool) -> None:
        shape, kernel, stride, padding, self.groups = CONVOLUTIONS[case]
        spatial = len(shape) - 2
        self.x = activations(*shape, dtype=dtype)
        if last and spatial == 2:
            self.x = self.x.to(memory_format=torch.channels_last)
        self.w = integers(-20, 20, *kernel, dtype=torch.int8, seed=1)
        self.scale = scales(kernel[0] if per_channel else 1)
        self.zeros = torch.zeros(self.scale.numel(), dtype=torch.int32)
        self.bias = torch.linspace(-1, 1, kernel[0])
        self.zero = zero
        self.where = ([stride] * spatial, [padding] * spatial, [1] * spatial, self.groups)

    def exact(self) -> torch.Tensor:
        w = self.w.double() * self.scale.double().view(-1, *(1,) * (self.w.dim() - 1))
        stride, padding, dilation, groups = self.where
        return torch.convolution(
            (self.x.double() - self.zero) * X_SCALE, w, self.bias.double(), stride, padding, dilation, False,
            [0] * len(stride), groups,
        )  # fmt: skip

    def call(self, op: Any, device: str, rest: tuple[Any, ...], accumulator: tuple[Any, ...] = ()) -> torch.Tensor:
        x, w, s, z, b = (t.to(device) for t in (self.x, self.w, self.scale, self.zeros, self.bias))
        packed = ops.qconv_prepack(w, s, X_SCALE, self.zero, *self.where, list(x.shape))
        return op(x, X_SCALE, self.zero, packed, s, z, *accumulator, b, *self.where, *rest)


@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("out", OUTPUTS, ids=str)
@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_qconv(case: int, out: torch.dtype, per_channel: bool, last: bool) -> None:
    for dtype, zero in ((torch.uint8, 0), (torch.uint8, 7), (torch.int8, 0)):
        conv = Conv(case, dtype, per_channel, zero, last)
        for name, args, algorithm, function in UNARY[:4]:
            rest = (*output(out), name, args, algorithm)
            expected = quantized(function(conv.exact()), out)
            actual = conv.call(ops.qconv_pointwise, "xpu", rest)
            close(actual, expected, out)
            if conv.x.dim() > 3:
                formats = {4: torch.channels_last, 5: torch.channels_last_3d}
                assert actual.is_contiguous(memory_format=formats[conv.x.dim()])
            named = [ops.qconv1d_pointwise, ops.qconv2d_pointwise, ops.qconv3d_pointwise][conv.x.dim() - 3]
            assert torch.equal(conv.call(named, "xpu", rest), actual)
        if dtype == torch.uint8 and conv.x.dim() == 4:  # torch's own kernel takes these activations in 2-D only
            close(conv.call(ops.qconv_pointwise, "cpu", rest), expected, out)


@pytest.mark.parametrize("out", [torch.float32, torch.uint8], ids=str)
@pytest.mark.parametrize("tensors", [False, True])
def test_qconv_binary(out: torch.dtype, tensors: bool) -> None:
    conv = Conv(0, torch.uint8, True, 5, True)
    exact = conv.exact()
    other = torch.randn(exact.shape, generator=torch.Generator().manual_seed(3)).to(memory_format=torch.channels_last)
    scale, zero, value = 1.0, 0, other.double()
    if out == torch.uint8:
        scale, zero = 0.04, 20
        other = (other / scale + zero).round().clamp(0, 255).to(torch.uint8)
        value = (other.double() - zero) * scale
    rest = (*output(out), scale, zero, "sum", 1.0, "relu", [], "")
    given = other.to("xpu")
    if tensors:
        x, w, s, z, b = xpu(conv.x, conv.w, conv.scale, conv.zeros, conv.bias)
        quant = (torch.tensor([X_SCALE], device="xpu"), torch.tensor([5], device="xpu"))
        actual = ops.qconv2d_pointwise.binary_tensor(x, *quant, w, s, z, given, b, *conv.where, *rest)
    else:
        actual = conv.call(ops.qconv2d_pointwise.binary, "xpu", rest, (given,))
    assert actual.data_ptr() == given.data_ptr()
    close(actual, quantized(F.relu(exact + value), out), out)


def test_float8_output_and_input_are_decomposed() -> None:
    case = Linear(torch.int8, True, 0)
    out = case.call("xpu", (0.5, 0, torch.float8_e4m3fn, "none", [], ""))
    expected = (case.exact() / 0.5).float().to(torch.float8_e4m3fn)
    torch.testing.assert_close(out.cpu().float(), expected.float(), rtol=0.13, atol=0.02)  # one step of float8
    case.x = case.x.to(torch.float8_e4m3fn)
    close(case.call("xpu", (1.0, 0, torch.float32, "relu", [], "")), F.relu(case.exact()), torch.float32)


def test_errors() -> None:
    case = Linear(torch.uint8, True, 0)
    with pytest.raises(RuntimeError, match="have to be 1 and 0"):
        case.call("xpu", (0.5, 0, torch.float32, "none", [], ""))
    with pytest.raises(ValueError, match="unknown post-op"):
        case.call("xpu", (1.0, 0, torch.float32, "nope", [], ""))
    with pytest.raises(RuntimeError, match="expected an output of type"):
        case.call("xpu", (1.0, 0, torch.float64, "none", [], ""))
    with pytest.raises(RuntimeError, match="unsupported binary"):
        case.call(
            "xpu", (1.0, 0, torch.float32, 1.0, 0, "mul", 1.0, "none", [], ""), (torch.ones(12, 24, device="xpu"),)
        )
    with pytest.raises(RuntimeError, match="the type of the tensor to add to"):
        case.call(
            "xpu", (1.0, 0, torch.bfloat16, 1.0, 0, "sum", 1.0, "none", [], ""), (torch.ones(12, 24, device="xpu"),)
        )
    case.scale = case.scale[:5]
    with pytest.raises(RuntimeError, match="expected 1 or 24 weight scales"):
        case.call("xpu", (1.0, 0, torch.float32, "none", [], ""))
