"""The lowerings of linear layers with post-ops. Runs with the first graph that Rewrite changed (inductor/passes.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir, mkldnn_ir

from xpu_ops.inductor.passes import is_xpu
from xpu_ops.upstream.registry import replaces

_LOWERINGS = "torch._inductor.lowering.lowerings"
_TEST = "tests/inductor/test_compile_models.py::test_linear_layers_take_what_follows"
_WHY = "upstream's lowering asks for weights that are constants of a frozen graph"


def _lowering(upstream: Callable[..., Any], make: Any) -> Callable[..., Any]:
    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_xpu(x):
            return upstream(x, *args, **kwargs)
        return ir.TensorBox.create(make.create(x, *args, **kwargs))

    return lower


@replaces(f"{_LOWERINGS}[torch.ops.mkldnn._linear_pointwise.default]", since="2.13", why=_WHY, test=_TEST)
def linear_unary(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return _lowering(upstream, mkldnn_ir.LinearUnary)


@replaces(f"{_LOWERINGS}[torch.ops.mkldnn._linear_pointwise.binary]", since="2.13", why=_WHY, test=_TEST)
def linear_binary(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return _lowering(upstream, mkldnn_ir.LinearBinary)
