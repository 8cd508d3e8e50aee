"""Operators of CPU tensors on the device's kernels: values, autograd, autocast, the switch back, and what is refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import xpu_ops
from xpu_ops import _C, accelerate_cpu

if not _C.host_accessible(0):  # XPU_OPS_DISCRETE: see test_device_memory

    def test_a_device_with_its_own_memory_is_refused() -> None:
        with pytest.raises(RuntimeError, match="works on host memory"):
            accelerate_cpu(["aten::gelu"])


shared = pytest.mark.skipif(not _C.host_accessible(0), reason="the device works on memory of its own")


def programs() -> dict[str, tuple[str, Any]]:
    torch.manual_seed(0)
    x, y = torch.randn(64, 96), torch.randn(64, 96)
    image, kernel = torch.randn(2, 3, 16, 16), torch.randn(4, 3, 3, 3)
    return {
        "gelu": ("aten::gelu", lambda: F.gelu(x)),
        "strided": ("aten::gelu", lambda: F.gelu(x.t()[::2])),
        "add": ("aten::add.Tensor", lambda: x + y),
        "number": ("aten::add.Tensor", lambda: x.to(torch.int32) + 2.5),
        "in place": ("aten::add_.Tensor", lambda: x.clone().add_(y)),
        "layer_norm": ("aten::native_layer_norm", lambda: F.layer_norm(x, (96,))),
        "softmax": ("aten::_softmax", lambda: x.softmax(-1)),
        "list": ("aten::cat", lambda: torch.cat([x, y], 1)),
        "several": ("aten::topk", lambda: torch.topk(x, 3)),
        "optional list": ("aten::index.Tensor", lambda: x[:, torch.tensor([1, 3, 3])]),
        "convolution": ("aten::convolution", lambda: F.conv2d(image, kernel, padding=1)),
        "bool": ("aten::lt.Tensor", lambda: x < y),
        "double": ("aten::mm", lambda: x.double() @ y.double().t()),
    }


@shared
@pytest.mark.parametrize("name", programs())
def test_values_and_switch(name: str) -> None:
    overload, program = programs()[name]
    expected = program()
    with accelerate_cpu([overload], least=1) as served:
        out = program()
        assert served.calls() == {overload: 1}
    assert overload not in _C.served_cpu()
    again = program()
    leaves = [torch.utils._pytree.tree_leaves(v) for v in (out, expected, again)]
    for a, b, c in zip(*leaves, strict=True):
        assert a.device.type == "cpu"
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert torch.equal(b, c)


@shared
def test_in_place_results_are_the_same_tensor() -> None:
    x = torch.ones(100)
    view = x[10:20]
    with accelerate_cpu(["aten::mul_.Tensor"], least=1) as served:
        out = view.mul_(3.0)
        assert served.calls() == {"aten::mul_.Tensor": 1}
    assert out is view
    assert x.sum() == 120
    assert x._version == 1


@shared
def test_gradients() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 4))
    x = torch.randn(16, 32, requires_grad=True)
    results = []
    operators = ["aten::addmm", "aten::mm", "aten::gelu", "aten::gelu_backward", "aten::native_layer_norm",
                 "aten::native_layer_norm_backward"]  # fmt: skip
    for on in (False, True):
        net.zero_grad()
        x.grad = None
        with accelerate_cpu(operators if on else [], least=1) as served:
            net(x).square().sum().backward()
            calls = served.calls()
        results.append([x.grad, *(p.grad.clone() for p in net.parameters())])
    assert set(calls) == set(operators)
    assert all(calls.values())
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@shared
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("parameters", [None, torch.float32, "same"])
def test_gradients_of_16_bit_norms_are_torchs_own(dtype: torch.dtype, parameters: torch.dtype | str | None) -> None:
    """Forward on the device, backward by torch, which asks for statistics of its own type."""
    kind = dtype if parameters == "same" else parameters
    weight = torch.linspace(0.5, 1.5, 6, dtype=kind) if kind else None
    source = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    overloads = ["aten::native_layer_norm", "aten::native_batch_norm", "aten::_native_batch_norm_legit.no_stats"]
    gradient = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    results = []
    for on in (False, True):
        x = source.clone().requires_grad_()
        with accelerate_cpu(overloads if on else [], least=1) as served:
            F.layer_norm(x.t(), (6,), weight).backward(gradient)
            F.batch_norm(x.t(), None, None, weight, training=True).backward(gradient)
            saved = torch.ops.aten._native_batch_norm_legit.no_stats(source.t(), weight, weight, True, 0.1, 1e-5)
            assert not on or all(served.calls().values())
        results.append([x.grad, *saved])
    for got, want in zip(*reversed(results), strict=True):
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


@shared
def test_one_acceleration_within_another() -> None:
    x = torch.randn(9)
    with accelerate_cpu(["aten::topk"], least=4) as outer:
        x.topk(2)
        with accelerate_cpu(["aten::topk", "aten::cumsum"], least=1) as inner:
            x[:3].topk(2)
            assert inner.calls() == {"aten::topk": 1, "aten::cumsum": 0}
        with pytest.raises(ValueError, match="aten::none"):
            accelerate_cpu(["aten::topk", "aten::none"])
        x.topk(2)
        x[:3].topk(2)  # too few for this one
        assert outer.calls() == {"aten::topk": 3}
    inner.undo()
    assert outer.calls() == inner.calls() == {}
    first, second = (accelerate_cpu(["aten::topk"], least=1) for _ in range(2))
    first.undo()
    x.topk(2)
    assert second.calls() == {"aten::topk": 1}
    second.undo()


@shared
def test_autocast() -> None:
    x, layer = torch.randn(64, 32), nn.Linear(32, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = layer(x)
        with accelerate_cpu(["aten::addmm"], least=1) as served:
            out = layer(x)
            assert served.calls() == {"aten::addmm": 1}
    assert out.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)


@shared
def test_results_are_ordinary_tensors() -> None:
    """They outlive their operands, can be resized, saved and given back, many times."""
    with accelerate_cpu(["aten::mul.Tensor"], least=1):
        x: Tensor = torch.full((4096,), 2.0)
        for _ in range(50):
            x = x * 1.5
            x = x * (1 / 1.5)
    torch.testing.assert_close(x, torch.full((4096,), 2.0))
    x.resize_(8192).zero_()
    assert x.sum() == 0


@shared
def test_small_and_foreign_calls_go_to_torch() -> None:
    with accelerate_cpu(["aten::add.Tensor", "aten::mm"], least=1000) as served:
        torch.ones(10) + 1
        torch.eye(3).to_sparse() + torch.eye(3).to_sparse()
        torch.ones(2000).conj() + 1
        assert served.calls() == {"aten::add.Tensor": 1, "aten::mm": 0}
        torch.ones(0, 5) @ torch.ones(5, 0)
        assert served.calls()["aten::mm"] == 0


@shared
def test_errors_are_torchs() -> None:
    x = torch.ones(64, 64)
    with pytest.raises(RuntimeError) as expected:
        x @ torch.ones(3, 3)
    with accelerate_cpu(["aten::mm"], least=1), pytest.raises(RuntimeError) as got:
        x @ torch.ones(3, 3)
    assert str(got.value) == str(expected.value)


@shared
def test_threads() -> None:
    x = torch.randn(256, 256)
    expected = F.gelu(x)
    wrong = []

    def work() -> None:
        for _ in range(50):
            if not torch.allclose(F.gelu(x), expected, atol=1e-5):
                wrong.append(1)

    with accelerate_cpu(["aten::gelu"], least=1) as served:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert served.calls() == {"aten::gelu": 200}
    assert not wrong


@shared
@pytest.mark.parametrize(
    ("overload", "reason"),
    [
        ("gelu", "expected an overload as aten::gelu, got gelu"),
        ("aten::nothing_of_the_kind", "torch has no operator"),
        ("aten::linear", "composed of other operators"),
        ("aten::add.out", "writes to out="),
        ("aten::bernoulli", "random numbers"),
        ("aten::empty.memory_format", "makes tensors of a device"),
        ("aten::view", "its result is a view"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "no kernel for xpu"),
    ],
)
def test_refusals(overload: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        accelerate_cpu(["aten::gelu", overload])
    assert "aten::gelu" not in _C.served_cpu()


@shared
def test_the_default_list_can_be_served() -> None:
    with accelerate_cpu() as served:
        assert served.operators == xpu_ops.accelerate_cpu.default
        assert set(served.calls()) == set(served.operators)
    assert not _C.served_cpu()
