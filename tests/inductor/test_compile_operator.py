"""Compiled functions of one operator: nothing is compiled, and after a few calls the function itself is called."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters


@pytest.fixture(autouse=True)
def operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XPU_OPS_COMPILE_ALL", "0")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(0)).to("xpu")


def warm(function: Callable[..., Any], *args: Any) -> None:
    for _ in range(4):
        function(*args)


def graphs() -> int:
    return int(counters["stats"]["unique_graphs"])


ONE = {
    "relu": F.relu,
    "softmax": lambda x: F.softmax(x, -1),
    "a view and a product": lambda x: x[:, :1] * x,
    "sum": lambda x: x.sum(),
    "matmul": lambda x: x @ x.T,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
}
MORE = {
    "two operators": lambda x: x.relu() + 1,
    "in place": lambda x: x.clone().relu_(),
    "an operator that writes": lambda x: x.add_(0),
    "a view": lambda x: x.T,
    "an operator made of others": lambda x: F.huber_loss(x, x * 2) + F.l1_loss(x, x),
}


@pytest.mark.parametrize("name", ONE)
def test_nothing_is_compiled(name: str, x: torch.Tensor, kernels: Callable[[], int]) -> None:
    f = torch.compile(ONE[name])
    warm(f, x)
    assert kernels() == 0 and torch.equal(f(x), ONE[name](x))


@pytest.mark.parametrize("name", MORE)
def test_other_graphs_are_compiled(name: str, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import compile_fx

    seen = []
    upstream = compile_fx.compile_fx
    monkeypatch.setattr(compile_fx, "compile_fx", lambda *a, **k: seen.append(1) or upstream(*a, **k))
    torch.testing.assert_close(torch.compile(MORE[name])(x), MORE[name](x))
    assert seen == [1]


def test_options_and_a_switch_compile(
    x: torch.Tensor, kernels: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.compile(F.relu, options={"max_fusion_size": 8})(x)
    assert kernels() == 1
    monkeypatch.setenv("XPU_OPS_COMPILE_ALL", "1")
    torch._dynamo.reset()
    torch.compile(F.gelu)(x)
    assert kernels() == 2


class Scale(nn.Module):
    by = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


@pytest.mark.parametrize("is_module", [True, False])
def test_the_function_itself_is_called(is_module: bool, x: torch.Tensor) -> None:
    """A change that Dynamo would compile anew for goes unseen there, and counts."""
    scale = Scale()
    f = torch.compile(scale) if is_module else torch.compile(scale.forward)
    f(x)
    scale.by = 3.0
    before = graphs()
    assert torch.equal(f(x), x * 3) and graphs() > before
    warm(f, x)
    before = graphs()
    scale.by = 5.0
    assert torch.equal(f(x), x * 5) and graphs() == before
    for other in (x.double(), x.T, x[:3], x.clone().requires_grad_()):
        assert torch.equal(f(other), other * 5)
    assert graphs() > before
    with torch.autocast("xpu", torch.bfloat16):
        assert torch.equal(f(x), x * 5)


def test_two_graphs_are_not_passed_by(x: torch.Tensor) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y * len(mode)

    mode = "a"
    f = torch.compile(broken)
    for mode in ("a", "ab", "abc"):
        before = graphs()
        torch.testing.assert_close(f(x), (x.sin() + 1) * len(mode))
        assert graphs() > before
        warm(f, x)


def test_gradients(x: torch.Tensor) -> None:
    f, leaf = torch.compile(F.silu), x.clone().requires_grad_()
    warm(f, leaf)
    (got,) = torch.autograd.grad(f(leaf).sum(), leaf)
    (want,) = torch.autograd.grad(F.silu(leaf).sum(), leaf)
    assert torch.equal(got, want)


def test_a_stance_and_a_profile_count(x: torch.Tensor) -> None:
    f = torch.compile(Scale())
    warm(f, x)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        f(x.double())
    with torch.profiler.profile() as profile:
        f(x)
    assert any("Torch-Compiled Region" in e.key for e in profile.key_averages())
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(f, x)
    assert torch.allclose(torch.vmap(f)(x), x * 2)


def test_arguments_are_let_go(x: torch.Tensor) -> None:
    class Factor:
        by = 2.0

    f = torch.compile(lambda x, factor: x * factor.by)
    factor = Factor()
    warm(f, x, factor)
    assert torch.equal(f(x, factor), x * 2)
    there = weakref.ref(factor)
    torch._dynamo.reset()
    del factor
    gc.collect()
    assert there() is None
    other = Factor()
    other.by = 3.0
    assert torch.equal(f(x, other), x * 3)


def asks(x: torch.Tensor) -> torch.Tensor:
    return x.relu() if torch.compiler.is_compiling() else x.sigmoid()


class Asks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return asks(x)


class Holder:
    """No module: a search for names does not look into it."""

    def ask(self, x: torch.Tensor) -> torch.Tensor:
        return asks(x)

    __call__ = ask


HOLDER = Holder()
TABLE = {"ask": asks}
PART = functools.partial(asks)


@pytest.mark.parametrize(
    "function",
    [
        asks,
        lambda x: asks(x),
        nn.Sequential(Asks()),
        lambda x: HOLDER.ask(x),
        lambda x: HOLDER(x),
        lambda x: TABLE["ask"](x),
        lambda x: PART(x),
    ],
)
def test_a_function_that_asks_stays_compiled(function: Callable[..., Any], x: torch.Tensor) -> None:
    f = torch.compile(function)
    warm(f, x)
    assert torch.equal(f(x), x.relu())


def test_a_pass_of_the_program_sees_the_graph(x: torch.Tensor) -> None:
    seen: list[Any] = []
    with torch._inductor.config.patch(post_grad_custom_post_pass=seen.append):
        torch.compile(F.silu)(x)
    assert len(seen) == 1
