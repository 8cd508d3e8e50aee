"""Graphs of one operator run as the operator: there is nothing to fuse. Runs after torch._inductor.compile_fx."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor import config
from torch.overrides import get_overridable_functions
from torch.utils._python_dispatch import TorchDispatchMode

from xpu_ops import _autoload
from xpu_ops._paths import manifest
from xpu_ops.upstream.registry import replaces

_MOST = 4  # calls of a graph of one operator, views included
# Settings of Inductor by which a program changes graphs.
_PASSES = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)


class _Other(Exception):
    """The graph is more than an operator."""


@functools.cache
def _rows() -> dict[str, str]:
    """Who computes an overload of dense tensors."""
    return {overload: row["by"] for row in manifest()["rows"] if row["key"] == "XPU" for overload in row["overloads"]}


@functools.cache
def _operators_with_kernels() -> frozenset[str]:
    return frozenset(overload.partition(".")[0] for overload, by in _rows().items() if by != "composite")


def _has_kernel(schema: Any) -> bool:
    """Whether an operator has a kernel that is not made of others. An overload that torch makes of another has that one's."""
    name = schema.name.removeprefix("aten::")
    by = _rows().get(f"{name}.{schema.overload_name}" if schema.overload_name else name)
    return name in _operators_with_kernels() if by is None else by != "composite"


@functools.cache
def _functions() -> frozenset[Any]:
    """Functions of tensors that leave no state behind."""
    named = {f for functions in get_overridable_functions().values() for f in functions}
    return frozenset(named | {getattr(operator, name) for name in operator.__all__})


def _has_passes() -> bool:
    """Whether the program has set one. A default is copied by who reads it."""
    return any(type(getattr(config, name)) is not type(config._config[name].default) for name in _PASSES)


class _Operators(TorchDispatchMode):
    """Counts the operators that compute something."""

    def __init__(self) -> None:
        super().__init__()
        self.found = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = func._schema
        name = schema.name
        if func.is_view or name.startswith(("aten::sym_", "prim::")) or name == "aten::_unsafe_view":
            return func(*args, **(kwargs or {}))
        self.found += 1
        dynamic = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
        if self.found > 1 or schema.is_mutable or dynamic or not _has_kernel(schema):
            raise _Other
        return func(*args, **(kwargs or {}))


def _is_operator(graph: fx.GraphModule) -> bool:
    places = [n.meta.get("example_value") for n in graph.graph.nodes if n.op == "placeholder"]
    calls = [n for n in graph.graph.nodes if n.op not in ("placeholder", "output")]
    fakes = [t for t in places if isinstance(t, torch._subclasses.FakeTensor)]
    if not fakes or len(calls) > _MOST or any(t.device.type != "xpu" for t in fakes):
        return False
    if not all(n.op == "call_method" or (n.op == "call_function" and n.target in _functions()) for n in calls):
        return False
    operators = _Operators()
    try:
        with fakes[0].fake_mode, operators:
            fx.Interpreter(graph).run(*places)
    except Exception:  # _Other, or one that the compiler will find
        return False
    return operators.found == 1


@replaces(
    "torch._TorchCompileInductorWrapper.__call__",
    since="2.13",
    why="a graph of one operator takes the kernels of the operator and, around them, longer than eager mode",
    test="tests/inductor/test_compile_operator.py::test_nothing_is_compiled",
)
def operators_as_they_are(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """Without options, and unless XPU_OPS_COMPILE_ALL asks for its kernels."""

    @functools.wraps(upstream)
    def call(self: Any, model_: Any, inputs_: Any, **kwargs: Any) -> Any:
        from xpu_ops.upstream.inductor import BACKEND

        plain = not self.config and not any(kwargs.values()) and config.xpu_backend == BACKEND
        plain = plain and not config.trace.enabled and not _has_passes()
        plain = plain and isinstance(model_, fx.GraphModule) and os.environ.get("XPU_OPS_COMPILE_ALL", "0") != "1"
        is_operator = plain and _is_operator(model_)
        _autoload.load().count_graph(is_operator)
        return model_.forward if is_operator else upstream(self, model_, inputs_, **kwargs)

    return call
