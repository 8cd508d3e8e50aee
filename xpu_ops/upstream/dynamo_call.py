"""Calls of compiled functions: the frames of Python between a call and its graph. Runs after torch._dynamo.decorators.

Behind a kernel that streams through the caches each frame costs a microsecond or more: a graph of one kernel took 170 us longer
than the same operator, where both together take 10 with warm caches (docs/notes/models.md).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Callable, Iterator
from types import CellType, CodeType
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
_MODULE_CALLS = ("0a7f496ce1c8c0c6",)  # 2.13, 2.15
_DISABLED = ("d20f0ddf63e7ee58",)  # 2.13; 2.15 has mended it
_stance = eval_frame._stance  # of a program that has not called torch.compiler.set_stance
_flags = vars(eval_frame)
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


# Functions by which a program does other things where it is compiled, and how many functions are searched for their names.
_ASKING = frozenset(("is_compiling", "is_dynamo_compiling", "is_exporting", "is_torchdynamo_compiling"))
_MOST_SEARCHED = 1000


def _reached(function: Any) -> list[Any]:
    """Functions that one may call: of its closure and of its file, and the forward() of modules there."""
    held = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    held += [getattr(function, "__self__", None), *map(function.__globals__.get, function.__code__.co_names)]
    modules = (h for h in held if isinstance(h, torch.nn.Module))
    forwards = [part.forward for part in {type(part) for module in modules for part in module.modules()}]
    return forwards + [h for h in held if inspect.isfunction(h) and not h.__module__.startswith("torch.")]


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code and that of functions in it."""
    yield code
    for inner in code.co_consts:
        if inspect.iscode(inner):
            yield from _codes(inner)


def _asks(function: Any) -> bool:
    """Whether a function, or one that it may call, asks if it is compiled, as far as a search for names tells."""
    left, seen = [function], set()
    while left:
        of = left.pop()
        if of in seen:
            continue
        seen.add(of)
        if len(seen) > _MOST_SEARCHED or not hasattr(of, "__code__"):
            return True
        if any(_ASKING.intersection(code.co_names) for code in _codes(of.__code__)):
            return True
        left += _reached(of)
    return False


@replaces(
    "torch._dynamo.symbolic_convert.InstructionTranslatorBase.mark_inconsistent_side_effects",
    since="2.13",
    why="Dynamo calls it where a function asks if it is compiled, also one that no search for names reaches",
    test="tests/inductor/test_compile_operator.py::test_a_function_that_asks_stays_compiled",
)
def questions(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """Counted: such a function is not called itself."""

    @functools.wraps(upstream)
    def mark_inconsistent_side_effects(self: Any) -> Any:
        _autoload.load().count_question()
        return upstream(self)

    return mark_inconsistent_side_effects


def _entry(upstream: Any, context: Any) -> Callable[..., Any]:
    compiled = _autoload.load().compiled_call(
        function=upstream._torchdynamo_orig_callable,
        whole=upstream,
        callback=context.callback,
        region=context._isolate_recompiles_id,
        set_frame=set_eval_frame,
        set_region=set_eval_frame_isolate_recompiles_id,
        layers=torch._C._functorch.get_dynamic_layer_stack_depth,
        undo_layers=torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth,
        undisturbed=_is_undisturbed,
        flags=_flags,
        asks=functools.partial(_asks, upstream._torchdynamo_orig_callable),
    )

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
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

    wrapper = _like(compile_wrapper, upstream)
    wrapper._xpu_ops_call = compiled  # type: ignore[attr-defined]
    return wrapper


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


@replaces(
    "torch._dynamo.eval_frame.OptimizedModule.__call__",
    since="2.13",
    why="a call of a compiled module goes through seven frames of Python before that of the compiled function",
    test="tests/inductor/test_compile_call.py::test_a_compiled_module_says_that_it_runs",
)
def call_of_a_module(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """From C, where no hook asks for more."""
    if not _is_known(upstream, _MODULE_CALLS):
        return upstream
    call: Callable[..., Any] = _autoload.load().module_call(
        eval_frame.OptimizedModule, upstream, torch.nn.Module, _flags, vars(torch.nn.modules.module)
    )
    return call
