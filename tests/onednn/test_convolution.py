"""Convolutions against the CPU: dimensions, groups, strides, layouts, element types, all three gradients."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.anisotropic import anisotropic
from support.dirty import dirty_memory

CONV = {
    1: (torch.nn.functional.conv1d, torch.nn.functional.conv_transpose1d),
    2: (torch.nn.functional.conv2d, torch.nn.functional.conv_transpose2d),
    3: (torch.nn.functional.conv3d, torch.nn.functional.conv_transpose3d),
}
TOLERANCE = {
    torch.float32: (1e-4, 2e-4),
    torch.float64: (1e-10, 1e-10),
    torch.bfloat16: (3e-2, 1e-1),
    torch.float16: (5e-3, 2e-2),
}


def randn(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def formatted(t: torch.Tensor, last: bool) -> torch.Tensor:
    if not last or t.dim() == 3:
        return t
    return t.to(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)


def compare(actual: torch.Tensor, expected: torch.Tensor) -> None:
    rtol, atol = TOLERANCE[actual.dtype]
    expected = expected.to(actual.dtype)
    scale = max(1.0, expected.abs().max().item()) if expected.numel() else 1.0
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=atol * scale)


def run(
    spatial: int, dtype: torch.dtype, last: bool, transposed: bool, groups: int, stride: int, padding: int,
    dilation: int, kernel: int, bias: bool, channels: tuple[int, int] = (4, 6), size: int = 9,
) -> None:  # fmt: skip
    cin, cout = channels[0] * groups, channels[1] * groups
    shape = (cin, channels[1]) if transposed else (cout, channels[0])
    x = formatted(randn(2, cin, *[size + i for i in range(spatial)], dtype=dtype, seed=1), last)
    w = randn(*shape, *[kernel] * spatial, dtype=dtype, seed=2)
    b = randn(cout, dtype=dtype, seed=3) if bias else None
    function = CONV[spatial][transposed]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed and stride > 1:
        options["output_padding"] = stride - 1
    # The reference is computed in double, so that half types are not measured against another half type's rounding.
    cpu = [None if t is None else t.detach().clone().double().requires_grad_() for t in (x, w, b)]
    xpu = [None if t is None else t.to("xpu").requires_grad_() for t in (x, w, b)]
    expected = function(*cpu, **options)
    actual = function(*xpu, **options)
    assert actual.dtype == dtype
    compare(actual.detach(), expected.detach())
    native = function(*[None if t is None else t for t in (x, w, b)], **options) if dtype == torch.float32 else None
    if native is not None and spatial > 1:
        assert actual.is_contiguous() == native.is_contiguous()
    grad = randn(*expected.shape, dtype=dtype, seed=4)
    expected.backward(grad.double())
    actual.backward(formatted(grad, last).to("xpu"))
    for a, e in zip(xpu, cpu, strict=True):
        if a is not None:
            compare(a.grad, e.grad)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_dimensions(spatial: int, dtype: torch.dtype, last: bool, transposed: bool) -> None:
    run(spatial, dtype, last, transposed, 1, 1, 1, 1, 3, True, size=5 if spatial == 3 else 9)


@given(
    last=st.booleans(),
    transposed=st.booleans(),
    groups=st.sampled_from([1, 2, 3]),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    kernel=st.integers(1, 3),
    bias=st.booleans(),
    channels=st.sampled_from([(1, 1), (3, 5), (16, 16), (1, 2), (17, 4)]),
    dtype=st.sampled_from([torch.float32, torch.float32, torch.bfloat16, torch.float16]),
)
def test_any_geometry(
    last: bool, transposed: bool, groups: int, stride: int, padding: int, dilation: int, kernel: int, bias: bool,
    channels: tuple[int, int], dtype: torch.dtype,
) -> None:  # fmt: skip
    assume(not transposed or padding <= dilation * (kernel - 1))
    assume(not transposed or stride == 1 or stride - 1 < max(stride, dilation))
    run(2, dtype, last, transposed, groups, stride, padding, dilation, kernel, bias, channels)


@pytest.mark.parametrize("last", [False, True])
def test_depthwise(last: bool) -> None:
    run(2, torch.float32, last, False, 24, 1, 1, 1, 3, True, (1, 1))
    run(2, torch.bfloat16, last, False, 24, 2, 1, 1, 3, False, (1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_depthwise_images(kernel: int, last: bool, dtype: torch.dtype) -> None:
    """Rows of vectors with and without taps outside the image, one and several work-groups per image, any padding."""
    layout = torch.channels_last if last else torch.contiguous_format
    w, b = randn(6, 1, kernel, kernel, dtype=dtype, seed=2), randn(6, dtype=dtype, seed=3)
    for size, padding, stride in (((9, 7), 1, 1), ((150, 47), (0, kernel // 2), 1), ((40, 80), kernel // 2, (2, 1)),
                                  ((kernel, kernel), 0, 1), ((5, 16), (3, 9), 1), ((19, 20), kernel // 2, 2)):  # fmt: skip
        x = randn(2, 6, *size, dtype=dtype, seed=1).to(memory_format=layout)
        if (size[0] + 2 * (padding if isinstance(padding, int) else padding[0])) < kernel:
            continue
        for bias in (None, b):
            operands = [t for t in (x, w, bias) if t is not None]
            cpu = [t.double().requires_grad_() for t in operands]
            xpu = [t.to("xpu").requires_grad_() for t in operands]
            expected = torch.nn.functional.conv2d(*cpu, stride=stride, padding=padding, groups=6)
            actual = torch.nn.functional.conv2d(*xpu, stride=stride, padding=padding, groups=6)
            assert actual.is_contiguous(memory_format=layout)
            compare(actual.detach(), expected.detach())
            grad = randn(*expected.shape, dtype=dtype, seed=4)
            expected.backward(grad.double())
            actual.backward(grad.to("xpu"))
            for a, e in zip(xpu, cpu, strict=True):
                assert a.grad is not None and e.grad is not None
                compare(a.grad, e.grad)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_gradients_as_products(dtype: torch.dtype, last: bool) -> None:
    """Large images through 1x1, with and without strides (every position, some of them), and columns of taps."""
    for stride in (1, 2, 3):
        run(2, dtype, last, False, 1, stride, 0, 1, 1, stride == 2, (5, 7), size=20)
        run(1, dtype, last, False, 1, stride, 0, 1, 1, stride == 1, (17, 4), size=40)
    for kernel, padding, dilation in ((3, 1, 1), (2, 0, 1), (3, 2, 2), (3, 0, 1)):
        run(2, dtype, last, False, 1, 2, padding, dilation, kernel, dilation == 2, (19, 6), size=13)
    # As many weights as make the columns pay without strides.
    run(2, dtype, last, False, 1, 1, 1, 1, 3, False, (240, 500), size=5)


def test_integers() -> None:
    x = torch.randint(-4, 5, (2, 3, 6, 6))
    w = torch.randint(-4, 5, (5, 3, 3, 3))
    expected = torch.nn.functional.conv2d(x.double(), w.double(), padding=1).long()
    assert torch.equal(torch.nn.functional.conv2d(x.to("xpu"), w.to("xpu"), padding=1).cpu(), expected)


def test_strided_operands() -> None:
    x, w = randn(2, 8, 9, 18, dtype=torch.float32, seed=1), randn(10, 4, 3, 3, dtype=torch.float32, seed=2)
    expected = torch.nn.functional.conv2d(x[:, ::2, :, ::2], w.transpose(2, 3), padding=1)
    x, w = x.to("xpu"), w.to("xpu")
    compare(torch.nn.functional.conv2d(x[:, ::2, :, ::2], w.transpose(2, 3), padding=1), expected)


def test_empty_batch() -> None:
    w = torch.ones(4, 3, 3, 3, device="xpu", requires_grad=True)
    x = torch.empty(0, 3, 5, 5, device="xpu", requires_grad=True)
    y = torch.nn.functional.conv2d(x, w, padding=1)
    assert y.shape == (0, 4, 5, 5)
    y.sum().backward()
    assert w.grad is not None and not w.grad.cpu().any()
    assert x.grad is not None and x.grad.shape == x.shape


def test_second_derivative() -> None:
    x = randn(1, 2, 5, 5, dtype=torch.float64, seed=1).to("xpu").requires_grad_()
    w = randn(3, 2, 3, 3, dtype=torch.float64, seed=2).to("xpu").requires_grad_()
    assert torch.autograd.gradgradcheck(lambda a, b: torch.nn.functional.conv2d(a, b, padding=1), (x, w), atol=1e-6)


def test_unbatched() -> None:
    x, w = randn(3, 7, 7, dtype=torch.float32, seed=1), randn(4, 3, 3, 3, dtype=torch.float32, seed=2)
    actual = torch.nn.functional.conv2d(x.to("xpu"), w.to("xpu"))
    compare(actual, torch.nn.functional.conv2d(x, w))


def test_errors() -> None:
    x, w = torch.ones(1, 3, 5, 5, device="xpu"), torch.ones(2, 4, 3, 3, device="xpu")
    with pytest.raises(RuntimeError, match="to have 4 channels"):
        torch.nn.functional.conv2d(x, w)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        torch.nn.functional.conv2d(x, torch.ones(2, 3, 7, 7, device="xpu"))
    with pytest.raises(RuntimeError, match="should be the same"):
        torch.nn.functional.conv2d(x, torch.ones(2, 3, 3, 3, device="xpu", dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("kernel, made", [(2, "0"), (1, "-1")])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_transposed_convolutions_that_make_no_element(spatial: int, kernel: int, made: str, dtype: torch.dtype) -> None:
    """As torch's CPU in float64; an empty batch still has an empty result."""
    rest = [5] * (spatial - 1)
    x = torch.ones(2, 4, 1, *rest, device="xpu", dtype=dtype)
    w = torch.ones(4, 3, kernel, *[3] * (spatial - 1), device="xpu", dtype=dtype)
    options = {"padding": [1, *[0] * (spatial - 1)]}
    sizes = " x ".join([made, *["7"] * (spatial - 1)])
    with pytest.raises(
        RuntimeError, match=rf"Calculated output size per channel: \({sizes}\). Output size is too small"
    ):
        CONV[spatial][True](x, w, **options)
    if made == "0":
        assert CONV[spatial][True](x[:0], w, **options).shape == (0, 3, 0, *[7] * (spatial - 1))


def run_sizes(dtype: torch.dtype, call: dict[str, Any]) -> None:
    """Forward and gradients in memory that is not zero, against double."""
    (cin, cout), groups, kernel, transposed = call["channels"], call["groups"], call["kernel"], call["transposed"]
    shape = (cin, cout // groups) if transposed else (cout, cin // groups)
    x = formatted(randn(call["batch"], cin, *call["size"], dtype=dtype, seed=1), call["last"])
    w = randn(*shape, *kernel, dtype=dtype, seed=2)
    given = [x, w, *([randn(cout, dtype=dtype, seed=3)] if call["bias"] else [])]
    function = CONV[len(kernel)][transposed]
    options = {name: call[name] for name in ("stride", "padding", "dilation", "groups")}

    def results(device: str, dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [t.detach().to(device, dtype).requires_grad_() for t in given]
        with torch.no_grad():
            shape = function(*leaves, **options).shape
        grad = randn(*shape, dtype=given[0].dtype, seed=4).to(device, dtype)
        if device == "xpu":
            dirty_memory()
        with torch.no_grad():
            inferred = function(*leaves, **options)
        out = function(*leaves, **options)
        return [inferred, out.detach(), *torch.autograd.grad(out, leaves, grad)]

    for actual, expected in zip(results("xpu", dtype), results("cpu", torch.float64), strict=True):
        compare(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_dimensions_that_differ(seed: int, dtype: torch.dtype) -> None:
    draw = random.Random(seed)
    calls = [call for _ in range(60) if (call := anisotropic(draw))]
    for call in calls:
        try:
            run_sizes(dtype, call)
        except AssertionError as error:
            raise AssertionError(f"{call}: {error}") from None


WRONG = {
    "one channel, one column of results": {"size": [7, 4], "kernel": [3, 3], "stride": [1, 2], "padding": [1, 0]},
    "taps in padding": {"size": [5, 2], "kernel": [2, 3], "stride": [1, 3], "padding": [0, 2]},
    "kernel deeper than the volume": {
        "size": [1, 3, 9],
        "kernel": [2, 1, 2],
        "stride": [1, 2, 1],
        "padding": [1, 2, 2],
    },
    "gradient of a deep kernel": {"size": [3, 7, 3], "kernel": [4, 5, 3], "stride": [2, 3, 3], "padding": [3, 2, 0]},
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [(1, 3), (1, 17), (17, 17)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", WRONG)
def test_shapes_that_implementations_had_wrong(
    name: str, dtype: torch.dtype, channels: tuple[int, int], transposed: bool
) -> None:
    call = WRONG[name] | {"channels": channels, "groups": 1, "batch": 2, "last": False, "bias": False}
    size = call["size"]
    if transposed:  # so that the larger side has these sizes
        steps = zip(size, call["kernel"], call["stride"], call["padding"], strict=True)
        size = [(s + 2 * p - k) // t + 1 for s, k, t, p in steps]
    run_sizes(dtype, call | {"size": size, "dilation": [1] * len(size), "transposed": transposed})
