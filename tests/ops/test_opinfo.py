"""torch's own operator samples (OpInfo), on xpu against the CPU: no fallback allowed anywhere.

The fast level takes a few samples of each operator, spread over its list; XPU_OPS_TEST_LEVEL=full takes all.
"""

from __future__ import annotations

import itertools
import os
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_same, clone, cpu_refuses, narrowed, reference, to_device
from support.opinfo import UNDETERMINED, accumulates, arguments, named, op_id, to_xpu, undetermined
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

import xpu_ops

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool]
if FULL:
    DTYPES += [torch.float64, torch.complex64, torch.complex128, torch.uint8, torch.int32]
SAMPLES = {torch.float32: 7}
OTHER_SAMPLES = 3


def cases(ops: list[OpInfo]) -> list[Any]:
    out = []
    for op in ops:
        for dtype in DTYPES:
            if dtype in op.dtypes:
                out.append(pytest.param(op, dtype, id=f"{op_id(op)}-{str(dtype).removeprefix('torch.')}"))
    return out


def take(samples: Iterator[SampleInput], dtype: torch.dtype) -> list[SampleInput]:
    """All samples, or some spread evenly over the first sixty, thirty of types with few: making them takes longest."""
    if FULL:
        return list(samples)
    want = SAMPLES.get(dtype, OTHER_SAMPLES)
    some = list(itertools.islice(samples, 60 if dtype in SAMPLES else 30))
    step = max(1, len(some) // want)
    return some[::step][: want + 1]


def op_is_factory(op: OpInfo) -> bool:
    """Whether the operator makes tensors from sizes and numbers alone."""
    return op.name in {"arange", "empty", "eye", "full", "linspace", "logspace", "ones", "randn", "zeros", "normal"}


def as_declared(actual: Any, expected: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """The CPU's result in the types that upstream declares for this device, where those differ.

    The saved statistics of a norm of 16-bit tensors are of that type on the CPU, and float on every other device. In
    evaluation the CPU saves none: the declared size is expected then, with the values that the device gave.
    """
    flat_a, (flat_e, spec) = tree_leaves(actual), tree_flatten(expected)

    def form(t: Any) -> Any:
        return (t.dtype, t.shape) if isinstance(t, torch.Tensor) else None

    if len(flat_a) != len(flat_e) or [form(t) for t in flat_a] == [form(t) for t in flat_e]:
        return expected
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        declared = function(
            *tree_map(lambda t: mode.from_tensor(t) if isinstance(t, torch.Tensor) else t, args), **kwargs
        )

    def as_told(a: Any, e: Any, d: Any) -> Any:
        if not isinstance(e, torch.Tensor):
            return e
        return e.to(d.dtype) if e.shape == d.shape or a.shape != d.shape else a.cpu().to(d.dtype)

    return tree_unflatten([as_told(*t) for t in zip(flat_a, flat_e, tree_leaves(declared), strict=True)], spec)


def call_cpu(function: Any, args: Any, kwargs: Any) -> tuple[Any, BaseException | None]:
    try:
        torch.manual_seed(0)
        return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def check(op: OpInfo, function: Any, sample: SampleInput, dtype: torch.dtype) -> None:
    args, kwargs = arguments(sample)
    if "device" in kwargs:
        kwargs["device"] = "cpu"
    xargs, xkwargs = to_xpu(op, args, kwargs)
    if "device" in xkwargs:
        xkwargs["device"] = "xpu"
    expected, error = call_cpu(function, clone(args), clone(kwargs))
    wide = reference(function, *args, **kwargs) if error is not None and cpu_refuses(error) else None
    with xpu_ops.fallback.forbid():
        torch.manual_seed(0)
        try:
            actual = function(*xargs, **xkwargs)
        except Exception as raised:
            if error is None or not isinstance(raised, type(error)):
                raise
            return
    # A type that the CPU lacks is xpu's to have, if the values are right.
    assert error is None or wide is not None, f"no error, expected {error!r}"
    expected = expected if error is None else narrowed(wide, dtype)
    if undetermined(op, args, kwargs):
        flat_a, flat_e = tree_flatten(actual)[0], tree_flatten(expected)[0]
        for a, e in zip(flat_a, flat_e, strict=True):
            if isinstance(e, torch.Tensor):
                assert (a.shape, a.dtype) == (e.shape, e.dtype)
        return
    expected = as_declared(actual, expected, function, xargs, xkwargs)
    process = sample.output_process_fn_grad or (lambda x: x)
    actual, expected = named(op, xargs, xkwargs, actual), named(op, args, kwargs, expected)

    def wide_result() -> Any:
        result = reference(function, *args, **kwargs)
        return None if result is None else process(named(op, args, kwargs, result))

    assert_same(process(actual), process(expected), reference=wide_result, accumulates=accumulates(op))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(autouse=True)
def place(request: pytest.FixtureRequest) -> Iterator[None]:
    """Samples are small: forward and backward are tested on the device, the other variants where users run them."""
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(before and request.function.__name__ not in ("test_forward", "test_backward"))
    yield
    xpu_ops.set_inline(before)


@pytest.mark.parametrize(("op", "dtype"), cases(op_db))
def test_forward(op: OpInfo, dtype: torch.dtype) -> None:
    for sample in take(op.sample_inputs("cpu", dtype), dtype):
        check(op, op.op, sample, dtype)


@pytest.mark.parametrize(("op", "dtype"), cases(op_db))
def test_noncontiguous(op: OpInfo, dtype: torch.dtype) -> None:
    for sample in take(op.sample_inputs("cpu", dtype), dtype)[:5]:
        check(op, op.op, sample.noncontiguous(), dtype)


@pytest.mark.parametrize(("op", "dtype"), cases([op for op in op_db if op.inplace_variant is not None]))
def test_inplace(op: OpInfo, dtype: torch.dtype) -> None:
    for sample in take(op.sample_inputs("cpu", dtype), dtype)[:5]:
        if not isinstance(sample.input, torch.Tensor) or sample.broadcasts_input:
            continue
        check(op, op.inplace_variant, sample, dtype)


@pytest.mark.parametrize(("op", "dtype"), cases([op for op in op_db if op.supports_out]))
def test_out(op: OpInfo, dtype: torch.dtype) -> None:
    for sample in take(op.sample_inputs("cpu", dtype), dtype)[:3]:
        args, kwargs = arguments(sample)
        # A factory creates on the device it is told, whatever `out` is on.
        place = {"device": "xpu"} if "device" in kwargs or op_is_factory(op) else {}
        expected, error = call_cpu(op.op, args, {**kwargs, **({"device": "cpu"} if place else {})})
        single = isinstance(expected, torch.Tensor)
        results = [expected] if single else expected if isinstance(expected, (tuple, list)) else [None]
        if error is not None or not all(isinstance(t, torch.Tensor) for t in results):
            continue
        if "batch_norm" in op.name and not all(t.numel() for t in results):  # as_declared says why
            continue
        outs = [torch.full_like(t, 1) for t in results]
        xouts = to_device(outs)
        _, error = call_cpu(op.op, args, {**kwargs, "out": outs[0] if single else tuple(outs)})
        if error is not None:  # an overload that Python cannot reach
            with pytest.raises(type(error)):
                op.op(*to_device(args), **to_device(kwargs), out=xouts[0] if single else tuple(xouts))
            continue
        pointers = [t.data_ptr() for t in xouts if t.layout == torch.strided]
        with xpu_ops.fallback.forbid():
            op.op(*to_device(args), **{**to_device(kwargs), **place}, out=xouts[0] if single else tuple(xouts))
        assert [t.data_ptr() for t in xouts if t.layout == torch.strided] == pointers
        if not undetermined(op, args, kwargs):
            actual = named(op, to_device(args), kwargs, xouts[0] if single else tuple(xouts))
            assert_same(
                actual,
                named(op, args, kwargs, expected if single else tuple(expected)),
                reference=lambda args=args, kwargs=kwargs: reference(op.op, *args, **kwargs),
                accumulates=accumulates(op),
            )


@pytest.mark.parametrize(
    "op", [pytest.param(o, id=op_id(o)) for o in op_db if o.supports_autograd and torch.float32 in o.dtypes]
)
def test_backward(op: OpInfo) -> None:
    if op.name in UNDETERMINED:
        return
    for sample in take(op.sample_inputs("cpu", torch.float32, requires_grad=True), torch.float32)[:6]:
        args, kwargs = arguments(sample)
        if undetermined(op, args, kwargs):
            continue
        xargs, xkwargs = to_xpu(op, args, kwargs)

        def gradients(args: Any, kwargs: Any, sample: SampleInput = sample) -> list[Any]:
            torch.manual_seed(0)
            out = op.op(*args, **kwargs)
            if sample.output_process_fn_grad is not None:
                out = sample.output_process_fn_grad(out)
            outs = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
            leaves = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad]
            if not outs or not leaves:
                return []
            generator = torch.Generator().manual_seed(1)
            seeds = [
                torch.rand(t.shape, generator=generator, dtype=torch.complex64 if t.is_complex() else torch.float32).to(
                    t.dtype
                )
                for t in outs
            ]
            return list(
                torch.autograd.grad(
                    outs, leaves, [s.to(t.device) for s, t in zip(seeds, outs, strict=True)], allow_unused=True
                )
            )

        try:
            expected = gradients(args, kwargs)
        except RuntimeError:
            continue
        with xpu_ops.fallback.forbid():
            actual = gradients(xargs, xkwargs)
        assert_same(
            actual,
            expected,
            tol=(1.3e-4, 1e-4),
            reference=lambda args=args, kwargs=kwargs, run=gradients: reference(run, args, kwargs),
            accumulates=True,
        )


@pytest.mark.parametrize("op", [pytest.param(o, id=op_id(o)) for o in op_db if o.error_inputs_func is not None])
def test_error_inputs(op: OpInfo) -> None:
    for case in itertools.islice(op.error_inputs("xpu"), None if FULL else 8):
        args, kwargs = arguments(case.sample_input)
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        host = to_device((args, kwargs), "cpu") if all(t.is_xpu for t in tensors) else None
        try:
            with xpu_ops.fallback.forbid():
                op.op(*args, **kwargs)
        except case.error_type as error:
            assert re.search(case.error_regex, str(error)), f"{error}, expected {case.error_regex}"
        else:
            # A case of torch's Python references, which its own C++ operator takes.
            assert host is not None and call_cpu(op.op, *host)[1] is None, f"no error, expected {case.error_regex}"
