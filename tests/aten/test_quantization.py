"""Fake quantisation and its gradients against the CPU, on values that lie on ties and beyond the range as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_same, to_device

import xpu_ops

A = torch.ops.aten
LOW, HIGH = -5, 20
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    with xpu_ops.fallback.forbid():
        yield


def values(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (3, 40)) -> torch.Tensor:
    """Quarters: ties of a grid of halves, exact in every type, on both sides of the range."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 % 101 - 40) / 4).reshape(shape).to(dtype)


def same(function: Callable[..., Any], *args: Any) -> None:
    assert_same(function(*to_device(args)), function(*args), strides=True)


def scales(n: int) -> torch.Tensor:
    """Powers of two: their reciprocals are exact, so that ties stay ties."""
    return 2.0 ** (torch.arange(n) % 4 - 2)


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t().contiguous().t(),
    "stepped": lambda t: t.repeat_interleave(2, 1)[:, ::2],
    "empty": lambda t: t[:, :0],
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_per_tensor(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](values(dtype))
    for scale, zero in ((0.5, 1), (0.1, -5), (3.0, 20)):
        same(A.fake_quantize_per_tensor_affine_cachemask, x, scale, zero, LOW, HIGH)
        for on in (0, 1):
            same(
                A._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
                x, torch.tensor([scale]), torch.tensor([zero], dtype=torch.int32), torch.tensor([on]), LOW, HIGH,
            )  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("zero", [torch.int32, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel(axis: int, zero: torch.dtype, dtype: torch.dtype) -> None:
    x = values(dtype)
    n = x.shape[axis]
    zeros = (torch.arange(n) % 4 - 1 + (0 if zero == torch.int32 else 0.25)).to(zero)
    for x_ in (x, LAYOUTS["transposed"](x), LAYOUTS["stepped"](x)):
        same(A.fake_quantize_per_channel_affine_cachemask, x_, scales(n), zeros, axis, LOW, HIGH)


def test_any_scale() -> None:
    """Random values, which lie on no tie."""
    x, scale, zeros = torch.randn(64, 33) * 4, torch.rand(33) + 0.05, torch.randint(LOW, HIGH, (33,)).float()
    same(A.fake_quantize_per_channel_affine_cachemask, x, scale, zeros, 1, LOW, HIGH)
    same(A._fake_quantize_learnable_per_channel_affine_backward, x.flip(0), x, scale, zeros, 1, LOW, HIGH, 0.1)
    same(A.fake_quantize_per_tensor_affine_cachemask, x, 0.3, 2, LOW, HIGH)


def test_special_values() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.0, -0.0])
    same(A.fake_quantize_per_tensor_affine_cachemask, x, 0.1, 1, LOW, HIGH)
    # The CPU's kernel for channels converts infinity to an integer, which C++ leaves open: here it is the end it is near.
    want = A.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 1, LOW, HIGH)
    one = torch.tensor([0.1]), torch.tensor([1], dtype=torch.int32)
    got = A.fake_quantize_per_channel_affine_cachemask(*to_device((x[None], *one)), 0, LOW, HIGH)
    assert_same([t[0] for t in got], list(want))


@pytest.mark.parametrize("zero", [-2.5, 2.5, 3.5, 0.49, -0.7, 100.0, -100.0])
def test_learnable(zero: float) -> None:
    x, scale, zeros = values(), torch.tensor([0.5]), torch.tensor([zero])
    grad = values().flip(1) / 8
    same(A._fake_quantize_learnable_per_tensor_affine, x, scale, zeros, LOW, HIGH, 1.5)
    same(A._fake_quantize_learnable_per_tensor_affine_backward, grad, x, scale, zeros, LOW, HIGH, 1.5)
    for axis in (0, 1):
        n = x.shape[axis]
        scale, zeros = scales(n), torch.full((n,), zero)
        same(A._fake_quantize_learnable_per_channel_affine, x, scale, zeros, axis, LOW, HIGH, 1.5)
        same(A._fake_quantize_learnable_per_channel_affine_backward, grad, x, scale, zeros, axis, LOW, HIGH, 1.5)


def test_gradient_of_special_values() -> None:
    x = torch.tensor([float("nan"), 1.0, 100.0, 0.5])
    grad = torch.tensor([1.0, 2.0, 3.0, float("inf")])
    one = torch.tensor([0.5]), torch.tensor([1.0])
    same(A._fake_quantize_learnable_per_tensor_affine_backward, grad, x, *one, LOW, HIGH, 1.0)
    empty = torch.empty(0)
    same(A._fake_quantize_learnable_per_tensor_affine_backward, empty, empty, *one, LOW, HIGH, 1.0)


def test_trains() -> None:
    """Through autograd, as quantisation-aware training calls it."""

    def gradients(device: str) -> list[torch.Tensor]:
        x, scale, zero = (t.to(device).requires_grad_() for t in (values(), torch.tensor([0.5]), torch.tensor([1.0])))
        y = torch.fake_quantize_per_tensor_affine(x, 0.5, 1, LOW, HIGH)
        y = y + torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, LOW, HIGH, 0.5)
        return list(torch.autograd.grad((y * y).sum(), (x, scale, zero)))

    assert_same(gradients("xpu"), gradients("cpu"))


BAD: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "range": (A.fake_quantize_per_tensor_affine_cachemask, (values(), 0.5, 1, 5, 2)),
    "zero point": (A.fake_quantize_per_tensor_affine_cachemask, (values(), 0.5, 9, 0, 2)),
    "integers": (A.fake_quantize_per_tensor_affine_cachemask, (values().int(), 0.5, 1, 0, 2)),
    "two scales": (
        A._fake_quantize_per_tensor_affine_cachemask_tensor_qparams,
        (values(), torch.ones(2), torch.zeros(2, dtype=torch.int32), torch.tensor([1]), 0, 2),
    ),
    **{
        name: (A.fake_quantize_per_channel_affine_cachemask, (values(), scale, zero, axis, low, 9))
        for name, scale, zero, axis, low in (
            ("channel range", torch.ones(3), torch.zeros(3, dtype=torch.int32), 0, 10),
            ("channel zero point", torch.ones(3), torch.full((3,), 77, dtype=torch.int32), 0, 0),
            ("zero type", torch.ones(3), torch.zeros(3, dtype=torch.int64), 0, 0),
            ("scale type", torch.ones(3).double(), torch.zeros(3, dtype=torch.int32), 0, 0),
            ("scale rank", torch.ones(1, 3), torch.zeros(3, dtype=torch.int32), 0, 0),
            ("zero rank", torch.ones(3), torch.zeros(1, 3, dtype=torch.int32), 0, 0),
            ("sizes differ", torch.ones(3), torch.zeros(2, dtype=torch.int32), 0, 0),
            ("sizes do not fit", torch.ones(2), torch.zeros(2, dtype=torch.int32), 0, 0),
            ("axis", torch.ones(3), torch.zeros(3, dtype=torch.int32), 2, 0),
            ("negative axis", torch.ones(40), torch.zeros(40, dtype=torch.int32), -1, 0),
        )
    },
    "gradient range": (
        A._fake_quantize_learnable_per_tensor_affine_backward,
        (values(), values(), torch.ones(1), torch.ones(1), 2, 5, 1.0),
    ),
    "gradient size": (
        A._fake_quantize_learnable_per_tensor_affine_backward,
        (values()[:2], values(), torch.ones(1), torch.ones(1), -2, 5, 1.0),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name: str) -> None:
    function, args = BAD[name]
    with pytest.raises(Exception) as expected:
        function(*args)
    with pytest.raises(type(expected.value)) as raised:
        function(*to_device(args))
    if name != "integers":  # torch names its kernel in that message
        assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_dequantize_of_a_dense_tensor() -> None:
    for x in (values(torch.float64), values().int()):
        same(A.dequantize.self, x)


@pytest.mark.parametrize("channels", [False, True])
def test_moving_averages(channels: bool) -> None:
    """torch.ao's module, three steps: values, gradient, and the state that it keeps."""
    from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, MovingAveragePerChannelMinMaxObserver

    options = {"observer": MovingAveragePerChannelMinMaxObserver, "ch_axis": 0} if channels else {}
    results = []
    for device in ("cpu", "xpu"):
        torch.manual_seed(0)
        module = FusedMovingAvgObsFakeQuantize(quant_min=-128, quant_max=127, dtype=torch.qint8, **options).to(device)
        for step in range(3):
            x = (torch.randn(4, 5) * (step + 1)).to(device).requires_grad_()
            y = module(x)
            y.sum().backward()
        state = [v for k, v in module.state_dict().items() if "val" in k or k in ("scale", "zero_point")]
        results.append([t.detach().cpu() for t in (y, x.grad, *state)])
    assert len(results[0]) > 4
    for actual, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(actual, expected)


def test_ranges_of_unequal_lengths_are_refused() -> None:
    x, on, zero = torch.ones(4, 3), torch.ones(1), torch.zeros(4, dtype=torch.int32)
    off = torch.zeros(1)
    for rows in (True, False):
        state = to_device((x, off, on, -torch.ones(4), torch.ones(1), torch.ones(4), zero))
        with pytest.raises(RuntimeError, match="elements"):
            A._fused_moving_avg_obs_fq_helper(*state, 0.1, 0, 255, 0, rows, False)
