"""Promises of meta functions (sizes, types, strides, devices) against results of the operators, over torch's samples (OpInfo).

torch.compile lays out memory by the promise. Every ATen call of a sample, of its gradient too, runs a second time on fake
tensors. `make test` draws some operators from a fixed seed; XPU_OPS_TEST_LEVEL=full takes all.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.compare import assert_same, clone, to_device
from support.opinfo import arguments, op_id, to_xpu
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
DRAWN = 100
SAMPLES = 60 if FULL else 6
NO_PROMISE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    UnsupportedOperatorException,
)
aten = torch.ops.aten
logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # what it raises is caught here
# They make fake tensors of real ones, or the opposite.
UNCHECKED = {aten.lift_fresh.default, aten.lift_fresh_copy.default, aten._local_scalar_dense.default}
# Results by number that differ from the promise, and the reason.
KNOWN = {
    aten.log_sigmoid_forward.default: {1: "the buffer is kept for the gradient, as on the CPU; CUDA computes it again"},
    aten._scaled_dot_product_fused_attention_overrideable.default: dict.fromkeys(
        (2, 3), "seed and offset are read on the host; torch's own check excepts flash attention for the same reason"
    ),
}


def described(t: torch.Tensor) -> str:
    text = f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"
    if t.layout != torch.strided:
        return f"{text} {t.layout}"
    strides = [s if n > 1 else "_" for s, n in zip(t.stride(), t.shape, strict=True)]
    return f"{text} strides {strides if t.numel() else '[]'} on {t.device.type}"


def promise(func: Any, args: Any, kwargs: Any) -> list[str] | None:
    """The results that the meta function describes, or its error; None where it has nothing to say."""
    plain = tree_map_only(torch.Tensor, lambda t: t.detach(), (args, kwargs))
    try:
        with FakeTensorMode() as mode:
            fake = tree_map_only(torch.Tensor, mode.from_tensor, plain)
            return results(func(*fake[0], **fake[1]))
    except NO_PROMISE:
        return None
    except Exception as error:
        return [f"{error!r:.300}"]


def results(out: Any) -> list[str]:
    return [described(t) for t in tree_leaves(out) if isinstance(t, torch.Tensor)]


def kept(func: Any, have: list[str], want: list[str]) -> bool:
    known = KNOWN.get(func, {})
    return [h for i, h in enumerate(have) if i not in known] == [w for i, w in enumerate(want) if i not in known]


class Promises(TorchDispatchMode):
    """Collects the calls that give another result than their meta function promised.

    A promise that torch's own CPU kernel breaks too says nothing about this device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        if func in UNCHECKED or any(t.layout != torch.strided for t in tensors):
            return func(*args, **kwargs)
        given, want = results(tensors), promise(func, args, kwargs)
        out = func(*args, **kwargs)
        if want is not None and not kept(func, results(out), want) and not self.broken_by_cpu(func, args, kwargs):
            self.broken.append(f"{func} of {given}: gives {results(out)}, its meta function promises {want}")
        return out

    @staticmethod
    def broken_by_cpu(func: Any, args: Any, kwargs: Any) -> bool:
        plain = tree_map_only(torch.Tensor, lambda t: t.detach(), (args, kwargs))
        args, kwargs = to_device(plain, "cpu")
        if "device" in kwargs:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        want = promise(func, args, kwargs)
        try:
            return want is not None and results(func(*args, **kwargs)) != want
        except Exception:
            return False


def cases() -> list[Any]:
    found = [(op, t) for op in op_db for t in DTYPES if t in op.dtypes]
    if not FULL:
        found = random.Random(18).sample(found, DRAWN)
    return [pytest.param(op, t, id=f"{op_id(op)}-{str(t).removeprefix('torch.')}") for op, t in found]


def run(op: OpInfo, args: Any, kwargs: Any, process: Any) -> None:
    """The operator and, where there is one, the gradient of its results."""
    try:
        out = op.op(*args, **kwargs)
    except Exception:  # tests/ops/test_opinfo.py compares errors
        return
    outs = [t for t in tree_leaves(process(out) if process else out) if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    if outs and leaves:
        try:
            torch.autograd.grad(outs, leaves, [torch.ones_like(t) for t in outs], allow_unused=True)
        except Exception:
            return


@pytest.mark.parametrize(("op", "dtype"), cases())
def test_promises(op: OpInfo, dtype: torch.dtype) -> None:
    grad = op.supports_autograd and dtype in op.backward_dtypes and (dtype.is_floating_point or dtype.is_complex)
    broken: dict[str, None] = {}
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES):
        strided = all(t.layout == torch.strided for t in tree_leaves(arguments(sample)) if isinstance(t, torch.Tensor))
        for form in (sample, sample.noncontiguous()) if strided else (sample,):
            args, kwargs = to_xpu(op, *arguments(form))
            if "device" in kwargs:
                kwargs["device"] = "xpu"
            args, kwargs = clone(args), clone(kwargs)
            with warnings.catch_warnings(), Promises() as promises:
                warnings.simplefilter("ignore")
                run(op, args, kwargs, form.output_process_fn_grad)
            broken |= dict.fromkeys(promises.broken)
    assert not broken, "\n".join(broken)


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


# Broken promises that were mended: the call and its operands.
FOUND: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "complex": (lambda x, y: torch.complex(x.t(), y.t()), (rand(3, 4), rand(3, 4))),
    "complex of negated parts": (
        lambda z: torch.complex(z.t().conj().imag, z.t().conj().imag),
        (rand(3, 4, dtype=torch.complex64),),
    ),
    "complex of a column": (lambda x, y: torch.complex(x.t(), y), (rand(3, 4), rand(4, 1))),
    "polar": (lambda x, y: torch.polar(x.t().abs(), y.t()), (rand(3, 4), rand(3, 4))),
    "huber_loss": (lambda x, y: F.huber_loss(x.t(), y.t(), reduction="none"), (rand(3, 4), rand(3, 4))),
    "pixel_unshuffle": (
        lambda x: F.pixel_unshuffle(x, 2),
        (rand(2, 8, 4, 6).contiguous(memory_format=torch.channels_last),),
    ),
    "solve_triangular": (
        lambda a, b: torch.linalg.solve_triangular(a.mH, b, upper=True),
        (rand(3, 3, dtype=torch.complex64).tril() + 3 * torch.eye(3), rand(3, 2, dtype=torch.complex64)),
    ),
    "cdist of nothing": (
        lambda x, y: torch.autograd.grad(torch.cdist(x.requires_grad_(), y).sum(), x),
        (rand(1, 0, 3), rand(4, 2, 3)),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    call, operands = FOUND[name]
    with Promises() as promises:
        actual = call(*to_device(operands))
    assert not promises.broken, "\n".join(promises.broken)
    assert_same(actual, call(*clone(operands)), strides=True)


def test_ctc_loss() -> None:
    """It has no meta function: FakeTensorMode runs the gradient on zeros, lengths too."""
    log_probs = rand(20, 3, 9).log_softmax(2).to("xpu").requires_grad_()
    targets, steps, lengths = torch.ones(3, 5, dtype=torch.long), torch.full((3,), 20), torch.full((3,), 5)
    operands = to_device((targets, steps, lengths))
    with Promises() as promises:
        F.ctc_loss(log_probs, *operands).backward()
    assert not promises.broken, "\n".join(promises.broken)
