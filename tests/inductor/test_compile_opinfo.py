"""torch's own operator samples (OpInfo) through torch.compile, against eager on xpu.

`make test` draws some operators from a fixed seed, one sample each; XPU_OPS_TEST_LEVEL=full takes all.
"""

from __future__ import annotations

import itertools
import os
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from support.compare import assert_same, clone, reference
from support.opinfo import UNDETERMINED, accumulates, arguments, named, op_id, to_xpu, undetermined
from support.tolerances import opinfo_tolerance
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
DRAWN = {"forward": 20, "backward": 5}
SAMPLES = 2  # of the full level

Case = tuple[OpInfo, torch.dtype, bool]


def forward_cases() -> list[Case]:
    return [(op, t, dynamic) for op in op_db for t in DTYPES if t in op.dtypes for dynamic in (False, True)]


def backward_cases() -> list[Case]:
    ops = [op for op in op_db if op.supports_autograd and op.name not in UNDETERMINED]
    types = (torch.float32, torch.bfloat16)
    return [
        (op, t, d) for op in ops for t in types if t in op.backward_dtypes and t in op.dtypes for d in (False, True)
    ]


def parameters(kind: str, cases: list[Case]) -> list[Any]:
    if not FULL:
        cases = random.Random(18).sample(cases, DRAWN[kind])
    return [
        pytest.param(
            op, t, dynamic, id=f"{op_id(op)}-{str(t).removeprefix('torch.')}-{'dynamic' if dynamic else 'static'}"
        )
        for op, t, dynamic in cases
    ]


def take(samples: Iterator[SampleInput]) -> list[SampleInput]:
    """One sample that has something in it, or some spread over the first sixty."""
    some = list(itertools.islice(samples, 60))
    if not FULL:
        return [s for s in some if all(t.numel() for t in tree_leaves(s.input) if isinstance(t, torch.Tensor))][:1]
    return some[:: max(1, -(-len(some) // SAMPLES))]


def compiled(function: Any, dynamic: bool, backend: str = "inductor") -> Any:
    torch._dynamo.reset()
    return torch.compile(lambda *args, **kwargs: function(*args, **kwargs), dynamic=dynamic, backend=backend)


def on_host(x: Any) -> Any:
    return tree_map(lambda t: t.detach().cpu() if isinstance(t, torch.Tensor) else t, x)


def without_fallback(run: Callable[..., Any], op: OpInfo, dynamic: bool, on_xpu: Any, on_cpu: Any) -> Any:
    """run(function, args, kwargs) with the compiled operator; None where upstream's tracing refuses CPU tensors alike."""
    try:
        with xpu_ops.forbid_fallback():
            return run(compiled(op.op, dynamic), *on_xpu)
    except Exception as error:
        try:
            run(compiled(op.op, dynamic, "aot_eager"), *on_cpu)
        except type(error):
            return None
        raise


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(("op", "dtype", "dynamic"), parameters("forward", forward_cases()))
def test_forward(op: OpInfo, dtype: torch.dtype, dynamic: bool) -> None:
    for sample in take(op.sample_inputs("cpu", dtype)):
        args, kwargs = arguments(sample)
        xargs, xkwargs = to_xpu(op, args, kwargs)
        if "device" in xkwargs:
            xkwargs["device"] = "xpu"
        try:
            with xpu_ops.forbid_fallback():
                expected = op.op(*clone(xargs), **clone(xkwargs))
        except Exception:  # tests/ops compares what eager refuses, and forbids the same
            continue
        actual = without_fallback(lambda f, a, k: f(*a, **k), op, dynamic, (xargs, xkwargs), (clone(args), kwargs))
        if actual is None:
            continue
        if undetermined(op, args, kwargs):
            for a, e in zip(tree_leaves(actual), tree_leaves(expected), strict=True):
                assert not isinstance(e, torch.Tensor) or (a.shape, a.dtype) == (e.shape, e.dtype)
            continue
        process = sample.output_process_fn_grad or (lambda x: x)

        def wide(args: Any = args, kwargs: Any = kwargs, process: Any = process) -> Any:
            result = reference(op.op, *args, **kwargs)
            return None if result is None else process(named(op, args, kwargs, result))

        assert_same(
            process(named(op, xargs, xkwargs, actual)),
            on_host(process(named(op, xargs, xkwargs, expected))),
            tol=opinfo_tolerance(op_id(op), dtype),
            reference=wide,
            accumulates=accumulates(op) or dtype == torch.bfloat16,
        )


@pytest.mark.parametrize(("op", "dtype", "dynamic"), parameters("backward", backward_cases()))
def test_backward(op: OpInfo, dtype: torch.dtype, dynamic: bool) -> None:
    for sample in take(op.sample_inputs("cpu", dtype, requires_grad=True)):
        args, kwargs = arguments(sample)
        if undetermined(op, args, kwargs):
            continue

        def gradients(function: Any, args: Any, kwargs: Any, sample: SampleInput = sample) -> list[Any]:
            out = function(*args, **kwargs)
            if sample.output_process_fn_grad is not None:
                out = sample.output_process_fn_grad(out)
            outs = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
            leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
            if not outs or not leaves:
                return []
            generator = torch.Generator().manual_seed(1)
            seeds = [torch.rand(t.shape, generator=generator).to(t.device, t.dtype) for t in outs]
            return list(torch.autograd.grad(outs, leaves, seeds, allow_unused=True))

        xargs, xkwargs = to_xpu(op, args, kwargs)
        try:
            with xpu_ops.forbid_fallback():
                expected = gradients(op.op, clone(xargs), clone(xkwargs))
        except Exception:  # tests/ops compares what eager refuses, and forbids the same
            continue
        actual = without_fallback(gradients, op, dynamic, (xargs, xkwargs), (args, kwargs))
        if actual is None:
            continue
        rtol, atol = opinfo_tolerance(op_id(op), dtype) or (
            (1.3e-5, 1e-5) if dtype == torch.float32 else (1.6e-2, 1e-2)
        )
        assert_same(
            actual,
            on_host(expected),
            tol=(10 * rtol, 10 * atol),
            reference=lambda run=gradients, args=args, kwargs=kwargs: reference(run, op.op, args, kwargs),
            accumulates=True,
        )
