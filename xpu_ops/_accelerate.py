"""`xpu_ops.accelerate_cpu`: operators of CPU tensors on the kernels of this package, through aliases of their memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from xpu_ops import _C

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

# Overloads that took less processor time than torch 2.13's CPU kernels in float32 and bfloat16, and the number of elements from
# which on they did: docs/ipex.md has the figures.
DEFAULT: dict[str, int] = {
    "aten::_log_softmax": 1 << 20,
    "aten::avg_pool2d": 1 << 15,
    "aten::cumsum": 1 << 15,
    "aten::max_pool2d_with_indices": 1 << 15,
    "aten::native_layer_norm": 1 << 18,
    "aten::sort.stable": 1 << 15,
    "aten::topk": 1 << 15,
    "aten::upsample_bilinear2d": 1 << 15,
    "aten::where.self": 1 << 15,
}


class Acceleration:
    """The operators that :func:`accelerate_cpu` turned on: a context manager; :meth:`undo` is the switch back."""

    def __init__(self, operators: dict[str, int]) -> None:
        self.operators = operators
        self._counted = dict.fromkeys(operators, 0)
        with _lock:
            _count()
            _active.append(self)
            try:
                for overload, least in operators.items():
                    _C.serve_cpu(overload, least)
                    _seen.pop(overload, None)
            except Exception:
                self._leave()
                raise

    def calls(self) -> dict[str, int]:
        """How often each overload ran on the device since it was turned on; nothing after `undo()`."""
        with _lock:
            _count()
            return dict(self._counted) if self in _active else {}

    def undo(self) -> None:
        """Give the operators back to torch's own kernels, or to an acceleration that was turned on before and still is."""
        with _lock:
            _count()
            if self in _active:
                self._leave()

    def _leave(self) -> None:
        _active.remove(self)
        for overload in self.operators:
            before = next((other for other in reversed(_active) if overload in other.operators), None)
            if before is None:
                _C.leave_cpu(overload)
            else:
                _C.serve_cpu(overload, before.operators[overload])
            _seen.pop(overload, None)

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.undo()


def accelerate_cpu(operators: Iterable[str] | None = None, *, least: int | None = None) -> Acceleration:
    """Let kernels of xpu serve CPU tensors of an unmodified program, operator by operator, until `undo()`.

    Tensors keep their device. A call makes aliases of its operands in O(1), runs the kernel, waits, and gives an alias of the
    result. Autograd and autocast work as before, because they lie above. Calls with less than `least` elements, of sparse or
    quantised tensors, or of a kernel that runs already, go to torch.

    Args:
        operators: overloads as "aten::gelu" or "aten::sum.dim_IntList"; None for those that were measured to win,
            `xpu_ops.accelerate_cpu.default`.
        least: elements of the largest operand from which on a call is served; None for the measured number, 16384 for
            overloads that have none.

    Returns:
        The switch back, also as a context manager.

    Raises:
        ValueError: for an overload that torch does not have, or that cannot be served: it is composed of others, writes to
            out=, gives a view, draws random numbers, makes tensors of a device, or has no kernel for xpu.
        RuntimeError: where the device does not work on host memory.

    Source: kernels of the dispatcher key CPU, registered over ATen's (bindings/runtime/accelerate.cpp).
    """
    torch.xpu.init()
    if not _C.host_accessible(torch.xpu.current_device()):
        raise RuntimeError(
            "accelerate_cpu needs a device that works on host memory: xpu on the CPU, without XPU_OPS_DISCRETE=1"
        )
    names = DEFAULT if operators is None else list(operators)
    return Acceleration({n: DEFAULT.get(n, 16384) if least is None else least for n in names})


class _AccelerateCPU:
    """The function with its default list beside it."""

    default = DEFAULT
    __call__ = staticmethod(accelerate_cpu)


function = _AccelerateCPU()
function.__doc__ = accelerate_cpu.__doc__

# Accelerations that are on, in the order in which they were turned on: the last one's `least` holds.
_active: list[Acceleration] = []
_seen: dict[str, int] = {}  # calls of each registration that accelerations have counted
_lock = threading.Lock()


def _count() -> None:
    """Add the calls since the last count to every acceleration that has the overload. A registration begins with none."""
    for overload, calls in _C.served_cpu().items():
        new = calls - _seen.get(overload, 0)
        _seen[overload] = calls
        for acceleration in _active:
            if overload in acceleration.operators:
                acceleration._counted[overload] += new
