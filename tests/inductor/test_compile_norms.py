"""Convolutions that take up the norm behind them, in graphs of inferences."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.utils import run_and_get_code

import xpu_ops
from xpu_ops.block.device import policy

LAST = torch.channels_last
INF, NAN = float("inf"), float("nan")


def norm(channels: int, affine: bool = True) -> nn.Module:
    made = nn.BatchNorm2d(channels, affine=affine)
    nn.init.uniform_(made.running_mean, -0.5, 0.5)
    nn.init.uniform_(made.running_var, 0.5, 2.0)
    if affine:
        nn.init.uniform_(made.weight, 0.5, 1.5)
        nn.init.uniform_(made.bias, -0.5, 0.5)
    return made


class Inverted(nn.Module):
    """A block of MobileNet."""

    def __init__(self, channels: int = 16, kernel: int = 3, stride: int = 1, act: Any = nn.ReLU6, **conv: Any) -> None:
        super().__init__()
        wide = 3 * channels
        self.inner = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), norm(wide), act(),
            nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False), norm(wide), act(),
            nn.Conv2d(wide, channels, 1), norm(channels, affine=False),
        )  # fmt: skip
        self.same = stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        return x + y if self.same else y


class Bottleneck(nn.Module):
    """A block of ResNet, whose sum has relu behind it."""

    def __init__(self, channels: int = 16) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, 8, 1, bias=False), norm(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, 2, 1, bias=False), norm(8), nn.ReLU(),
            nn.Conv2d(8, 24, 1, bias=False), norm(24),
        )  # fmt: skip
        self.down = nn.Sequential(nn.Conv2d(channels, 24, 1, 2, bias=False), norm(24))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x) + self.down(x))


NETWORKS = {
    "inverted": (lambda: Inverted(), 3),
    "inverted, stride 2": (lambda: Inverted(stride=2), 3),
    "inverted, 5x5": (lambda: Inverted(kernel=5), 3),
    "inverted, 5x5, stride 2": (lambda: Inverted(kernel=5, stride=2), 3),
    "inverted, relu": (lambda: Inverted(act=nn.ReLU), 3),
    "inverted, 24 channels": (lambda: Inverted(channels=8), 3),
    "bottleneck": (lambda: Bottleneck(), 4),
}


def calls(code: str) -> list[str]:
    return [line for line in code.splitlines() if "= torch.ops.xpu_ops.conv_norm" in line]


def compiled_code(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, str]:
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, fullgraph=True)
        result, (code,) = run_and_get_code(compiled, x)
        for _ in range(2):  # statistics count as weights from the second call on
            result = compiled(x)
    return result, code


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, count = NETWORKS[name]
    model = make().eval().to("xpu", dtype)
    x = torch.randn(2, model.inner[0].in_channels, 11, 14, device="xpu", dtype=dtype)
    with xpu_ops.fallback.forbid():
        result, code = compiled_code(model, x)
        expected = copy.deepcopy(model).double()(x.double())
    assert len(calls(code)) == count
    loose = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(result.double(), expected, rtol=loose, atol=4 * loose)
    assert result.stride() == model(x).stride()


def test_written_tensors_are_folded_anew() -> None:
    """Each of the tensors by itself, also behind the back of its version."""
    torch.manual_seed(0)
    model = Inverted().eval().to("xpu")
    x = torch.randn(1, 16, 9, 9, device="xpu")
    conv, behind = model.inner[3], model.inner[4]
    with torch.no_grad():
        compiled = torch.compile(model)
        for _ in range(3):
            compiled(x)
        tensors = [conv.weight, behind.weight, behind.bias, behind.running_mean, behind.running_var]
        for write in (lambda t: t.mul_(1.5), lambda t: t.data.mul_(1.25)):
            for tensor in tensors:
                write(tensor)
                for _ in range(2):
                    torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        model.inner[1].running_var = model.inner[1].running_var * 2  # another tensor
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        for _ in range(2):
            packs = xpu_ops.onednn.weight_cache.packs
            compiled(x)
    assert xpu_ops.onednn.weight_cache.packs == packs


def test_recorded_graphs_see_writes() -> None:
    torch.manual_seed(0)
    model = Inverted().eval().to("xpu")
    x = torch.randn(1, 16, 9, 9, device="xpu")
    behind = model.inner[4]
    torch._dynamo.reset()
    with torch.no_grad():
        compiled = torch.compile(model, mode="reduce-overhead")
        for tensor in (
            None,
            model.inner[3].weight,
            behind.weight,
            behind.bias,
            behind.running_mean,
            behind.running_var,
        ):
            if tensor is not None:
                tensor.mul_(1.5)
            for _ in range(4):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("act", [nn.ReLU6, nn.ReLU], ids=["relu6", "relu"])
def test_special_values(act: Any) -> None:
    """NaN and infinity before a clamp that the depthwise layer makes, and behind it."""
    torch.manual_seed(0)
    model = Inverted(act=act).eval().to("xpu")
    x = torch.randn(1, 16, 12, 12, device="xpu")
    x[0, 3, 2, 2], x[0, 4, 9, 9], x[0, 5, 2, 9] = NAN, INF, -INF
    result, _ = compiled_code(model, x)
    torch.testing.assert_close(result, model(x).detach(), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert result.isnan().any() and not result.isnan().all()


@pytest.mark.parametrize("low, high", [(-INF, INF), (0.0, 6.0), (0.5, 0.75)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", [(1, 1), (2, 7), (5, 4), (13, 19)], ids=str)
def test_bounds_of_what_is_read(size: tuple[int, int], kernel: int, stride: int, low: float, high: float) -> None:
    """Padding stays 0 where the bounds have no 0; channels that fill no last vector."""
    torch.manual_seed(1)
    x = torch.randn(2, 37, *size)
    x.view(-1)[torch.randperm(x.numel())[:3]] = torch.tensor([NAN, INF, -INF])
    w, n = nn.Parameter(torch.randn(37, 1, kernel, kernel)), norm(37).eval()
    x, w, n = x.to("xpu").contiguous(memory_format=LAST), w.to("xpu"), n.to("xpu")
    geometry = [stride, stride], [kernel // 2] * 2, [1, 1]
    for post in ([], ["relu"], ["clip:-0.25,0.5"]):
        with torch.no_grad():
            args = x, w, None, n.weight, n.bias, n.running_mean, n.running_var, n.eps, *geometry, 37, [low, high], post
            for _ in range(3):
                result = torch.ops.xpu_ops.conv_norm(*args, [])
            expected = n(torch.conv2d(x.clamp(low, high), w, None, *geometry, 37))
            if post:
                expected = expected.relu() if post == ["relu"] else expected.clamp(-0.25, 0.5)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_one_launch_for_each_layer() -> None:
    """The clamps of a block go into its depthwise layer, which a GPU's policy has not."""
    _, code = compiled_code(Inverted().eval().to("xpu"), torch.randn(1, 16, 9, 9, device="xpu"))
    first, second, _ = calls(code)
    moved = policy().single_items
    assert ("[], [], []" if moved else "[], ['clip:0.0,6.0'], []") in first
    assert f"{'[0.0, 6.0]' if moved else '[]'}, ['clip:0.0,6.0'], []" in second


def test_training_is_as_it_was() -> None:
    model = Inverted().to("xpu")
    x = torch.randn(1, 16, 9, 9, device="xpu")
    torch._dynamo.reset()
    for mode in (model.train(), model.eval()):
        _, codes = run_and_get_code(torch.compile(mode), x)
        assert not any("conv_norm" in code for code in codes)


def test_results_that_are_read_elsewhere() -> None:
    """A norm whose convolution has another reader stays."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 8, 3), norm(8)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.conv(x)
            return self.norm(y).relu(), y

    model = Twice().eval().to("xpu")
    x = torch.randn(1, 4, 9, 9, device="xpu")
    result, code = compiled_code(model, x)
    assert "conv_norm" not in code
    torch.testing.assert_close(result, model(x), rtol=1e-5, atol=1e-5)
