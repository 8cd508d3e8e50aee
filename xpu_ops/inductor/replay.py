"""mode="reduce-overhead": the commands of a static inference graph, recorded once and replayed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import profiler

from xpu_ops import _autoload

_ALIKE = 2  # calls with the same weights before a recording
_MOST = 16  # recordings of a graph whose weights are written again and again


class Recording:
    """The commands of one call of a graph: operands and results have places of their own."""

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]], inputs: list[Tensor], own: list[int]) -> None:
        device = inputs[0].device
        places = list(inputs)
        with torch.inference_mode(False), torch.no_grad():
            self.operands = [
                torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for t in _at(inputs, own)
            ]
            for i, place in zip(own, self.operands, strict=True):
                places[i] = place
            self.graph = torch.xpu.XPUGraph()
            self.graph.weights_stay()
            torch.xpu.synchronize(device)
            self._writes = _weights().writes()
            with torch.xpu.stream(torch.xpu.Stream(device)):
                self.graph.capture_begin()
                try:
                    self.results = list(call(list(places)))
                finally:
                    self.graph.capture_end()
        self._check(places)

    def _check(self, places: list[Tensor]) -> None:
        taken = {t.untyped_storage()._cdata for t in places}  # data_ptr() would count as a write
        for t in self.results:
            if not isinstance(t, Tensor) or t.device != places[0].device or not _is_plain(t):
                raise NotImplementedError("a result is no dense tensor of the device")
            at = t.untyped_storage()._cdata
            if at in taken:
                raise NotImplementedError("a result shares its memory")
            taken.add(at)

    def is_stale(self) -> bool:
        """Whether a weight may have been written that a command reads packed. Versions do not tell all writes."""
        return _weights().writes() != self._writes

    def replay(self, inputs: list[Tensor], own: list[int]) -> list[Tensor]:
        with torch.no_grad():
            for place, given in zip(self.operands, _at(inputs, own), strict=True):
                place.copy_(given)
            self.graph.replay()
            return [t.clone() for t in self.results]


class Replayed:
    """Stands for a compiled graph: calls it until its weights stay, then replays what one call put on the device.

    Args:
        call: the graph. It may empty the list of its inputs.
        fixed: the places of the inputs that are weights. The others are copied into the recording.

    Where something else looks at the calls, on another stream and beside another call, the graph is called.
    """

    def __init__(self, call: Callable[[list[Any]], Sequence[Any]], fixed: Sequence[int]) -> None:
        self._call = call
        self._fixed = sorted(fixed)
        self._own: list[int] | None = None
        self._lock = threading.Lock()
        self._recording: Recording | None = None
        self._stream: Any = None
        self._states: Any = None  # of the weights
        self._alike = 0
        self._left = _MOST

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if not self._left or not self._lock.acquire(blocking=False):
            return self._call(inputs)
        try:
            return self._run(inputs)
        finally:
            self._lock.release()

    def _run(self, inputs: list[Any]) -> Sequence[Any]:
        if self._own is None and not self._may_record(inputs):
            self._left = 0
        if self._own is None or profiler._is_profiler_enabled or torch.xpu.is_current_stream_capturing():
            return self._call(inputs)
        fixed = _at(inputs, self._fixed)
        stream = torch._C._xpu_getCurrentStream(inputs[0].device.index)
        if self._states is None or not self._states.same(fixed) or stream != self._stream:
            self._states, self._stream = _autoload.load().TensorStates(fixed), stream
            self._recording, self._alike = None, 0
        elif self._recording is not None and self._recording.is_stale():
            self._recording, self._alike = None, 0
        if self._recording is None:
            self._alike += 1
            if self._alike <= _ALIKE:
                return self._call(inputs)
            self._left -= 1
            try:
                self._recording = Recording(self._call, inputs, self._own)
            except (RuntimeError, NotImplementedError):  # waits for the device, for one
                self._left = 0
                return self._call(inputs)
        results = self._recording.replay(inputs, self._own)
        inputs.clear()
        return results

    def _may_record(self, inputs: list[Any]) -> bool:
        if not inputs or not all(isinstance(t, Tensor) and t.device.type == "xpu" for t in inputs):
            return False
        own = [i for i in range(len(inputs)) if i not in self._fixed]
        if len({t.device for t in inputs}) > 1 or not all(_is_plain(t) for t in _at(inputs, own)):
            return False
        self._own = own
        return True


def _weights() -> Any:
    return _autoload.load()._onednn.weights


def _at(tensors: list[Any], places: list[int]) -> list[Any]:
    return [tensors[i] for i in places]


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
