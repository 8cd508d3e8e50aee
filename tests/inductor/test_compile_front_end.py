"""Graphs that Inductor's front end, shared by all devices, compiles to other values than eager's; replacements serve xpu."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch._inductor import lowering

N = 5000  # more than the lanes of a work-group: a race shows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_floor_division_goes_by_the_remainder(dtype: torch.dtype) -> None:
    inf, nan = float("inf"), float("nan")
    a = torch.tensor([1.0, -1.0, 0.3, 6.0, inf, -inf, 1.0, 0.0, 5.0, -0.0, nan, 3.0, -3.0], dtype=dtype)
    b = torch.tensor([0.1, 0.1, 0.1, 0.1, 1.0, 1.0, inf, 0.0, -0.0, 1.0, 1.0, nan, -inf], dtype=dtype)

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x // y, torch.div(x, y, rounding_mode="floor"), x // 0.1, 1.0 // y

    got = torch.compile(f)(a.to("xpu"), b.to("xpu"))
    for compiled, eager in zip(got, f(a, b), strict=True):
        torch.testing.assert_close(compiled.cpu(), eager, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(compiled.cpu().signbit() | eager.isnan(), eager.signbit() | eager.isnan())


def test_floor_division_of_known_floats() -> None:
    """Where both ends of a range are known floats, their quotient as integers is none."""

    def f(x: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(31, dtype=torch.float32, device=x.device)
        return torch.cat([x, x + torch.div(steps, 2, rounding_mode="floor")])

    x = torch.randn(31)
    torch.testing.assert_close(torch.compile(f)(x.to("xpu")).cpu(), f(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x + 1).argmax(),
        lambda x: x.mean(0).argmin(),
        lambda x: x.mean(2, keepdim=True).argmax(),
        lambda x: x.mean((0, 2)).argmax(),
        lambda x: (x.sum(1) + x[:, 0]).argmax(),
        lambda x: (x.permute(0, 3, 1, 2) * 2).argmax(),
    ],
)
@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
def test_argmax_counts_in_the_logical_order(
    f: Callable[[torch.Tensor], torch.Tensor], memory_format: torch.memory_format
) -> None:
    x = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(7)).to(memory_format=memory_format)
    assert torch.compile(f)(x.to("xpu")).item() == f(x).item()


def test_argmax_of_contiguous_operands_computes_no_index() -> None:
    x = torch.randn(6, 50, device="xpu")
    with mock.patch.object(lowering.ops, "index_expr", side_effect=AssertionError, create=True):
        position = torch.compile(lambda x: (x * 2).argmax())(x)
    assert position.item() == x.argmax().item()


def index_put(x: torch.Tensor, i: torch.Tensor) -> None:
    x.index_put_((i,), torch.full((2,), 9.0, device=x.device))


def index_add(x: torch.Tensor, i: torch.Tensor) -> None:
    x.index_add_(0, i, torch.full((2,), 9.0, device=x.device))


def mask(x: torch.Tensor, i: torch.Tensor) -> None:
    x[x > N / 2] = 5.0


@pytest.mark.parametrize("write", [index_put, index_add, mask])
@pytest.mark.parametrize("again", ["add", "copy", "bits"])
def test_in_place_after_a_write_by_an_operator(write: Callable[..., None], again: str) -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        write(x, i)
        if again == "add":
            x.add_(x.flip(0))
        elif again == "copy":
            x.copy_(x.flip(0))
        else:
            x.mul_(x.view(torch.int32).flip(0) % 7)
        return x + 1

    x, i = torch.arange(float(N)), torch.tensor([0, 3])
    compiled = x.to("xpu")
    result = torch.compile(f)(compiled, i.to("xpu"))
    expected = f(x, i)
    assert torch.equal(result.cpu(), expected)
    assert torch.equal(compiled.cpu(), x)


@torch.library.custom_op("xpu_ops_test::top", mutates_args=("weights", "places"))
def top(weights: torch.Tensor, places: torch.Tensor, scores: torch.Tensor) -> None:
    values, indices = scores.topk(weights.size(-1))
    weights.copy_(values)
    places.copy_(indices)


def test_an_operator_writes_what_a_kernel_has_read() -> None:
    def f(x: torch.Tensor, weights: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, ...]:
        before = weights + x  # in one kernel with what the operator reads
        top(weights, places, x.sin())
        return before, weights + 1, places + 1

    x, weights, places = torch.rand(N, 8), torch.rand(N, 8), torch.zeros(N, 8, dtype=torch.int64)
    given = [t.to("xpu") for t in (x, weights, places)]
    for got, expected in zip(torch.compile(f)(*given), f(x, weights, places), strict=True):
        torch.testing.assert_close(got.cpu(), expected)
    torch.testing.assert_close(given[1].cpu(), weights)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_a_view_of_the_bits_is_read_before_a_later_write(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        bits = x.view(dtype)[-N:].flip(0) + 1
        x.add_(1)
        return bits

    x = torch.arange(float(N))
    compiled = x.to("xpu")
    assert torch.equal(torch.compile(f)(compiled).cpu(), f(x))
    assert torch.equal(compiled.cpu(), x)


@pytest.mark.parametrize(
    "f", [lambda x: x * 0, lambda x: 0 / x, lambda x: (x.sum() * 0 + x, 0 * x + 1), lambda x: x.to(torch.int32) * 0]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_product_with_zero_keeps_nan(f: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, float("nan"), float("inf"), float("-inf"), -1.0], dtype=dtype)
    torch.testing.assert_close(torch.compile(f)(x.to("xpu")), f(x.to("xpu")), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, i, v: x.index_put((i,), v),
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        lambda x, i, v: x.index_add(0, i, v),
        lambda x, i, v: x.index_fill(0, i, 3.0),
        lambda x, i, v: torch.ops.aten._unsafe_index_put(x, (i,), v, True),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shared", [lambda x: x.expand(3, 5), lambda x: x.unfold(0, 3, 1)])
def test_writes_where_elements_share_their_place(
    f: Callable[..., torch.Tensor], dynamic: bool, shared: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    def call(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = shared(x + 1)
        return f(y, i, v[:, : y.shape[1]])

    args = torch.randn(5), torch.tensor([1]), torch.randn(1, 5)
    compiled = torch.compile(call, dynamic=dynamic)(*[a.to("xpu") for a in args])
    torch.testing.assert_close(compiled.cpu(), call(*args))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x * 2).as_strided((3, 4), (1, 1), 50),
        lambda x: (x * 2).unfold(0, 5, 2),
        lambda x: (x * 2).view(8, 8).unfold(0, 3, 1).transpose(0, 2),
        lambda x: (x * 2).view(1, 64).expand(3, 64),
    ],
)
def test_gradients_of_overlapping_outputs(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def gradient(function: Callable[[torch.Tensor], torch.Tensor], device: str) -> torch.Tensor:
        x = torch.linspace(0, 1, 64).to(device).requires_grad_()
        y = function(x)
        y.backward(torch.linspace(0.5, 1.5, y.numel(), device=device).view(y.shape))
        return x.grad.cpu()

    torch.testing.assert_close(gradient(torch.compile(f), "xpu"), gradient(f, "cpu"))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_interpolation_keeps_the_type_of_autocast(mode: str) -> None:
    """Autocast computes it in float32, in a traced graph too, whose decomposition does not call torch's operator."""

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("xpu", dtype=torch.bfloat16):
            return torch.nn.functional.interpolate(x @ x, scale_factor=2, mode=mode)

    x = torch.randn(1, 4, 4, device="xpu")
    got, want = torch.compile(f, backend="aot_eager", fullgraph=True)(x), f(x)
    assert want.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_expanded_operand_of_a_complex_operator(dynamic: bool) -> None:
    """A transform of columns has the strides of columns; the gradient of abs multiplies an expanded real number by it."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x, dim=0).abs().sum() + torch.fft.rfft2(x).abs().mean()

    x = torch.randn(5, 6, device="xpu", requires_grad=True)
    (want,) = torch.autograd.grad(f(x), x)
    (got,) = torch.autograd.grad(torch.compile(f, dynamic=dynamic)(x), x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
