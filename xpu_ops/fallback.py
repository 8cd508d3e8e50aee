"""Operators without an XPU kernel run on the CPU: how often each did, and how to forbid it.

    with xpu_ops.fallback.forbid():
        model(x)                       # NotImplementedError names the operator that has no kernel
    print(xpu_ops.fallback.counts())   # {"quantized::linear_dynamic": 4}

Environment: PYTORCH_ENABLE_XPU_FALLBACK=0 forbids it for the whole process, PYTORCH_DEBUG_XPU_FALLBACK=1 warns at every
call, PYTORCH_XPU_FALLBACK_OP=names sends operators to the CPU that have a kernel.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from xpu_ops import _C

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["counts", "forbid", "reset"]


def counts() -> dict[str, int]:
    """Return how many calls of each operator overload ran on the CPU since the last :func:`reset`, most frequent first.

    Calls of all threads and devices of the process count, refused ones do not.

    Returns:
        Calls by overload, as "aten::cumsum.out"; a new dict at each call.

    Raises:
        ImportError: where the libraries of this package do not load; `xpu-ops doctor` says why.

    Source: the boxed kernel of c10's dispatcher for XPU (bindings/runtime/fallback.cpp).
    """
    return dict(sorted(_C.fallback_counts().items(), key=lambda item: (-item[1], item[0])))


def reset() -> None:
    """Start counting from zero, for all threads and devices of the process.

    Raises:
        ImportError: as :func:`counts`.

    Source: bindings/runtime/fallback.cpp.
    """
    _C.reset_fallback_counts()


@contextmanager
def forbid() -> Iterator[None]:
    """Within this context an operator without an XPU kernel raises instead of running on the CPU.

    That holds on every thread, as a backward pass has threads of its own. Contexts may be nested. As a decorator it holds
    during each call of the function.

    Raises:
        NotImplementedError: from the operator, with its name, before it has run.
        ImportError: as :func:`counts`.

    Source: bindings/runtime/fallback.cpp; the error is that of c10's dispatcher for a kernel that is not there.
    """
    _C.forbid_fallback(True)
    try:
        yield
    finally:
        _C.forbid_fallback(False)
