"""Operators that rearrange elements whose arguments hang on each other: gradients of pads, col2im, against the CPU."""

from __future__ import annotations

import warnings

import pytest
import torch
from aten_data import data, same
from support.compare import assert_same

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
ATEN = torch.ops.aten
PADS = {
    "reflection_pad1d_backward": ((2, 3, 7), [3, 2]),
    "reflection_pad2d_backward": ((2, 3, 5, 6), [2, 1, 0, 3]),
    "reflection_pad3d_backward": ((2, 3, 4, 5, 6), [2, 1, 0, 3, 1, 1]),
    "replication_pad1d_backward": ((2, 3, 7), [3, 9]),
    "replication_pad2d_backward": ((2, 3, 5, 6), [2, 1, 0, 3]),
    "replication_pad3d_backward": ((2, 3, 4, 5, 6), [2, 1, 0, 3, 1, 1]),
}
# Lines longer than a vector, and of several work-groups, paddings that cut, and that are as long as they may be.
LONG_PADS = {
    "reflection_pad1d": [((2, 3, 67), [(5, 20), (66, 66), (0, 0), (-3, 4)]), ((1, 2, 9000), [(5000, 20), (8999, 8999), (0, 4), (-3, 4)])],
    "reflection_pad2d": [((2, 3, 9, 50), [(3, 1, 2, 8), (49, 49, 0, 1)])],
    "replication_pad1d": [
        ((2, 3, 67), [(5, 20), (100, 70), (-3, 4), (4, -60), (10, -70), (-70, 80)]),
        ((1, 2, 9000), [(5000, 20), (9000, 12000), (0, 4), (-3, 4)]),
    ],
    "replication_pad2d": [((2, 3, 9, 50), [(3, 1, 2, 8), (-20, 30, -3, 1)])],
    "replication_pad3d": [((2, 3, 4, 5, 37), [(3, 1, 2, 1, 1, 2)])],
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PADS)
def test_pad_gradients(name: str, dtype: torch.dtype) -> None:
    shape, padding = PADS[name]
    op = getattr(ATEN, name)
    spatial = len(padding) // 2
    padded = [n + padding[2 * i] + padding[2 * i + 1] for i, n in enumerate(reversed(shape[-spatial:]))][::-1]
    for batch in ((2, 3), (3,)):
        x, grad = data(*batch, *shape[2:], dtype=dtype), data(*batch, *padded, dtype=dtype, seed=1)
        same(op, grad, x, padding)
        out = torch.empty(0, dtype=dtype)
        same(lambda g, x, o, op=op, padding=padding: op.grad_input(g, x, padding, grad_input=o), grad, x, out)
        same(op, grad.transpose(-1, -2).contiguous().transpose(-1, -2), x, padding)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LONG_PADS)
def test_pads_of_long_lines(name: str, dtype: torch.dtype) -> None:
    for shape, padding in ((shape, padding) for shape, paddings in LONG_PADS[name] for padding in paddings):
        x = data(*shape, dtype=dtype)
        same(getattr(ATEN, name), x, padding)
        grad = data(*getattr(ATEN, name)(x, padding).shape, dtype=dtype, seed=1)
        same(getattr(ATEN, f"{name}_backward"), grad, x, padding)


# One, two and three runs of padded dimensions, and what upstream's composite does: four of them, cuts, nothing to do.
CONSTANT_PADS = [
    ((5,), [(3, 2), (0, 0), (7, 0), (-2, 4), (-1, -2)]),
    ((40000,), [(1, 2), (0, 30000), (20000, 0)]),
    ((3, 7), [(0, 5), (0, 0, 2, 1), (1, 2, 3, 4)]),
    ((2, 3, 5, 6), [(1, 1, 1, 1), (0, 0, 1, 2), (2, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 3, 1, 0), (1, 0, 0, 0, 2, 0, 0, 1), (1, 1, 0, 1, 1, 0, 1, 2)]),
    ((2, 3, 4, 5, 6), [(1, 2, 0, 1, 3, 0), (1, 2, 0, 0, 0, 0, 0, 4), (0, 0, 0, 0, 0, 0, 0, 0, 1, 1)]),
    ((2, 40, 30, 33), [(1, 1, 1, 1), (0, 31, 0, 0), (0, 0, 0, 0, 3, 0)]),
    ((0, 4), [(1, 1), (0, 0, 2, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(
    "dtype", [*FLOATS, torch.int64, torch.uint8, torch.bool, torch.complex128, torch.float8_e5m2], ids=str
)
def test_constant_pads(dtype: torch.dtype) -> None:
    for shape, paddings in CONSTANT_PADS:
        x = data(*shape, dtype=torch.float32 if dtype.itemsize == 1 else dtype).to(dtype)
        formats = [
            torch.contiguous_format,
            *([torch.channels_last] if x.dim() == 4 else []),
            *([torch.channels_last_3d] if x.dim() == 5 else []),
        ]
        for padding in paddings:
            for value in (0, 1, True) if dtype == torch.bool else (0, 2.5):
                for format in formats:
                    same(ATEN.constant_pad_nd, x.contiguous(memory_format=format), padding, value, strides=True)
            same(ATEN.constant_pad_nd, x.transpose(0, -1)[..., ::2], padding, 1, strides=True)


def test_constant_pads_beside() -> None:
    x = data(3, 4)
    for padding, value in (((1, 1), "a"), ((1,), 0), ((1, 1) * 3, 0), ((-9, 1), 0)):
        with pytest.raises((RuntimeError, TypeError)) as cpu:
            ATEN.constant_pad_nd(x, padding, value)
        with pytest.raises(cpu.type) as xpu:
            ATEN.constant_pad_nd(x.xpu(), padding, value)
        assert str(xpu.value).split("\n")[0] == str(cpu.value).split("\n")[0]
    with pytest.raises(RuntimeError, match="overflow"):
        ATEN.constant_pad_nd(x.to(torch.int8).xpu(), (1, 1), 300)
    grads = []
    for device in ("cpu", "xpu"):
        leaf = x.to(device, copy=True).requires_grad_()
        (torch.nn.functional.pad(leaf, (1, -1, 2, 0), value=3.0) ** 2).sum().backward()
        grads.append(leaf.grad.cpu())
    assert_same(grads[1], grads[0])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_unfold_of_long_lines(dtype: torch.dtype) -> None:
    for kernel, dilation, padding, stride in (
        ([3, 3], [1, 1], [1, 1], [1, 1]),
        ([2, 3], [2, 7], [0, 9], [2, 1]),
        ([3, 4], [1, 2], [2, 3], [1, 2]),
        ([1, 2], [1, 30], [0, 30], [1, 1]),  # lines of which nothing is inside
    ):
        x = data(2, 3, 7, 41, dtype=dtype)
        columns = ATEN.im2col(x, kernel, dilation, padding, stride)
        same(ATEN.im2col, x, kernel, dilation, padding, stride)
        same(ATEN.col2im, data(*columns.shape, dtype=dtype, seed=2), [7, 41], kernel, dilation, padding, stride)


def test_unfold_backward() -> None:
    for size, step in ((4, 2), (3, 5), (7, 1), (1, 1)):
        for dim in (0, 1):
            x = data(60, 37)
            same(ATEN.unfold_backward, data(*x.unfold(dim, size, step).shape), [60, 37], dim, size, step)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.complex128], ids=str)
def test_lines_of_a_copy(dtype: torch.dtype) -> None:
    """Results that are contiguous where the source is not: backwards, by steps, of two dimensions."""
    x = data(3, 5, 70, 90, dtype=dtype)
    for f in (
        lambda t: t.flip(-1),
        lambda t: t.flip(0, 2),
        lambda t: t.flip(0, 1, 2, 3),
        lambda t: t.rot90(1, (2, 3)),
        lambda t: t.rot90(3, (2, 3)),
        lambda t: t[..., ::3].contiguous(),
        lambda t: t.unfold(3, 4, 2).contiguous(),
        lambda t: t.view(3, 5, 35, 2, 30, 3).permute(0, 1, 3, 5, 2, 4).contiguous(),
        lambda t: t.view(3, 5, 35, 2, 30, 3).permute(2, 0, 4, 1, 3, 5).contiguous(),
        lambda t: t.permute(0, 2, 3, 1).contiguous(),
        lambda t: t.flip(1).permute(0, 2, 3, 1).contiguous(),
    ):
        same(f, x)


def test_private_stack() -> None:
    parts = [data(2, 3), data(2, 3, seed=9), data(2, 3, seed=7)]
    for dim in (0, 1, 2, -1):
        same(lambda *t, dim=dim: ATEN._stack(t, dim), *parts)
        same(lambda *t, dim=dim: ATEN._stack.out(t[:-1], dim, out=t[-1]), *parts, torch.empty(0))
    # torch's CPU does not check these.
    x = data(2, 3).xpu()
    for tensors, error in (([], "non-empty TensorList"), ([x, x[:, :2]], "equal size, but got")):
        with pytest.raises(RuntimeError, match=error):
            ATEN._stack.out(tensors, 0, out=torch.empty(0, device="xpu"))


def test_col2im_of_truths() -> None:
    """The sum of truths is whether any is true."""
    for stride in (1, 2):
        blocks = ((8 - 3) // stride + 1) * ((9 - 2) // stride + 1)
        x = data(2, 4 * 6, blocks) > 1
        same(ATEN.col2im, x, [8, 9], [3, 2], [1, 1], [0, 0], [stride, stride])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_col2im(dtype: torch.dtype) -> None:
    for kernel, dilation, padding, stride in (
        ([2, 3], [1, 1], [0, 0], [1, 1]),
        ([3, 2], [1, 2], [2, 1], [2, 1]),
        ([1, 1], [1, 1], [0, 0], [3, 2]),
    ):
        size = [8, 9]
        blocks = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
        ]
        columns = data(2, 4 * kernel[0] * kernel[1], blocks[0] * blocks[1], dtype=dtype)
        for x in (columns, columns[0]):
            same(ATEN.col2im, x, size, kernel, dilation, padding, stride)
            out = torch.empty(0, dtype=dtype)
            same(lambda x, o, rest=(size, kernel, dilation, padding, stride): ATEN.col2im.out(x, *rest, out=o), x, out)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_parts_into_given_tensors(dtype: torch.dtype) -> None:
    """split_with_sizes_copy.out, as FSDP takes a gathered buffer apart."""
    x = data(5, 24, 3, dtype=dtype)
    for t, dim, sizes in ((x, 1, [1, 0, 23]), (x.transpose(0, 1), 0, [8, 8, 8]), (x[:, ::2], -2, [5, 7])):
        results = []
        for device in ("cpu", "xpu"):
            there = t.to(device)
            shapes = [p.shape for p in there.split_with_sizes(sizes, dim)]
            # dense, and to be resized
            outs = [torch.empty(s if i else 0, dtype=dtype, device=device) for i, s in enumerate(shapes)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ATEN.split_with_sizes_copy.out(there, sizes, dim, out=outs)
            results.append(outs)
        assert_same(results[1], results[0])


def test_parts_that_do_not_fit_are_refused() -> None:
    x = data(4, 6).to("xpu")
    good = [torch.empty(4, 3, device="xpu") for _ in range(2)]
    for outs, text in (
        (good[:1], "expected an out= argument of size 2"),
        ([good[0], good[1].int()], "to have dtype"),
        ([good[0], good[1].cpu()], "device"),
    ):
        with pytest.raises(RuntimeError, match=text):
            ATEN.split_with_sizes_copy.out(x, [3, 3], 1, out=outs)


def test_chunks_into_another_type() -> None:
    """_chunk_cat.out, as FSDP puts gradients of bf16 into a buffer of float32."""
    x = [data(*s, dtype=torch.bfloat16) for s in ((5, 3), (2,), (8, 1, 2))]
    for chunks in (1, 2, 3, 9):
        want = ATEN._chunk_cat(x, 0, chunks).float()
        out = torch.ones(want.shape, device="xpu")
        ATEN._chunk_cat.out([t.to("xpu") for t in x], 0, chunks, out=out)
        assert_same(out, want)


def test_rsub_has_the_layout_of_the_other_operand() -> None:
    x, y = torch.randn(2, 7, 2).transpose(1, 2), torch.randn(2, 2, 7)
    got, expected = torch.rsub(x.to("xpu"), y.to("xpu"), alpha=2), torch.rsub(x, y, alpha=2)
    assert got.stride() == expected.stride() == (14, 7, 1)
    torch.testing.assert_close(got.cpu(), expected)
