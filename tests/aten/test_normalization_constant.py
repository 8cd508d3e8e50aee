"""Rows of one number: norms give 0 and variances are 0, however large the number; and rows far from 0 are as accurate
as torch's CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import xpu_ops

LENGTHS = [*range(1, 20), 31, 32, 33, 63, 64, 65, 100, 127, 129, 255, 257, 1000, 1023, 1025, 2048, 4095, 4096, 4097]
VALUES = {
    torch.float32: [1e15, 1e8 + 1, 3.3e38, -7.3, 0.1, 1e-30, 1e-40],
    torch.float64: [1e30, 1e17 + 3, 1.7e308, 0.1],
    torch.bfloat16: [1e15, 3.3e38, 0.1],
    torch.float16: [65504.0, 0.1, 1e-7],
}
CASES = [(dtype, value) for dtype, values in VALUES.items() for value in values]
OPS = torch.ops.xpu_ops
Norm = Callable[[torch.Tensor], torch.Tensor]
# Of x [4, n], all of whose elements are equal.
NORMS: dict[str, Norm] = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "layer_norm with weight": lambda x: F.layer_norm(x, x.shape[-1:], torch.ones_like(x[0]), torch.zeros_like(x[0])),
    "add_layer_norm": lambda x: OPS.add_layer_norm(x, torch.zeros_like(x), None, None, 1e-5)[0],
    "group_norm": lambda x: F.group_norm(x.unsqueeze(1), 1),
    "group_norm channels": lambda x: F.group_norm(x.unsqueeze(-1).expand(-1, -1, 2).contiguous(), 1),
    "group_norm channels_last": lambda x: F.group_norm(
        x.view(4, -1, 1, 1).expand(-1, -1, 3, 5).contiguous(memory_format=torch.channels_last), 1
    ),
    "group_norm channels_last long": lambda x: F.group_norm(
        x.view(4, 1, -1, 1).expand(-1, 6, -1, 2).contiguous(memory_format=torch.channels_last), 2
    ),
    "instance_norm": lambda x: F.instance_norm(x.unsqueeze(1).expand(-1, 2, -1)) if x.shape[1] > 1 else x * 0,
    "batch_norm": lambda x: F.batch_norm(x.unsqueeze(1), None, None, training=True),
    "batch_norm columns": lambda x: F.batch_norm(x.t().contiguous(), None, None, training=True) if len(x.t()) > 1 else x * 0,
    "batch_norm channels_last": lambda x: F.batch_norm(
        x.view(4, 1, -1, 1).expand(-1, 3, -1, 2).contiguous(memory_format=torch.channels_last), None, None, training=True
    ),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "value"), CASES)
@pytest.mark.parametrize("norm", NORMS)
def test_norm_of_a_constant(norm: str, dtype: torch.dtype, value: float) -> None:
    for n in LENGTHS:
        with xpu_ops.fallback.forbid():
            y = NORMS[norm](torch.full((4, n), value, dtype=dtype, device="xpu"))
        assert not y.count_nonzero(), (n, y.flatten()[:3])


@pytest.mark.parametrize(("dtype", "value"), CASES)
def test_statistics_of_a_constant(dtype: torch.dtype, value: float) -> None:
    for n in LENGTHS:
        x = torch.full((4, n), value, dtype=dtype, device="xpu")
        _, mean, rstd = torch.native_layer_norm(x, [n], None, None, 1e-5)
        want = torch.full((4, 1), 1e-5, dtype=rstd.dtype).rsqrt()
        assert (mean.cpu() == x[0, 0].to(mean.dtype).cpu()).all(), n
        torch.testing.assert_close(rstd.cpu(), want, rtol=1e-6, atol=0)
        last = x.view(4, 1, n, 1).expand(-1, 2, -1, 3).contiguous(memory_format=torch.channels_last)
        _, mean, rstd = torch.native_group_norm(last, None, None, 4, 2, 3 * n, 1, 1e-5)
        assert (mean.cpu() == x[0, 0].to(mean.dtype).cpu()).all(), n
        torch.testing.assert_close(
            rstd.cpu(), want.to(rstd.dtype), rtol=1e-6 if rstd.dtype.itemsize > 2 else 1e-2, atol=0
        )


def test_streamed_add_layer_norm_of_a_constant() -> None:
    """Results larger than the last cache go through another kernel."""
    x = torch.full((20000, 1024), 1e15, device="xpu")
    y, _, mean, _ = OPS.add_layer_norm(x, torch.zeros_like(x), None, None, 1e-5)
    assert not y.count_nonzero()
    assert (mean == 1e15).all()


LAYOUTS: dict[str, Norm] = {
    "row": lambda x: x,
    "steps": lambda x: x[..., ::2],
    "transposed": lambda x: x.transpose(0, 1),
}


@pytest.mark.parametrize(("dtype", "value"), CASES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_variance_of_a_constant(layout: str, dtype: torch.dtype, value: float) -> None:
    for n in [2, 3, 16, 17, 65, 1000, 4097]:
        x = LAYOUTS[layout](torch.full((3, n, 5), value, dtype=dtype, device="xpu"))
        for dim in (0, 1, 2, (0, 2), (1, 2), None):
            with xpu_ops.fallback.forbid():
                var, mean = torch.var_mean(x, dim, correction=0)
                std = torch.std(x, dim, correction=0)
            assert not var.count_nonzero() and not std.count_nonzero(), (n, dim)
            assert (mean == x.flatten()[0]).all(), (n, dim)


@pytest.mark.parametrize("value", [1e15, 3.3e38, -3.3e38, 1e-40])
def test_softmax_of_a_constant(value: float) -> None:
    for n in LENGTHS:
        for dim, shape in ((1, (4, n)), (0, (n, 40))):
            x = torch.full(shape, value)
            for f in (torch.softmax, torch.log_softmax):
                torch.testing.assert_close(f(x.to("xpu"), dim).cpu(), f(x, dim), rtol=1e-6, atol=1e-12)


def error(y: torch.Tensor, want: torch.Tensor) -> float:
    return float((y.cpu().double() - want).abs().max())


# Means far from 0, one element far from the others (first, where sums begin, or last), a steep line.
ROWS: dict[str, Callable[[int], torch.Tensor]] = {
    "far": lambda n: torch.randn(4, n) + 1e4,
    "first": lambda n: torch.cat([torch.full((4, 1), 1e4), torch.randn(4, n - 1)], 1),
    "last": lambda n: torch.cat([torch.randn(4, n - 1), torch.full((4, 1), -1e4)], 1),
    "line": lambda n: torch.linspace(1, 3e6, n).expand(4, n).contiguous(),
}


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [50, 1000, 4097])
@pytest.mark.parametrize(
    "norm", ["layer_norm", "group_norm", "group_norm channels_last", "group_norm channels_last long", "batch_norm"]
)
def test_as_accurate_as_cpu(norm: str, rows: str, n: int) -> None:
    torch.manual_seed(0)
    x = ROWS[rows](n)
    want = NORMS[norm](x.double())
    ours, cpu = error(NORMS[norm](x.to("xpu")), want), error(NORMS[norm](x), want)
    # The mean itself is a float.
    last_place = float((x.mean(1).abs() * 2**-23 / x.std(1)).max())
    assert ours <= 4 * cpu + 2 * last_place + 1e-6 * float(want.abs().max()), (ours, cpu)
