"""Convolutions of float64 and complex numbers as products of columns: values and gradients in any layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.modes import INLINE
from torch.profiler import ProfilerActivity, profile

from xpu_ops import onemkl

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one step": {"kernel": 1},
    "strides": {"stride": 2, "padding": 1},
    "dilation": {"dilation": 2, "padding": 3},
    "groups": {"groups": 4, "padding": 1},
    "one step, groups": {"kernel": 1, "groups": 2},
    "depthwise": {"groups": 16, "out": 32},
    "transposed": {"transposed": True, "stride": 2},
    "transposed, padded": {"transposed": True, "stride": 2, "padding": 1, "output_padding": 1, "dilation": 2},
    "transposed, one step": {
        "transposed": True,
        "kernel": 1,
        "dilation": 2,
        "output_padding": 1,
    },
    "transposed, groups": {"transposed": True, "groups": 4},
}


def case(spatial: int, dtype: torch.dtype, kernel: int = 3, groups: int = 1, out: int = 20, **rest: Any) -> Any:
    transposed = rest.pop("transposed", False)
    gen = torch.Generator().manual_seed(0)
    sizes = {1: (300,), 2: (31, 33)}[spatial]
    shape = (16, out // groups) if transposed else (out, 16 // groups)
    x = torch.randn(3, 16, *sizes, dtype=dtype, generator=gen)
    w = torch.randn(*shape, *[kernel] * spatial, dtype=dtype, generator=gen)
    b = torch.randn(out, dtype=dtype, generator=gen)
    function = getattr(F, f"conv{'_transpose' if transposed else ''}{spatial}d")
    return function, x, w, b, {"groups": groups, **rest}


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    scale = float(want.abs().max())
    torch.testing.assert_close(got.cpu(), want, rtol=0, atol=scale * (1e-5 if want.dtype == torch.complex64 else 1e-13))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("spatial", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, spatial: int, dtype: torch.dtype) -> None:
    function, x, w, b, options = case(spatial, dtype, **CASES[name])
    given = [t.requires_grad_() for t in (x, w, b)]
    want = function(*given, **options)
    grad = torch.randn_like(want)
    gradients = torch.autograd.grad(want, given, grad)
    for layout in ("rows", "last", "gaps"):

        def put(t: torch.Tensor, layout: str = layout) -> torch.Tensor:
            t = t.detach().xpu()
            if layout == "last" and t.dim() == 4:
                t = t.contiguous(memory_format=torch.channels_last)
            if layout == "gaps":
                t = torch.stack([t, t + 1], -1)[..., 0]
            return t.requires_grad_()

        taken = [put(t) for t in (x, w, b)]
        got = function(*taken, **options)
        close(got, want.detach())
        for mine, theirs in zip(torch.autograd.grad(got, taken, put(grad).detach()), gradients, strict=True):
            close(mine, theirs)
    close(function(x.detach().xpu(), w.detach().xpu(), **options), function(x.detach(), w.detach(), **options))


@pytest.mark.skipif(not (onemkl.available() and INLINE), reason="own kernels compute there")
def test_they_are_products() -> None:
    x, w = (torch.randn(*shape, dtype=torch.float64, device="xpu") for shape in ((2, 16, 40, 40), (16, 16, 3, 3)))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU]) as p:
        F.conv2d(x, w)
        torch.xpu.synchronize()
    assert any("gemm f64 2x16x144x1444" in e.key for e in p.key_averages()), [e.key for e in p.key_averages()]


def test_more_images_than_columns_are_kept_for() -> None:
    """Columns of some images at a time, whose gradients of the weights add up."""
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(40, 8, 100, 100, dtype=torch.float64, generator=gen)
    w = torch.randn(4, 8, 5, 5, dtype=torch.float64, generator=gen)
    results = []
    for a, b in ((x, w), (x.xpu(), w.xpu())):
        a, b = a.requires_grad_(), b.requires_grad_()
        y = F.conv2d(a, b)
        results.append([y.detach(), *torch.autograd.grad(y, (a, b), y.detach())])
    for want, got in zip(*results, strict=True):
        close(got, want)
