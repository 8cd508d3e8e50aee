"""Upsampling in every mode and grid sampling, forward and backward, against the CPU."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from aten_data import data, same

from tools import torch_release

pytestmark = pytest.mark.filterwarnings("ignore")
CUBIC_VOLUMES = torch_release.serves(">=2.15", torch_release.series_of(torch.__version__))
TOL = {
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-9, 1e-9),
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (3e-2, 3e-2),
}


def check(x: torch.Tensor, backward: bool = True, **kwargs: object) -> None:
    def run(x: torch.Tensor) -> object:
        x = x.clone(memory_format=torch.preserve_format).requires_grad_(backward)
        y = F.interpolate(x, **kwargs)
        if not backward:
            return y
        y.backward(data(*y.shape, dtype=y.dtype, seed=7).to(y.device))
        return y, x.grad

    same(run, x, tol=TOL.get(x.dtype))


SHAPES = [((2, 3, 9), [(9,), (17,), (4,), (1,)]), ((2, 3, 7, 9), [(7, 18), (15, 20), (3, 4), (1, 9), (40, 5)]),
          ((2, 3, 4, 5, 6), [(8, 10, 12), (3, 2, 9), (4, 5, 7)])]  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "bicubic"])
@pytest.mark.parametrize("dtype", TOL)
def test_modes(mode: str, dtype: torch.dtype) -> None:
    for size, targets in SHAPES:
        name = {3: "linear", 4: "bilinear", 5: "trilinear"}[len(size)] if mode == "linear" else mode
        if mode == "bicubic" and len(size) != 4:
            continue
        for target in targets:
            check(data(*size, dtype=dtype), size=target, mode=name)
            if mode in ("linear", "bicubic"):
                check(data(*size, dtype=dtype), size=target, mode=name, align_corners=True)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_layouts_and_scales(mode: str) -> None:
    for channels in (1, 3, 40):
        check(data(2, channels, 7, 9).to(memory_format=torch.channels_last), size=(15, 20), mode=mode)
        check(data(2, channels, 7, 9).to(memory_format=torch.channels_last), size=(3, 5), mode=mode)
    check(data(2, 3, 9, 7).transpose(2, 3), size=(15, 20), mode=mode)
    for scale in (2.0, 2.5, 0.5, 0.37, (1.5, 3.0)):
        check(data(2, 3, 7, 9), scale_factor=scale, mode=mode)
        check(data(2, 3, 7, 9), scale_factor=scale, mode=mode, recompute_scale_factor=True)
    check(data(0, 3, 7, 9), size=(4, 4), mode=mode)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [*TOL, torch.uint8])
def test_nearest_pixels_of_a_scale_that_changes_no_size(dtype: torch.dtype, last: bool, mode: str) -> None:
    """upsample_nearest2d copies an axis that keeps its size and repeats one that doubles, whatever the scale is."""
    x = data(2, 3, 2, 4, dtype=dtype).contiguous(memory_format=(torch.contiguous_format, torch.channels_last)[last])
    for scale in ((1.3, 1.2), (2.4, 2.2), (2.4, 1.2), (1.3, 0.5), (1.0, 1.3)):
        check(x, backward=dtype != torch.uint8, scale_factor=scale, mode=mode)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
def test_antialias(mode: str, align: bool) -> None:
    for target in [(3, 4), (15, 20), (1, 1), (7, 30), (7, 9)]:
        check(data(2, 3, 7, 9), size=target, mode=mode, antialias=True, align_corners=align)
        check(data(2, 3, 7, 9, dtype=torch.float64), size=target, mode=mode, antialias=True, align_corners=align)
    check(data(2, 3, 70, 90).to(memory_format=torch.channels_last), size=(20, 30), mode=mode, antialias=True)


@pytest.mark.parametrize("operator", ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"])
def test_antialias_along_one_axis(operator: str) -> None:
    """An axis that keeps its size is left alone for any scale, and its infinities stay where they are."""
    x = data(2, 3, 7, 9)
    x[0, 0, 2, 3], x[1, 2, 4, 4] = torch.inf, torch.nan
    function = getattr(torch.ops.aten, operator).default
    for size in ((7, 9), (7, 20), (3, 9)):
        same(lambda x, size=size: function(x, size, False, None, None), x, tol=TOL[torch.float32])
        same(lambda x, size=size: function(x, size, False, 1.05, 1.05), data(2, 3, 7, 9), tol=TOL[torch.float32])


def test_layout_of_results() -> None:
    x = data(2, 8, 7, 9).to(memory_format=torch.channels_last)
    for mode in ("nearest", "bilinear"):
        same(lambda x: F.interpolate(x, size=(5, 5), mode=mode), x, strides=True)


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int8, torch.int64, torch.bool, torch.complex64, torch.float8_e5m2]
)
def test_types_that_torch_refuses(dtype: torch.dtype) -> None:
    modes = {3: ["nearest", "linear"], 4: ["nearest-exact", "bicubic", "bilinear"], 5: ["nearest", "trilinear"]}
    for dim, names in modes.items():
        for mode in names:
            x = torch.ones([4] * dim).to(dtype)
            if dtype == torch.uint8 and ("nearest" in mode or dim == 4):
                F.interpolate(x.to("xpu"), scale_factor=2, mode=mode)
                continue
            for device in ("cpu", "xpu"):
                with pytest.raises(NotImplementedError, match="not implemented for"):
                    F.interpolate(x.to(device), scale_factor=2, mode=mode)


def test_nearest_of_bytes() -> None:
    x = data(1, 3, 8, 8, dtype=torch.uint8)
    assert torch.equal(F.interpolate(x.to("xpu"), size=(13, 5)).cpu(), F.interpolate(x, size=(13, 5)))


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes(mode: str, antialias: bool, align: bool) -> None:
    """The bytes of torch's CPU, which rounds weights to 16 bits and what lies between the passes to bytes.

    Sums of many taps are floats here, integers there: one in thousands rounds to the neighbour.
    """
    generator = torch.Generator().manual_seed(3)
    for height, width in ((7, 9), (1, 12), (32, 48), (60, 2)):
        for size in ((13, 5), (6, 7), (64, 96), (16, 24), (height, 5), (3, width)):
            b = torch.randint(0, 256, (2, 3, height, width), generator=generator, dtype=torch.uint8)
            for x in (b, b.contiguous(memory_format=torch.channels_last), (b > 127).to(torch.uint8) * 255):
                options = {"size": size, "mode": mode, "antialias": antialias, "align_corners": align}
                off = (F.interpolate(x.to("xpu"), **options).cpu().int() - F.interpolate(x, **options).int()).abs()
                many = antialias and (height > 2 * size[0] or width > 2 * size[1])
                assert off.max() <= many and off.sum() <= off.numel() / 200, (height, width, size)


@pytest.mark.parametrize("operator", ["upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bicubic2d_aa"])
def test_bytes_by_scales(operator: str) -> None:
    """An axis whose size stays is left alone for any scale."""
    x = data(2, 3, 15, 6, dtype=torch.uint8)
    function = getattr(torch.ops.aten, operator).vec
    for scales in ((1.02, 2.5), (0.4, 1.01), (1.7, 0.6)):
        assert torch.equal(function(x.to("xpu"), None, False, scales).cpu(), function(x, None, False, scales)), scales


@pytest.mark.parametrize(
    ("dims", "mode", "padding", "align"),
    [
        c
        for c in itertools.product(
            (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
        )
        if not (c[0] == 3 and c[1] == "bicubic" and not CUBIC_VOLUMES)
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grid_sample(dims: int, mode: str, padding: str, align: bool, dtype: torch.dtype) -> None:
    x = data(2, 3, *(5, 6, 7)[-dims:], dtype=dtype)
    grid = data(2, *(4, 3, 8)[-dims:], dims, dtype=dtype, seed=9) * 0.9

    def run(x: torch.Tensor, grid: torch.Tensor) -> object:
        x, grid = x.clone().requires_grad_(), grid.clone().requires_grad_()
        y = F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
        y.backward(data(*y.shape, dtype=y.dtype, seed=7).to(y.device))
        return y, x.grad, grid.grad

    same(run, x, grid, tol=TOL[dtype] if mode != "nearest" else None)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_grid_sample_of_many_channels(padding: str, dtype: torch.dtype) -> None:
    """Channel by channel for a block of positions; what lies outside is 0 even where the first pixel is no number."""
    x, grid = data(2, 33, 9, 7, dtype=dtype), data(2, 20, 31, 2, dtype=dtype, seed=9)
    x[0, 3, 0, 0], x[1, 5, 0, 0], x[1, 32, 4, 4] = torch.nan, torch.inf, -torch.inf
    for t in (x, x.to(memory_format=torch.channels_last), x.transpose(2, 3)):

        def run(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
            return F.grid_sample(x, grid, padding_mode=padding, align_corners=False)

        want, got = run(t.float(), grid.float()), run(t.to("xpu"), grid.to("xpu"))
        rtol, atol = TOL[dtype]
        torch.testing.assert_close(got.cpu().float(), want, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("dtype", TOL, ids=str)
def test_cubic_volumes(channels: int, dtype: torch.dtype) -> None:
    """Gradients by planes and by channels, positions outside, and values outside of which are no numbers."""
    x, grid = data(2, channels, 5, 6, 40, dtype=dtype), data(2, 3, 7, 5, 3, dtype=dtype, seed=9) * 1.2
    x[0, 0, 0, 0, 0] = torch.nan
    grad = data(2, channels, 3, 7, 5, dtype=dtype, seed=7)

    def run(x: torch.Tensor, grid: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
        out = F.grid_sample(x, grid, mode="bicubic", align_corners=False)
        return [out, *torch.ops.aten.grid_sampler_3d_backward(grad, x, grid, 2, 0, False, [True, True])]

    if not CUBIC_VOLUMES:
        for device in ("cpu", "xpu"):
            with pytest.raises(RuntimeError, match="bicubic interpolation only supports 4D input"):
                F.grid_sample(x.to(device), grid.to(device), mode="bicubic", align_corners=False)
        return
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    want = run(*(t.to(wide) for t in (x, grid, grad)))
    got = run(*(t.to("xpu") for t in (x, grid, grad)))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == dtype
        rtol, atol = TOL[dtype]
        torch.testing.assert_close(g.cpu().to(wide), w, rtol=4 * rtol, atol=4 * atol, equal_nan=True)


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("side", [30, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_grid_gradient_by_planes_and_by_channels(channels: int, side: int, dtype: torch.dtype) -> None:
    """Small planes are summed one by one, large ones channel by channel."""
    x, grid = data(2, channels, side, side, dtype=dtype), data(2, 11, 50, 2, dtype=dtype, seed=9) * 0.9
    grad = data(2, channels, 11, 50, dtype=dtype, seed=7)

    def run(x: torch.Tensor, grid: torch.Tensor, grad: torch.Tensor) -> object:
        return torch.ops.aten.grid_sampler_2d_backward(grad, x, grid, 0, 0, False, [True, True])

    want = run(*(t.float() for t in (x, grid, grad)))
    got = run(*(t.to("xpu") for t in (x, grid, grad)))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == dtype
        torch.testing.assert_close(g.cpu().float(), w, rtol=2e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-3)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_positions(mode: str) -> None:
    """Fewer positions than a vector, a last group that is not full, grids and gradients with steps."""
    for height, width in ((1, 1), (3, 5), (4, 4), (1, 17), (13, 23)):
        x, grid = data(2, 3, 6, 7), data(2, height, width, 2, seed=9) * 0.9
        grad = data(2, 3, height, width, seed=7)
        turned = data(2, 2, height, width, seed=9).permute(0, 2, 3, 1)
        for g, p in ((grad, grid), (grad.to(memory_format=torch.channels_last), grid), (grad, turned)):

            def run(x: torch.Tensor, p: torch.Tensor, g: torch.Tensor) -> object:
                x, p = x.detach().requires_grad_(), p.detach().requires_grad_()
                y = F.grid_sample(x, p, mode=mode, align_corners=False)
                return y, torch.autograd.grad(y, [x, p], g)

            same(run, x, p, g, tol=TOL[torch.float32] if mode != "nearest" else None)


@pytest.mark.parametrize("dtype", TOL, ids=str)
def test_both_axes_at_once(dtype: torch.dtype) -> None:
    """Sizes that shrink along both axes, or along one only, in lines shorter and longer than a vector."""
    for size, target in (((9, 11), (4, 5)), ((50, 70), (30, 42)), ((50, 70), (33, 16)), ((40, 20), (9, 31))):
        x = torch.randint(0, 256, (2, 3, *size), generator=torch.Generator().manual_seed(0)).to(dtype)
        for align in (False, True):
            check(x, backward=False, size=target, mode="bilinear", align_corners=align)


def test_errors() -> None:
    for device in ("cpu", "xpu"):
        x = data(2, 3, 4, 4).to(device)
        with pytest.raises(RuntimeError):
            F.interpolate(x, size=(0, 4), mode="bilinear")
        with pytest.raises(RuntimeError):
            F.grid_sample(x, data(1, 4, 4, 2).to(device), align_corners=False)


NOWHERE = [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e20, 1e9, -1e9, 1e5]


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("dims", [2, 3])
def test_grid_sample_far_away(dims: int, mode: str, padding: str, align: bool) -> None:
    """Coordinates without a pixel. Gradients at NaN are left out: torch's CPU reads outside of its memory there."""
    if dims == 3 and mode == "bicubic":
        pytest.skip("torch 2.13 has no cubic interpolation of volumes")
    for dtype in (torch.float32, torch.float64):
        # Of volumes torch's CPU counts reflections in a whole number, which a float64 of 3e38 passes.
        places = [v for v in NOWHERE if not (dims == 3 and dtype == torch.float64 and abs(v) == 3e38)]
        x = torch.arange(1, 1 + 3**dims, dtype=dtype).reshape(1, 1, *[3] * dims)
        grid = torch.zeros(dims, len(places), *[1] * (dims - 2), dims, dtype=dtype)
        for d in range(dims):
            grid[d, ..., d] = torch.tensor(places, dtype=dtype).reshape(-1, *[1] * (dims - 2))
        grid = grid.reshape(1, -1, *[1] * (dims - 1), dims)
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        want = F.grid_sample(x, grid, **options)
        got = F.grid_sample(x.to("xpu"), grid.to("xpu"), **options).cpu()
        torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-5, atol=1e-5)
