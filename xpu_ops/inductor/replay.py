"""mode="reduce-overhead": the commands of a static inference graph, recorded once and replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import profiler

from xpu_ops import _autoload

Inputs: TypeAlias = list[Any]  # tensors, or the call is never recorded
Graph: TypeAlias = Callable[[Inputs], Sequence[Any]]

_ALIKE = 2  # calls with the same weights before a recording
_MOST = 16  # recordings of a graph whose weights are written again and again
_FEW = 4  # commands that a call puts on the device as fast


class TooSmall(Exception):
    """A recording that would not pay."""


class Recording:
    """The commands of one call of a graph: operands and results have places of their own."""

    def __init__(self, call: Graph, inputs: list[Tensor], fixed: list[int], own: list[int]) -> None:
        device, places = inputs[0].device, list(inputs)
        native = _autoload.load()
        with torch.inference_mode(False), torch.no_grad():
            for i in own:
                t = inputs[i]
                places[i] = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
            graph = torch.xpu.XPUGraph()
            graph.weights_stay()
            torch.xpu.synchronize(device)
            writes = native._onednn.weights.writes()
            with torch.xpu.stream(torch.xpu.Stream(device)):
                graph.capture_begin()
                try:
                    results = list(call(list(places)))
                finally:
                    graph.capture_end()
        _check(places, results)
        if graph.commands() < _FEW:
            raise TooSmall
        weights, operands = ([places[i] for i in at] for at in (fixed, own))
        self._native = native.Replay(graph, fixed, weights, own, operands, results, writes)

    def replay(self, inputs: list[Tensor]) -> list[Tensor] | None:
        """The results, or nothing where a weight may have changed, and on another stream."""
        return self._native.run(inputs)


def _check(places: list[Tensor], results: list[object]) -> None:
    """That results can be copied, and have memory of their own."""
    taken = {t.untyped_storage()._cdata for t in places}  # data_ptr() would count as a write
    if not results:
        raise TooSmall
    for t in results:
        if not isinstance(t, Tensor) or t.device != places[0].device or not _is_plain(t):
            raise NotImplementedError("a result is no dense tensor of the device")
        if t.untyped_storage()._cdata in taken:
            raise NotImplementedError("a result shares its memory")
        taken.add(t.untyped_storage()._cdata)


class Replayed:
    """Stands for a compiled graph: calls it until its weights stay, then replays what one call put on the device.

    Args:
        call: the graph. It may empty the list of its inputs.
        fixed: the places of the inputs that are weights. The others are copied into the recording.
        give_up: called where the graph will never be replayed.

    The graph is called on another stream than at first, beside another call, in a profile and in a recording around it.
    """

    def __init__(self, call: Graph, fixed: Sequence[int], give_up: Callable[[], object]) -> None:
        self._call, self._give_up = call, give_up
        self._fixed = sorted(fixed)
        self._own: list[int] | None = None
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._stream: object = None
        self._states: Any = None  # of the weights
        self._alike = 0
        self._left = _MOST

    def __call__(self, inputs: Inputs) -> Sequence[object]:
        if not self._left or profiler._is_profiler_enabled or not self._lock.acquire(blocking=False):
            return self._call(inputs)
        try:
            results = self._recording.replay(inputs) if self._recording is not None else None
            if results is None:
                return self._without(inputs)
            inputs.clear()
            return results
        finally:
            self._lock.release()

    def _without(self, inputs: Inputs) -> Sequence[object]:
        """A call where no recording serves, which may make one."""
        if self._own is None and not self._may_record(inputs):
            self._end()
            return self._call(inputs)
        assert self._own is not None
        stream = torch._C._xpu_getCurrentStream(inputs[0].device.index)
        self._stream = self._stream or stream
        if stream != self._stream or torch.xpu.is_current_stream_capturing():
            return self._call(inputs)
        weights = [inputs[i] for i in self._fixed]
        if self._recording is not None or self._states is None or not self._states.same(weights):
            self._states = _autoload.load().TensorStates(weights)
            self._recording, self._alike = None, 0
        self._alike += 1
        if self._alike <= _ALIKE:
            return self._call(inputs)
        self._left -= 1
        if not self._left:
            self._end()
            return self._call(inputs)
        try:
            self._recording = Recording(self._call, inputs, self._fixed, self._own)
        except (RuntimeError, NotImplementedError, TooSmall):  # it waits for the device, for one
            self._end()
        results = self._recording.replay(inputs) if self._recording is not None else None
        return self._call(inputs) if results is None else results

    def _end(self) -> None:
        self._left = 0
        self._give_up()

    def _may_record(self, inputs: Inputs) -> bool:
        if not inputs or not all(isinstance(t, Tensor) and t.device.type == "xpu" for t in inputs):
            return False
        own = [i for i in range(len(inputs)) if i not in self._fixed]
        if len({t.device for t in inputs}) > 1 or not all(_is_plain(inputs[i]) for i in own):
            return False
        self._own = own
        return True


def _is_plain(t: Tensor) -> bool:
    """Whether it is a dense tensor whose elements have a place each."""
    if type(t) not in (Tensor, torch.nn.Parameter) or t.layout != torch.strided:
        return False
    dense = 1
    for stride, size in sorted((st, n) for st, n in zip(t.stride(), t.shape, strict=True) if n != 1):
        if stride != dense:
            return False
        dense *= size
    return dense > 0
