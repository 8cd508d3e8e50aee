"""Upstream's Inductor path with Triton kernels on xpu: torch._inductor.config.xpu_backend = "triton"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytest.importorskip("triton")


def close(actual: Any, expected: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(actual.cpu(), expected, atol=tolerance, rtol=tolerance)


@pytest.fixture(autouse=True)
def triton_backend() -> Any:
    torch._dynamo.reset()
    with torch._inductor.config.patch(xpu_backend="triton", compile_threads=1):
        yield
    torch._dynamo.reset()


CASES: dict[str, Callable[..., Any]] = {
    "pointwise": lambda a: (a * a + 1).relu() * torch.sigmoid(a) - a.tanh(),
    "softmax": lambda a: torch.softmax(a * 2, -1),
    "layer_norm": lambda a: F.layer_norm(a + 1, (100,)),
    "sum of columns": lambda a: (a * a).sum(0),
    "transpose": lambda a: a.t().contiguous() + 1,
    "argmax": lambda a: a.argmax(1),
    "cumsum": lambda a: a.cumsum(1),
    "pooling": lambda a: F.avg_pool2d(a.reshape(3, 20, 100), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_graph(name: str) -> None:
    x = torch.randn(60, 100)
    close(torch.compile(CASES[name])(x.to("xpu")), CASES[name](x))


def test_training_step() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))
    on_device = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)).to("xpu")
    on_device.load_state_dict(model.state_dict())
    x, y = torch.randn(16, 32), torch.randint(0, 10, (16,))
    F.cross_entropy(model(x), y).backward()
    F.cross_entropy(torch.compile(on_device)(x.to("xpu")), y.to("xpu")).backward()
    for a, b in zip(on_device.parameters(), model.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        close(a.grad, b.grad)
