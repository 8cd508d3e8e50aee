"""Operators that stay operators in a compiled graph: which they are, and that values, strides and gradients are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor.utils import run_and_get_code

import xpu_ops

FORMATS = {4: [torch.contiguous_format, torch.channels_last], 5: [torch.contiguous_format, torch.channels_last_3d]}


def code_of(f: Callable[..., torch.Tensor], x: torch.Tensor) -> str:
    """The compiled graph's code, after a comparison of values, strides and gradients with eager's."""
    leaves = [x.clone(memory_format=torch.preserve_format).requires_grad_() for _ in range(2)]
    with xpu_ops.fallback.forbid():
        got, expected = torch.compile(f, fullgraph=True)(leaves[0]), f(leaves[1])
        assert got.stride() == expected.stride()
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
        weight = torch.randn_like(expected)
        gradients = [torch.autograd.grad(t, leaf, weight)[0] for t, leaf in ((got, leaves[0]), (expected, leaves[1]))]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            alone, more = run_and_get_code(torch.compile(f, fullgraph=True), x)
        assert alone.stride() == expected.stride()
        torch.testing.assert_close(alone, expected.detach(), rtol=1e-4, atol=1e-4)
    return more[-1]


@pytest.mark.parametrize("form", [0, 1], ids=["planes", "channels_last"])
@pytest.mark.parametrize("shape", [(2, 8, 9, 11), (2, 8, 3, 4, 5)], ids=str)
def test_group_norm_stays_an_operator(shape, form) -> None:
    w, b = torch.randn(8, device="xpu"), torch.randn(8, device="xpu")
    x = torch.randn(shape, device="xpu").to(memory_format=FORMATS[len(shape)][form])
    assert "native_group_norm" in code_of(lambda t: torch.sigmoid(F.group_norm(t * 2, 4, w, b)), x)


def test_group_norm_of_rows_is_fused() -> None:
    x = torch.randn(6, 64, device="xpu")
    code = code_of(lambda t: F.group_norm(t * 2, 4), x)
    assert "native_group_norm.default" not in code


def test_group_norm_behind_a_convolution() -> None:
    """The convolution's channels last go into the operator as they are."""
    model = nn.Sequential(nn.Conv2d(8, 32, 3), nn.Hardswish(), nn.GroupNorm(8, 32), nn.ReLU()).to("xpu").eval()
    x = torch.randn(2, 8, 20, 20, device="xpu")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model)(x), model(x), rtol=1e-4, atol=1e-4)


NORMED = {
    "conv3d": (nn.Conv3d(8, 16, 3), (2, 8, 8, 9, 11)),
    "conv_transpose3d": (nn.ConvTranspose3d(8, 16, 3), (2, 8, 5, 6, 7)),
    "conv2d": (nn.Conv2d(8, 16, 3), (2, 8, 19, 23)),
    "transposed": (nn.Unflatten(2, (33, 17)), (2, 16, 33 * 17)),
    "conv1d": (nn.Conv1d(8, 16, 3), (2, 8, 523)),
}


@pytest.mark.parametrize("padding", [False, True], ids=["dense", "padded"])
@pytest.mark.parametrize("name", NORMED)
def test_group_norm_takes_any_strides(name, padding) -> None:
    """The operator wants images that are contiguous or channels last: what a graph keeps in between need not be either."""
    layer, shape = NORMED[name]
    layer = copy.deepcopy(layer).to("xpu").eval()
    norm = nn.GroupNorm(4, 16).to("xpu").eval()

    def model(x: torch.Tensor) -> torch.Tensor:
        y = layer(x)
        y = y.transpose(-1, -2) if name == "transposed" else y
        return norm(F.hardswish(y)) + norm(y)

    x = torch.randn(shape, device="xpu")
    with torch.no_grad():
        compiled = torch.compile(model, options={"comprehensive_padding": padding})
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def test_instance_norm_stays_an_operator() -> None:
    conv = nn.Conv2d(4, 8, 3).to("xpu")
    x = torch.randn(2, 4, 20, 20, device="xpu")
    assert "_native_batch_norm_legit.no_stats(" in code_of(lambda t: F.instance_norm(conv(t)) / 2, x)


SOFTMAX: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": lambda t: torch.softmax(t, -1),
    "logarithm": lambda t: torch.log_softmax(t, 1),
    "middle": lambda t: torch.softmax(t + 1, 1) * 2,
    "scaled": lambda t: torch.softmax(t * 0.37, -1),
    "negative": lambda t: torch.softmax(t * -0.37, 0),
    "divided": lambda t: torch.softmax(t / 7.5, -1),
    "masked": lambda t: torch.softmax(t.masked_fill(t < 0, -torch.inf).masked_fill(t > 2, 0.5), -1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax_is_one_operator(name, dtype) -> None:
    x = torch.randn(6, 5, 33, device="xpu", dtype=dtype)
    f = SOFTMAX[name]
    with torch.no_grad():
        got, codes = run_and_get_code(torch.compile(f, fullgraph=True, dynamic=name == "middle"), x)
    expected = f(x)
    assert got.dtype == dtype and got.stride() == expected.stride()
    torch.testing.assert_close(got, expected)
    assert "softmax.default(" in codes[-1]
    if name in ("softmax", "logarithm"):
        assert "sycl_fused" not in codes[-1]


@pytest.mark.parametrize("name", SOFTMAX)
def test_gradient_of_softmax(name) -> None:
    x = torch.randn(6, 5, 33, device="xpu")
    code_of(SOFTMAX[name], x)


def test_parts_of_a_softmax_that_others_read() -> None:
    """Expressions that look like softmax and are not: other dimensions, sums that are results, two operands."""

    def mixed(t: torch.Tensor) -> torch.Tensor:
        e = torch.exp(t - t.amax(1, keepdim=True))
        return e / e.sum(0, keepdim=True)

    def kept(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        e = torch.exp(t - t.amax(1, keepdim=True))
        s = e.sum(1, keepdim=True)
        return e / s, s

    def two(t: torch.Tensor) -> torch.Tensor:
        """The choice that torch writes for softmax of a product, between two things."""
        a, p = t.sin(), t * t.cos()
        bad = torch.any(t > 1, [1], True)
        e = torch.exp(torch.where(bad.logical_not(), (a - a.amax(1, keepdim=True)) * 2, p - p.amax(1, keepdim=True)))
        return e / e.sum(1, keepdim=True)

    x = torch.randn(7, 19, device="xpu")
    x[:4].clamp_(max=1)
    for f in (mixed, kept, two):
        torch.testing.assert_close(torch.compile(f)(x), f(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_mish_takes_one_exponential(dtype) -> None:
    x = torch.cat([torch.linspace(-90, 90, 2001), torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 1e-30])])
    x = x.to("xpu", dtype)
    got, codes = run_and_get_code(torch.compile(F.mish), x)
    torch.testing.assert_close(got, F.mish(x), equal_nan=True)
    assert codes[-1].count("exp(") == 1 and "tanh(" not in codes[-1]
    code_of(F.mish, torch.randn(50, device="xpu"))


LOGARITHMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softplus": F.softplus,
    "steep": lambda t: F.softplus(t, beta=3, threshold=15),
    "logsigmoid": F.logsigmoid,
    "by hand": lambda t: torch.log1p(torch.exp(t)),
    "both": lambda t: torch.exp(t.clamp_max(3)) + torch.log1p(torch.exp(t.clamp_max(3))).sum(-1, keepdim=True),
    "of a sum": lambda t: torch.log1p(torch.exp(t.clamp_max(9).sum(-1, keepdim=True) / 99)) * t,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LOGARITHMS)
def test_logarithms_of_one_and_an_exponential(name, dtype) -> None:
    f = LOGARITHMS[name]
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 88.0, -104.0, 1e-30])
    for x in (torch.linspace(-40, 40, 4001), special):
        y = x.to("xpu", dtype)
        got, codes = run_and_get_code(torch.compile(f, fullgraph=True), y)
        expected = f(y.double())
        if name == "by hand":  # float's exponential is infinite from 89 on, the sum is not
            expected = torch.where(y == torch.inf, torch.inf, expected)
        tolerance = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
        torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=1e-37, equal_nan=True)
        assert "xpu::log_one_plus_exp(" in codes[-1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_one_and_a_hyperbolic_tangent(dtype) -> None:
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 88.0, -104.0, 1e-30])
    x = torch.cat([torch.linspace(-40, 40, 4001), special]).to("xpu", dtype)
    for f in (lambda t: 1 + torch.tanh(t), lambda t: torch.tanh(t) + 1.0):
        got, codes = run_and_get_code(torch.compile(f, fullgraph=True), x)
        # Eager's 16 bits round the tangent first.
        torch.testing.assert_close(got, f(x.double()).to(dtype), equal_nan=True)
        assert "xpu::over_one_plus_exp(" in codes[-1]
    for approximate in ("tanh", "none"):
        code_of(lambda t: F.gelu(t, approximate=approximate), torch.linspace(-9, 9, 501, device="xpu"))
    for f in (lambda t: torch.tanh(t) + 2, lambda t: torch.tanh(t) + t):
        got, codes = run_and_get_code(torch.compile(f, fullgraph=True), x)
        torch.testing.assert_close(got, f(x.double()).to(dtype), equal_nan=True)
        assert "xpu::over_one_plus_exp(" not in codes[-1]


POSITIONS: dict[str, tuple[str, Callable[[torch.Tensor], object]]] = {
    "argmax": ("aten.argmax.default(", lambda t: (t * 2).argmax(1)),
    "argmin": ("aten.argmin.default(", lambda t: t.argmin(-1, keepdim=True) + 1),
    "argmax of all": ("aten.argmax.default(", lambda t: t.transpose(0, 1).argmax()),
    "max": ("aten.max.dim(", lambda t: torch.max(t, 1)),
    "min": ("aten.min.dim(", lambda t: torch.min(t.transpose(0, 1), 2, keepdim=True)[1]),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_stay_operators(name) -> None:
    call, f = POSITIONS[name]
    x = torch.randint(-4, 4, (6, 5, 33), device="xpu").float()
    got, codes = run_and_get_code(torch.compile(f, fullgraph=True), x)
    torch.testing.assert_close(got, f(x), rtol=0, atol=0)
    assert call in codes[-1]


def test_a_maximum_without_its_position_is_fused() -> None:
    x = torch.randn(6, 5, 33, device="xpu")
    got, codes = run_and_get_code(torch.compile(lambda t: torch.max(t * 2, 1)[0].relu()), x)
    torch.testing.assert_close(got, torch.max(x * 2, 1)[0].relu())
    assert "aten.max.dim" not in codes[-1]


POOLS: dict[str, tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = {
    "max_pool2d": (4, lambda t: F.max_pool2d(t * 2, 3, 2, 1)),
    "max_pool1d": (4, lambda t: F.max_pool1d((t * 2)[:, :, 0], 4, 1, 2)),
    "max_pool3d": (5, lambda t: F.max_pool3d(t * 2, 3, 2, 1)),
    "avg_pool2d": (4, lambda t: F.avg_pool2d(t * 2, (5, 3), 2, 1, True, False)),
    "avg_pool3d": (5, lambda t: F.avg_pool3d(t * 2, 2)),
}


@pytest.mark.parametrize("form", [0, 1], ids=["planes", "channels_last"])
@pytest.mark.parametrize("name", POOLS)
def test_pooling_stays_an_operator(name, form) -> None:
    rank, pool = POOLS[name]
    x = torch.randn((2, 8, 9, 11, 7)[:rank], device="xpu").to(memory_format=FORMATS[rank][form])
    code = code_of(lambda t: pool(t) + 1, x)
    assert f".{name.replace('1d', '2d')}.default(" in code
    assert "with_indices.default(" not in code  # nobody asks for them


def test_indices_of_max_pooling() -> None:
    def f(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = F.max_pool2d(t.relu(), 3, 2, 1, return_indices=True)
        return values + 1, places * 2

    x = torch.randn(2, 3, 17, 19, device="xpu")
    torch.testing.assert_close(torch.compile(f, fullgraph=True)(x), f(x))
    g = torch.compile(lambda t: F.max_pool2d(t, 2), dynamic=True, fullgraph=True)
    for size in (8, 13):
        y = torch.randn(1, 2, size, size + 1, device="xpu")
        torch.testing.assert_close(g(y), F.max_pool2d(y, 2))
