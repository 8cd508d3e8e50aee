"""Calls of compiled functions that take the short way in: the same results, errors and state as upstream's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo import eval_frame
from torch._dynamo.exc import BackendCompilerFailed


class Backend:
    """Counts its graphs, and fails while it is told to."""

    def __init__(self) -> None:
        self.graphs = 0
        self.fails = False

    def __repr__(self) -> str:
        return "backend"

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        if self.fails:
            raise ValueError("no graph today")
        self.graphs += 1
        return graph.forward  # type: ignore[no-any-return]


@pytest.fixture
def x() -> torch.Tensor:
    return torch.arange(6.0, device="xpu")


def warm(function: Callable[..., Any], x: torch.Tensor) -> None:
    for _ in range(3):
        function(x)


def test_errors_of_compilation_are_upstreams(x: torch.Tensor) -> None:
    """Of a call that finds no graph for its operands, the first call and a later one."""
    errors = []
    for calls in (0, 3):
        backend = Backend()
        f = torch.compile(lambda a: a * 2, backend=backend)
        for _ in range(calls):
            f(x)
        backend.fails = True
        with pytest.raises(BackendCompilerFailed, match="no graph today") as error:
            f(x.double())
        errors.append(error)
        backend.fails = False
        assert torch.equal(f(x.double()), x.double() * 2) and torch.equal(f(x), x * 2)
        assert get_eval_frame_callback() is None
    first, later = errors
    assert str(first.value) == str(later.value) and first.value.__cause__ is None is later.value.__cause__
    assert first.traceback[-1].frame.code.name == later.traceback[-1].frame.code.name


def test_an_error_of_the_function_leaves_nothing_behind(x: torch.Tensor) -> None:
    fails = False

    @torch.compiler.disable
    def checked(a: torch.Tensor) -> torch.Tensor:
        if fails:
            raise ValueError("not today")
        return a

    f = torch.compile(lambda a: checked(a + 1) * 2, backend=Backend())
    warm(f, x)
    fails = True
    with pytest.raises(ValueError, match="not today"):
        f(x)
    assert get_eval_frame_callback() is None
    fails = False
    assert torch.equal(f(x), (x + 1) * 2)


def test_a_stance_counts_at_every_call(x: torch.Tensor) -> None:
    backend = Backend()
    f = torch.compile(lambda a: a + 1, backend=backend)
    warm(f, x)
    assert backend.graphs == 1
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(f(x.double()), x.double() + 1)
    assert backend.graphs == 1
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        f(x.double())
    f(x.double())
    assert backend.graphs == 2


def test_traces_are_refused(x: torch.Tensor) -> None:
    f = torch.compile(lambda a: a + 1, backend=Backend())
    warm(f, x)
    with pytest.raises(RuntimeError, match="FX to symbolically trace"):
        torch.fx.symbolic_trace(f)
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(f, x)


def test_compiled_functions_within_others(x: torch.Tensor) -> None:
    backend = Backend()
    inner = torch.compile(lambda a: a.sin(), backend=backend)
    warm(inner, x)
    f = torch.compile(lambda a: inner(a) + 1, backend=backend)
    warm(f, x)
    assert backend.graphs == 2  # the second has both

    def breaks(a: torch.Tensor) -> torch.Tensor:
        b = a * 2
        torch._dynamo.graph_break()
        return inner(b) + 1

    g = torch.compile(breaks, backend=backend)
    warm(g, x)
    assert torch.equal(g(x), (x * 2).sin() + 1)
    assert torch.allclose(torch.vmap(f)(x[:, None]), (x.sin() + 1)[:, None])
    assert torch.equal(f(x), x.sin() + 1)


def test_dynamo_stays_away_from_a_disabled_function(x: torch.Tensor) -> None:
    backend = Backend()
    seen = []

    @torch.compiler.disable
    def plain(a: torch.Tensor) -> torch.Tensor:
        """Adds one."""
        seen.append(get_eval_frame_callback())
        return a + 1

    f = torch.compile(lambda a: plain(a * 2) * 3, backend=backend)
    warm(f, x)
    assert backend.graphs == 2 and seen == [None] * 3
    assert torch.equal(f(x), (x * 2 + 1) * 3)
    assert plain.__name__ == "plain" and plain.__doc__ == "Adds one."


def test_methods_and_names(x: torch.Tensor) -> None:
    class Scale:
        by = 3

        @torch.compile(backend=Backend())
        def scaled(self, a: torch.Tensor) -> torch.Tensor:
            """Scales."""
            return a * self.by

    scale = Scale()
    warm(scale.scaled, x)
    assert torch.equal(scale.scaled(x), x * 3)
    assert Scale.scaled.__name__ == "scaled" and Scale.scaled.__doc__ == "Scales."
    assert eval_frame.innermost_fn(Scale.scaled).__code__ is Scale.scaled.__wrapped__.__code__


def test_a_compiled_module_says_that_it_runs(x: torch.Tensor) -> None:
    seen = []

    class Model(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            b = a + 1
            torch.compiler.disable(lambda: seen.append(eval_frame._is_in_optimized_module()))()
            return b * 2

    model = torch.compile(Model(), backend=Backend())
    warm(model, x)
    assert seen == [True] * 3 and not eval_frame._is_in_optimized_module()
    assert torch.equal(model(x), (x + 1) * 2)


def test_hooks_of_compiled_modules(x: torch.Tensor) -> None:
    """Of the compiled module, of its own and of all modules, from calls before and behind the first ones."""
    seen: list[str] = []

    class Model(nn.Module):
        def forward(self, a: torch.Tensor, *, by: float = 1.0) -> torch.Tensor:
            return a * by + 1

    inner = Model()
    model = torch.compile(inner, backend=Backend())
    warm(model, x)
    assert torch.equal(model(x, by=3.0), x * 3 + 1)
    handles = [
        model.register_forward_hook(lambda *_: seen.append("outer")),
        inner.register_forward_pre_hook(lambda *_: seen.append("inner")),
    ]
    assert torch.equal(model(x), x + 1) and seen == ["inner", "outer"]
    for handle in handles:
        handle.remove()
    seen.clear()
    handle = nn.modules.module.register_module_forward_pre_hook(lambda m, _: seen.append(type(m).__name__))
    with pytest.warns(UserWarning, match="global hooks"):
        model(x)
    handle.remove()
    assert "Model" in seen
    seen.clear()
    assert torch.equal(model(x), x + 1) and not seen
    inner.forward = lambda a: a - 1  # type: ignore[method-assign, assignment]
    assert torch.equal(model(x), x - 1)


def test_compiled_modules_within_others(x: torch.Tensor) -> None:
    backend = Backend()

    class Add(nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return a + 1

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.compile(Add(), backend=backend)

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return self.inner(a) * 2  # type: ignore[no-any-return]

    eager, model = Outer(), torch.compile(Outer(), backend=backend)
    warm(eager, x)
    warm(model, x)
    assert backend.graphs == 2 and torch.equal(eager(x), (x + 1) * 2) and torch.equal(model(x), (x + 1) * 2)


def test_subclasses_of_compiled_modules(x: torch.Tensor) -> None:
    class Mine(eval_frame.OptimizedModule):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) * 2

    context = torch._dynamo.optimize(Backend())
    model = Mine(nn.ReLU(), context)
    warm(model, x)
    assert torch.equal(model(x), x.relu() * 2)
