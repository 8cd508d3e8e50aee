"""Calls of the dispatcher on xpu that bindings/runtime/observer.cpp counted, as Python objects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import torch

from .._dtypes import short_names

ROUND_TRIP = "copy_to_the_CPU_and_back"  # of the observer: a kernel copied tensors out and others in

# Operators that move or fill memory for others. A comparison says something about them only where nothing else ran.
_CARRIERS = {
    "copy_", "_to_copy", "_copy_from", "_copy_from_and_resize", "clone", "contiguous", "fill_", "zero_", "set_", "resize_",
    "resize_as_", "empty_like", "zeros_like", "ones_like", "full_like", "new_empty", "new_empty_strided", "new_zeros",
    "new_ones", "new_full", "_local_scalar_dense", "item", "is_nonzero", "to", "cpu", "lift", "lift_fresh", "record_stream",
    "is_set_to",
}  # fmt: skip


class Call(NamedTuple):
    """Calls that look the same. Times are nanoseconds; `cpu_below`: what a native call ran on CPU tensors."""

    overload: str  # without the namespace where that is aten
    how: str  # native | composite | fallback | raised; native and composite may carry "+fallback"
    dtype: str
    layout: str
    signature: str
    cpu_below: tuple[str, ...]
    inner: bool
    grad: bool
    calls: int
    host_ns: int
    device_ns: int
    load_ns: int  # to load kernel modules, at first calls; not in host_ns

    @property
    def leaf(self) -> bool:
        """Whether time and evidence count here: the outermost call that has a kernel or falls back."""
        return not self.inner and not self.how.startswith("composite")


@cache
def _schema(overload: str) -> torch._C.FunctionSchema | None:
    namespace, _, rest = overload.rpartition("::")
    base, _, name = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), name or "default")._schema
    except AttributeError:
        return None


@cache
def is_view(overload: str) -> bool:
    """Whether the result shares memory with an argument that it does not write to."""
    schema = _schema(overload)
    if schema is None:
        return False
    return any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


@cache
def is_carrier(overload: str) -> bool:
    """Whether the operator only makes, moves, fills or views memory."""
    base = overload.rpartition("::")[2].partition(".")[0]
    if base in _CARRIERS or is_view(overload):
        return True
    schema = _schema(overload)
    return schema is not None and not any("Tensor" in str(a.type) for a in schema.arguments)


def short_name(overload: str) -> str:
    """aten::add.Tensor is add.Tensor; other namespaces stay."""
    return overload.removeprefix("aten::")


def drain() -> tuple[list[Call], bool]:
    """The calls since the last drain, and whether an autograd node ran among them."""
    from xpu_ops import _C

    seen, backward = _C.observe_drain()
    calls = []
    for overload, how, dtype, layout, signature, below, *rest in seen:
        hidden = tuple(n for n in map(short_name, below.split()) if not is_carrier(n))
        if len(hidden) > 1:
            hidden = tuple(n for n in hidden if n != ROUND_TRIP)  # the others say more
        short_of = short_names()
        short = "".join(short_of.get(w, w) for w in _words(signature))
        calls.append(Call(short_name(overload), how, short_of.get(dtype, dtype), layout, short, hidden, *rest))
    return calls, backward


def _words(signature: str) -> list[str]:
    """The signature cut before every '[' and after every space, so that type names stand alone."""
    return signature.replace("[", "\0[").replace(", ", ", \0").split("\0")


@contextmanager
def observing(*, timed: bool = False, signatures: bool = False) -> Iterator[None]:
    """Counts every call until the end of the block; :func:`drain` reads them.

    Args:
        timed: wait for the queue after each outermost kernel, so that its time is its own.
        signatures: tell calls of other shapes apart.

    Raises:
        RuntimeError: where another observation is on in this process.
    """
    from xpu_ops import _C

    _C.observe_start(timed, signatures)
    try:
        yield
    finally:
        _C.observe_stop()
