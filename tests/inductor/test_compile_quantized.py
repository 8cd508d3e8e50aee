"""Graphs with the quantised-decomposed operators that the PT2E flow writes: frozen, they become onednn::q* operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch._inductor.config as config
import torch.ao.quantization.fx._decomposed  # defines the operators
from torch import nn
from torch._inductor.utils import run_and_get_code

import xpu_ops

q = torch.ops.quantized_decomposed
SCALE, ZERO = 0.03, 128


def rounded(x: torch.Tensor) -> torch.Tensor:
    """An activation in 8 bits, as a converted graph has it."""
    return q.dequantize_per_tensor(
        q.quantize_per_tensor(x, SCALE, ZERO, 0, 255, torch.uint8), SCALE, ZERO, 0, 255, torch.uint8
    )


class Weight(nn.Module):
    """A weight of 8 bits per output channel."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        w = torch.randn(shape)
        scale = w.abs().amax(tuple(range(1, w.dim()))) / 127
        zero = torch.zeros(shape[0], dtype=torch.int64)
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)
        self.register_buffer("data", q.quantize_per_channel(w, scale, zero, 0, -127, 127, torch.int8))

    def forward(self) -> torch.Tensor:
        return q.dequantize_per_channel(self.data, self.scale, self.zero, 0, -127, 127, torch.int8)


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bias = Weight(32, 24), Weight(16, 32), nn.Parameter(torch.randn(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.linear(rounded(x), self.first(), self.bias).relu()
        return nn.functional.linear(rounded(x), self.second())


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.bias = Weight(8, 3, 3, 3), Weight(16, 8, 1, 1), nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.conv2d(rounded(x), self.first(), self.bias, padding=1).relu()
        return nn.functional.conv2d(rounded(x), self.second())


@pytest.mark.parametrize(
    ("make", "shape", "operator"),
    [(Linear, (5, 24), "qlinear_pointwise"), (Convolution, (2, 3, 9, 9), "qconv")],
    ids=["linear", "convolution"],
)
def test_quantised_graph(make: Any, shape: tuple[int, ...], operator: str) -> None:
    torch.manual_seed(0)
    model = make().eval()
    x = torch.rand(shape)
    with torch.no_grad():
        expected = model(x)
        model = model.to("xpu")
        program = torch.export.export(model, (x.to("xpu"),)).module()
        with config.patch(freezing=True), xpu_ops.fallback.forbid():
            actual, code = run_and_get_code(torch.compile(program), x.to("xpu"))
    assert any(operator in text for text in code), code
    step = SCALE * expected.abs().max() / expected.std()
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-3, atol=float(step))
