"""Factories and operators that rearrange elements, against CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]


def check(f: Callable[..., Any], *args: Any, exact: bool = True, strides: bool = True, **kwargs: Any) -> None:
    """f on XPU copies of the tensor arguments gives what it gives on CPU."""
    move = lambda x: x.to("xpu") if isinstance(x, torch.Tensor) else [move(t) for t in x] if isinstance(x, list) else x  # noqa: E731
    want, got = f(*args, **kwargs), f(*map(move, args), **kwargs)
    assert got.device.type == "xpu" and got.dtype == want.dtype and got.shape == want.shape
    if strides:
        assert got.stride() == want.stride()
    if exact:
        assert torch.equal(got.cpu(), want)
    else:
        torch.testing.assert_close(got.cpu(), want)


@pytest.mark.parametrize(
    "args,dtypes",
    [
        ((0,), INTS + FLOATS),
        ((10,), INTS + FLOATS),
        ((2, 50, 3), INTS + FLOATS),
        ((10, -20, -3), [d for d in INTS + FLOATS if d is not torch.uint8]),
        ((0, 1, 0.1), FLOATS),
        ((-3, 3, 0.25), FLOATS),
        ((3, 3), INTS + FLOATS),
    ],
    ids=str,
)
def test_arange(args: tuple[float, ...], dtypes: list[torch.dtype]) -> None:
    for dtype in dtypes:
        check_arange(args, dtype)


def check_arange(args: tuple[float, ...], dtype: torch.dtype) -> None:
    want = torch.arange(*args, dtype=dtype)
    got = torch.arange(*args, dtype=dtype, device="xpu")
    assert got.dtype == want.dtype and torch.equal(got.cpu(), want)


def test_arange_large() -> None:
    n = (1 << 24) + 12345
    assert torch.equal(torch.arange(n, device="xpu").cpu(), torch.arange(n))
    got, exact = torch.arange(0, n * 0.1, 0.1, device="xpu").cpu(), torch.arange(0, n * 0.1, 0.1, dtype=torch.float64)
    assert ((got.double() - exact).abs() <= exact * 1e-7).all()
    assert torch.equal(torch.arange(2**62, 2**62 + 7, 2, device="xpu").cpu(), torch.arange(2**62, 2**62 + 7, 2))


def test_arange_errors() -> None:
    for args in ((0, 10, 0), (0, 10, -1), (0, float("nan")), (0, float("inf"))):
        with pytest.raises(Exception) as want:
            torch.arange(*args)
        with pytest.raises(type(want.value)) as got:
            torch.arange(*args, device="xpu")
        assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]
    out = torch.zeros(3, device="xpu")
    with pytest.warns(UserWarning, match="number of elements in the out tensor"):
        torch.arange(5, out=out)
    assert out.shape == (5,)
    strided = torch.zeros(20, device="xpu")[::2]
    torch.arange(10, out=strided)
    assert torch.equal(strided.cpu(), torch.arange(10.0))


def test_range() -> None:
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert torch.equal(torch.range(0, 10, 2.5, device="xpu").cpu(), torch.range(0, 10, 2.5))


@pytest.mark.parametrize("dtype", INTS + FLOATS + COMPLEX, ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 50, 1001])
def test_linspace_and_logspace(steps: int, dtype: torch.dtype) -> None:
    low, high = (1, 100) if dtype is torch.uint8 else (-10, 100)
    if dtype.is_complex:
        low, high = -1 + 2j, 3 - 1j
    want, got = (
        torch.linspace(low, high, steps, dtype=dtype),
        torch.linspace(low, high, steps, dtype=dtype, device="xpu"),
    )
    loose = (
        {"rtol": 1.6e-2, "atol": 0.8}
        if dtype is torch.bfloat16
        else {"rtol": 2e-3, "atol": 0.1}
        if dtype is torch.half
        else {}
    )
    torch.testing.assert_close(got.cpu(), want, **loose)
    if steps > 1 and not dtype.is_complex:
        assert got[0].item() == low and got[-1].item() == high
    a, b = (0, 2) if not dtype.is_complex else (0.5j, 1 - 0.5j)
    want, got = (
        torch.logspace(a, b, steps, 3.0, dtype=dtype),
        torch.logspace(a, b, steps, 3.0, dtype=dtype, device="xpu"),
    )
    loose = {"rtol": 3e-2, "atol": 0.02} if dtype in (torch.bfloat16, torch.half) else {}
    torch.testing.assert_close(got.cpu(), want, **loose)


def test_linspace_of_tensors() -> None:
    a, b = torch.tensor(1.5), torch.tensor(9.0)
    for args in ((a, b), (a, 9.0), (1.5, b)):
        device = [x.to("xpu") if isinstance(x, torch.Tensor) else x for x in args]
        torch.testing.assert_close(torch.linspace(*device, 7, device="xpu").cpu(), torch.linspace(*args, 7))
        torch.testing.assert_close(torch.logspace(*device, 7, device="xpu").cpu(), torch.logspace(*args, 7))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.bfloat16, torch.complex64], ids=str)
def test_eye(dtype: torch.dtype) -> None:
    for n, m in ((0, 0), (1, 1), (5, 5), (3, 7), (7, 3), (0, 4)):
        assert torch.equal(torch.eye(n, m, dtype=dtype, device="xpu").cpu(), torch.eye(n, m, dtype=dtype))
    with pytest.raises(RuntimeError, match="greater or equal to 0"):
        torch.eye(-1, device="xpu")


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.half, torch.float32, torch.complex128], ids=str
)
@pytest.mark.parametrize("op", [torch.tril, torch.triu])
def test_triangles(op: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    x = torch.randint(1, 100, (3, 5, 6)).to(dtype)
    for t in (x, x[0], x.mT, x[:, :0], x[:, ::2], x[:, :, 1:4], x.expand(2, 3, 5, 6)):
        for k in (-7, -2, 0, 1, 3, 9):
            check(op, t, k)
    a, b = x.clone(), x.to("xpu")
    getattr(a, op.__name__ + "_")(1), getattr(b, op.__name__ + "_")(1)
    assert torch.equal(b.cpu(), a)
    a, b = x.clone().mT, x.to("xpu").mT
    getattr(a, op.__name__ + "_")(-1), getattr(b, op.__name__ + "_")(-1)
    assert torch.equal(b.cpu(), a)
    out = torch.empty(2, 3, dtype=dtype, device="xpu")
    assert torch.equal(op(x.to("xpu"), out=out).cpu(), op(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("op", [torch.tril_indices, torch.triu_indices])
def test_triangle_indices(op: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    for rows, cols in ((0, 3), (3, 0), (1, 1), (5, 5), (4, 9), (9, 4), (100, 70)):
        for offset in range(-11, 12):
            want = op(rows, cols, offset, dtype=dtype)
            assert torch.equal(op(rows, cols, offset, dtype=dtype, device="xpu").cpu(), want), (rows, cols, offset)
    with pytest.raises(RuntimeError, match="non-negative"):
        op(-1, 2, device="xpu")


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float32, torch.complex128], ids=str)
def test_cat(dtype: torch.dtype) -> None:
    x = torch.randint(0, 100, (4, 5, 6)).to(dtype)
    y = torch.randint(0, 100, (4, 40, 6)).to(dtype)
    for dim in (0, 1, 2, -1):
        check(torch.cat, [x, x, x], dim)
        check(torch.cat, [x, x.flip(0), x[:, :, :].clone()] * 30, dim)
        check(torch.stack, [x, x + x, x], dim)
    check(torch.cat, [x, y, x[:, :0]], 1)
    check(torch.cat, [x.mT.contiguous().mT, y[:, ::3], y[:, 3:]], 1)
    check(torch.cat, [torch.empty(0, dtype=dtype), x, torch.empty(0, dtype=dtype)], 0)
    check(torch.cat, [x[:, :0], x[:, :0]], 1)
    check(torch.cat, [x[:1].expand(4, 5, 6), x], 2)
    z = x.reshape(2, 2, 5, 6).contiguous(memory_format=torch.channels_last)
    for dim in range(4):
        check(torch.cat, [z, z, z], dim)
    if dtype is not torch.bool:
        check(torch.cat, [x, x.to(torch.complex64 if dtype.is_complex else torch.float64)], 0)
    out = torch.empty(8, 6, 5, dtype=dtype, device="xpu").mT
    torch.cat([x.to("xpu"), x.to("xpu")], out=out)
    assert torch.equal(out.cpu(), torch.cat([x, x]))


def test_cat_errors() -> None:
    x = torch.zeros(2, 3, device="xpu")
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([x, torch.zeros(2, 4, device="xpu")])
    with pytest.raises(RuntimeError, match="single memory location|overlap"):
        torch.cat([x, x], out=x.expand(4, 2, 3)[:, 0, :])
    with pytest.raises(RuntimeError, match="device"):
        torch.cat([x, torch.zeros(2, 3)])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float32, torch.complex128], ids=str)
def test_flip_and_roll(dtype: torch.dtype) -> None:
    x = torch.randint(0, 100, (4, 5, 36)).to(dtype)
    for t in (x, x.mT, x[:, ::2], x[:, :, 3:], x[:, :0], x[0, 0, 0], x.expand(2, 4, 5, 36)):
        for dims in ((), (0,), (-1,), (0, 1), tuple(range(t.dim()))):
            if all(-max(t.dim(), 1) <= d < max(t.dim(), 1) for d in dims):
                check(torch.flip, t, dims)
        check(torch.roll, t, 3)
        if t.dim():
            for shifts, dims in ((1, 0), (-2, -1), (100, 0), ((1, 2), (0, 1)), ((1, -1), (-1, -1))):
                check(torch.roll, t, shifts, dims)
    many = x.view(2, 2, 5, 6, 6)
    for t in (many, many.transpose(0, 3)):
        check(torch.roll, t, (1, 3, -2, 100, 5), (4, 3, 2, 1, 0))
        check(torch.roll, t, (1, -3, 2, 2), (-1, 3, -2, 2))
    thin = x.reshape(4, *[1] * 80, 5, 36)
    for shifts, dims in ((1, -1), (-2, 0), ((1, 3, 2), (0, -1, 7)), ((1, 2, 3), (-2, -1, 0)), (5, 40)):
        check(torch.roll, thin, shifts, dims)
        check(torch.roll, thin.mT, shifts, dims)
    check(torch.flip, x[:, :4].reshape(4, 2, 2, 36).contiguous(memory_format=torch.channels_last), (1, 3))
    with pytest.raises(RuntimeError, match="multiple times"):
        torch.flip(x.to("xpu"), (0, 0))
    with pytest.raises(RuntimeError, match="align"):
        torch.roll(x.to("xpu"), (1, 2), (0,))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_repeat_interleave(dtype: torch.dtype) -> None:
    for repeats in ([3, 0, 1, 5], [0, 0], [], [1000] * 9):
        r = torch.tensor(repeats, dtype=dtype)
        check(torch.repeat_interleave, r)
        check(torch.repeat_interleave, r, output_size=sum(repeats))
    x = torch.randn(4, 3)
    check(torch.repeat_interleave, x, torch.tensor([2, 0, 1, 3], dtype=dtype), dim=0)
    check(torch.repeat_interleave, x, 3, dim=1)
    with pytest.raises(RuntimeError, match="negative"):
        torch.repeat_interleave(torch.tensor([1, -1], dtype=dtype).to("xpu"))


PADS = {
    1: ((2, 1), (0, 2), (2, 0), (-1, 2), (0, 0)),
    2: ((2, 1, 0, 2), (3, 3, 3, 2), (-1, 0, 1, -2), (0, 0, 0, 0)),
    3: ((1, 2, 0, 1, 2, 1), (3, 3, 2, 2, 1, 1), (-1, 1, 0, -1, 1, 0)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int32], ids=str)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant", "circular"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pad(dims: int, mode: str, dtype: torch.dtype) -> None:
    x = torch.randint(-50, 50, (2, 3, 4, 5, 6)[: 2 + dims]).to(dtype)
    for pad in PADS[dims]:
        if mode == "circular" and min(pad) < 0:
            continue
        for t in (x, x.transpose(0, 1), x[..., :-1]):
            check(F.pad, t, pad, mode=mode, strides=False)
        if dims == 2:
            check(F.pad, x.contiguous(memory_format=torch.channels_last), pad, mode=mode)
        if mode in ("reflect", "replicate"):
            check(F.pad, x[0], pad, mode=mode, strides=False)
        if not (dtype.is_floating_point or dtype.is_complex):
            continue
        grads = []
        for device in ("cpu", "xpu"):
            leaf = x.to(device).detach().requires_grad_()
            out = F.pad(leaf, pad, mode=mode)
            weight = torch.arange(out.numel()).reshape(out.shape).remainder(7).to(device, dtype)
            grads.append(torch.autograd.grad(out, leaf, weight)[0].cpu())
        torch.testing.assert_close(grads[1], grads[0])


def test_pad_errors() -> None:
    x = torch.zeros(1, 2, 3, 4, device="xpu")
    with pytest.raises(RuntimeError, match="Padding size should be less than"):
        F.pad(x, (4, 0, 0, 0), mode="reflect")
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        torch.ops.aten.reflection_pad2d(x[:, :0], (1, 1, 1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.complex64], ids=str)
def test_fold_and_unfold(dtype: torch.dtype) -> None:
    x = torch.randint(-9, 9, (2, 3, 10, 12)).to(dtype)
    for kernel, dilation, padding, stride in (
        (3, 1, 0, 1),
        ((2, 3), 1, (1, 0), (2, 1)),
        (2, (2, 3), 1, 3),
        (1, 1, 0, 1),
    ):
        arguments = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
        check(F.unfold, x, **arguments)
        check(F.unfold, x[0], **arguments)
        check(F.unfold, x.mT.contiguous().mT, **arguments)
        columns = F.unfold(x, **arguments)
        check(F.fold, columns, output_size=(10, 12), **arguments)
        check(F.fold, columns[1], output_size=(10, 12), **arguments)
    with pytest.raises(RuntimeError, match="kernel size should be greater than zero"):
        F.unfold(x.to("xpu"), (0, 1))
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        F.fold(torch.zeros(1, 5, 4, device="xpu"), (4, 4), 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_unfold_backward(dtype: torch.dtype) -> None:
    for shape, dim, size, step in (
        ((20,), 0, 5, 2),
        ((3, 17, 4), 1, 4, 4),
        ((3, 17, 4), 1, 3, 5),
        ((6, 9), -1, 9, 1),
        ((2, 8), 1, 1, 1),
    ):
        windows = torch.randint(-9, 9, shape).to(dtype).unfold(dim, size, step)
        grad = torch.randint(-9, 9, windows.shape).to(dtype)
        check(torch.ops.aten.unfold_backward, grad, shape, dim, size, step)
        check(
            torch.ops.aten.unfold_backward,
            grad.flip(0).mT.contiguous().mT if grad.dim() > 1 else grad,
            shape,
            dim,
            size,
            step,
        )


def test_shuffles() -> None:
    x = torch.randn(2, 12, 4, 6)
    for t in (x, x.contiguous(memory_format=torch.channels_last), x[:, :, ::2]):
        check(F.channel_shuffle, t, 3, strides=False)
        check(F.pixel_shuffle, t, 2, strides=False)
        check(F.pixel_unshuffle, t, 2)
    with pytest.raises(RuntimeError, match="divisible by groups"):
        F.channel_shuffle(x.to("xpu"), 5)


def test_composites() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    check(torch.diag_embed, x)
    check(torch.rot90, x)
    check(torch.tile, x, (2, 3))
    check(lambda t: torch.zeros_like(t), x)
    check(lambda t: t.new_full((3,), 7), x)
    check(lambda t: t.new_ones(3, dtype=torch.int8), x)
    check(lambda t: torch.ops.aten.select_backward(t[0], (4, 6), 0, 2), x)
    check(lambda t: torch.ops.aten.slice_backward(t[:2], (4, 6), 0, 1, 3, 1), x)
    check(lambda t: torch.combinations(t[0], 2), x)
    check(torch.block_diag, x, x[:2])
    zero = torch._efficientzerotensor((3, 4), device="xpu")
    assert zero._is_zerotensor() and torch.equal((zero + x[:3, :4].to("xpu")).cpu(), x[:3, :4])


WINDOWS = [torch.kaiser_window, torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda w: w.__name__)
def test_windows(window: Callable[..., torch.Tensor]) -> None:
    # torch composes the others in their own type, which bfloat16 is too coarse for
    dtypes = [torch.float32, torch.float64, *([torch.bfloat16] if window is torch.kaiser_window else [])]
    for length in (0, 1, 2, 10, 301):
        for periodic in (True, False):
            for dtype in dtypes:
                wide = torch.float64 if dtype == torch.bfloat16 else dtype
                want = window(length, periodic=periodic, dtype=wide).to(dtype)
                got = window(length, periodic=periodic, dtype=dtype, device="xpu")
                assert got.dtype == dtype and got.device.type == "xpu" and got.stride() == want.stride()
                tol = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
                torch.testing.assert_close(got.cpu(), want, rtol=tol, atol=tol)
    for device in ("cpu", "xpu"):
        with pytest.raises(RuntimeError, match="window"):
            window(-1, device=device)
        with pytest.raises(RuntimeError, match="floating"):
            window(4, dtype=torch.int64, device=device)


def test_kaiser_window_shapes() -> None:
    for beta in (0.0, 0.5, 3.0, -3.0, 14.0):
        want = torch.kaiser_window(33, False, beta)
        torch.testing.assert_close(torch.kaiser_window(33, False, beta, device="xpu").cpu(), want, rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(
        torch.kaiser_window(10, device="xpu").cpu(), torch.kaiser_window(10), rtol=2e-6, atol=2e-6
    )
    want, got = (torch.signal.windows.kaiser(9, beta=5.0, device=d) for d in ("cpu", "xpu"))
    torch.testing.assert_close(got.cpu(), want, rtol=2e-6, atol=2e-6)


def test_polar_of_float16() -> None:
    """The angle is taken in float32; torch's CPU has it since 2.14."""
    r, angle = torch.tensor([1.5, 2, 60000]).half(), torch.tensor([1.0, 2, 3]).half()
    found = torch.polar(r.to("xpu"), angle.to("xpu"))
    assert found.dtype == torch.complex32
    torch.testing.assert_close(
        found.cpu().to(torch.complex128), torch.polar(r.double(), angle.double()), rtol=1e-3, atol=1e-3
    )
