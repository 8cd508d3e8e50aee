"""Calls of compiled functions: the frames of Python between a call and its graph. Runs after torch._dynamo.decorators.

Behind a kernel that streams through the caches each frame costs a microsecond or more: a graph of one kernel took 170 us longer
than the same operator, where both together take 10 with warm caches (docs/notes/models.md).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import _guards
from torch._C._dynamo.eval_frame import set_eval_frame, set_eval_frame_isolate_recompiles_id
from torch._dynamo import config, eval_frame
from torch._dynamo.exc import ShortenTraceback, UncapturedHigherOrderOpError, Unsupported, UserError
from torch.fx._symbolic_trace import is_fx_symbolic_tracing

from xpu_ops import _autoload
from xpu_ops.upstream.registry import replaces, uses

# The text of upstream's functions that those here stand for: any other text stays as it is.
_ENTRIES = ("baa9106b50350c65", "48c1459dd5f7798c")  # 2.13, 2.15
_DISABLED = ("d20f0ddf63e7ee58",)  # 2.13; 2.15 has mended it
_stance = eval_frame._stance  # of a program that has not called torch.compiler.set_stance
_is_nested_in_fakes = getattr(eval_frame, "_is_eager_on_nested_compile", None)  # 2.15


def _is_known(function: Callable[..., Any], texts: tuple[str, ...]) -> bool:
    try:
        text = inspect.getsource(function)
    except OSError:  # no sources
        return False
    return hashlib.sha256(text.encode()).hexdigest()[:16] in texts


def _like(function: Any, upstream: Any) -> Callable[..., Any]:
    """A function of ours with upstream's names and marks."""
    functools.update_wrapper(function, upstream)
    del function.__wrapped__
    function.__dict__.update(upstream.__dict__)
    function._torchdynamo_wrapper_id = id(function)
    return function


def _is_undisturbed() -> bool:
    """Whether nothing around a call of a compiled function asks for another way than the usual one."""
    return (
        eval_frame._stance is _stance
        and getattr(_guards._TLS, "tracing_context", None) is None
        and not torch.compiler._is_exporting_flag
        and not is_fx_symbolic_tracing()
        and not torch._C._is_tracing()
        and not (_is_nested_in_fakes and _is_nested_in_fakes())
    )


@uses(
    "torch._dynamo.trace_rules.add",
    since="2.13",
    why="Dynamo traces no file of its own; the functions here stand for some of those",
    test="tests/inductor/test_compile_call.py::test_a_compiled_module_says_that_it_runs",
)
def not_traced(add: Callable[[str], None]) -> None:
    add(__name__)


def _entry(upstream: Any, context: Any) -> Callable[..., Any]:
    compiled = _autoload.load().compiled_call(
        function=upstream._torchdynamo_orig_callable,
        callback=context.callback,
        region=context._isolate_recompiles_id,
        set_frame=set_eval_frame,
        set_region=set_eval_frame_isolate_recompiles_id,
        layers=torch._C._functorch.get_dynamic_layer_stack_depth,
        undo_layers=torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth,
    )
    is_first = True  # the hooks of a context are for its first call

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_first
        if is_first or not _is_undisturbed():
            is_first = False
            return upstream(*args, **kwargs)
        try:
            return compiled(*args, **kwargs)
        except (Unsupported, UncapturedHigherOrderOpError, UserError) as error:
            if config.verbose:
                raise
            cause: BaseException | None = error.__cause__
            while cause is not None:
                cause.with_traceback(None)
                cause = cause.__cause__
            raise error.with_traceback(None) from error.__cause__
        except ShortenTraceback as error:
            raise error.remove_dynamo_frames() from None

    return _like(compile_wrapper, upstream)


@replaces(
    "torch._dynamo.eval_frame._TorchDynamoContext.__call__",
    since="2.13",
    why="a call of a compiled function goes through thirteen frames of Python and five objects of pybind11 before Dynamo looks for the "
    "graph",
    test="tests/inductor/test_compile_call.py::test_errors_of_compilation_are_upstreams",
)
def short_entry(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """From its second call on, where nothing around it asks for more."""
    if not _is_known(upstream, _ENTRIES):
        return upstream

    @functools.wraps(upstream)
    def entered(self: Any, fn: Any) -> Any:
        whole = upstream(self, fn)
        asks_for_more = (
            self.fullgraph or self.export or self.error_on_graph_break is not None or len(self.enter_exit_hooks) != 1
        )
        if type(self) is not eval_frame.OptimizeContext or asks_for_more or not inspect.isfunction(whole):
            return whole
        return _entry(whole, self)

    return entered


@replaces(
    "torch._dynamo.eval_frame.DisableContext.__call__",
    since="2.13",
    why="every graph is called through three frames of Python that keep Dynamo away from it",
    test="tests/inductor/test_compile_call.py::test_dynamo_stays_away_from_a_disabled_function",
)
def short_disabled(upstream: Callable[..., Any]) -> Callable[..., Any]:
    if not _is_known(upstream, _DISABLED):
        return upstream

    @functools.wraps(upstream)
    def disabled(self: Any, fn: Any) -> Any:
        whole: Any = upstream(self, fn)
        if not inspect.isfunction(whole):  # of a module or a class
            return whole

        function = getattr(whole, "_torchdynamo_orig_callable")  # noqa: B009 a mark of Dynamo's

        def _fn(*args: Any, **kwargs: Any) -> Any:
            if eval_frame._stance is not _stance or torch.compiler._is_exporting_flag:
                return whole(*args, **kwargs)
            before = set_eval_frame(None)
            try:
                return function(*args, **kwargs)
            finally:
                set_eval_frame(before)

        return _like(_fn, whole)

    return disabled


_flags = vars(eval_frame)  # with the one that upstream's context sets


class _InOptimizedModule:
    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _flags["_in_optimized_module"]
        _flags["_in_optimized_module"] = True

    def __exit__(self, *error: object) -> None:
        _flags["_in_optimized_module"] = self.before


@replaces(
    "torch._dynamo.eval_frame._set_in_optimized_module",
    since="2.13",
    why="a generator's context takes seven frames of Python at every call of a compiled module",
    test="tests/inductor/test_compile_call.py::test_a_compiled_module_says_that_it_runs",
)
def in_optimized_module(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return _InOptimizedModule
