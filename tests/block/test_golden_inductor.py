"""The kernels that torch.compile writes, for a CPU device and for a GPU. Nothing is compiled or launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import golden
from torch._inductor import config

from tools import torch_release
from xpu_ops.block.device import CPU, GPU, Policy

POLICIES = {"cpu": CPU, "gpu": GPU}
RELEASE = "2.13"  # graphs of another release may be fused in another way


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, device="xpu")


def weighted(a: torch.Tensor, dim: int) -> torch.Tensor:
    """The reductions of softmax, which itself stays an operator."""
    e = (a - a.amax(dim, keepdim=True)).exp()
    return e * e.sum(dim, keepdim=True)


GRAPHS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "chain": (lambda a, b: (a * b).tanh() + 1, lambda: (rand(100, 90), rand(100, 90))),
    "bias_of_rows": (lambda a, b: F.gelu(a + b).half(), lambda: (rand(100, 90), rand(90))),
    "transposed": (lambda a, b: a.t() + b, lambda: (rand(333, 601), rand(601, 333))),
    "channels_to_images": (lambda a: (a.permute(0, 3, 1, 2) * 2).contiguous(), lambda: (rand(2, 20, 48, 3),)),
    "lookup": (lambda a, i: a[i] * 2, lambda: (rand(50, 64), torch.arange(8, device="xpu"))),
    "padded": (lambda a: F.pad(a, (1, 2)) + 1, lambda: (rand(20, 300),)),
    "exp_of_rows": (lambda a: weighted(a, -1), lambda: (rand(40, 200),)),
    "layer_norm": (lambda a, w: F.layer_norm(a, (2048,), w), lambda: (rand(8, 2048), rand(2048))),
    "sum_of_columns": (lambda a: a.sum(0), lambda: (rand(300, 500),)),
    "exp_of_columns": (lambda a: weighted(a, 0), lambda: (rand(30, 500),)),
    "max_of_rows": (lambda a: a.max(-1).values, lambda: (rand(40, 77),)),
    "short_rows": (lambda a: a.var(-1), lambda: (rand(2000, 9),)),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    chosen: Policy = POLICIES[policy]

    def load(source: str, kernels: list[Any], device: int = -1) -> list[Callable[..., None]]:
        assert all(k.local == 16 or policy == "gpu" for k in kernels)
        texts.append(source)
        return [lambda *args: None for _ in kernels]

    monkeypatch.setattr("xpu_ops.jit.service.load", load)
    monkeypatch.setattr("xpu_ops.inductor.forms.policy", lambda device: chosen)
    f, given = GRAPHS[name]
    torch.compile(f)(*given())
    assert len(texts) == 1 and "XPU_KERNEL_SG" in texts[0]
    if torch_release.series_of(torch.__version__) == RELEASE:
        golden.check(f"inductor_{name}.{policy}.expected", texts[0])
