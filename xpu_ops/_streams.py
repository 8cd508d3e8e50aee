"""torch._C._XpuStreamBase and _XpuEventBase: the XPU classes that torch.xpu.Stream and torch.xpu.Event derive from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def stream_base(extension: ModuleType) -> type:
    """Make _XpuStreamBase, a torch.Stream whose queue, priority and pool are the runtime's."""

    class _XpuStreamBase(torch.Stream):
        def __new__(
            cls, priority: int = 0, stream_id: int = 0, device_index: int = 0, device_type: int = 0, **kwargs: Any
        ) -> _XpuStreamBase:
            if not (stream_id or device_index or device_type):
                stream_id, device_index, device_type = extension._stream_from_pool(-1, priority)
            return super().__new__(
                cls, stream_id=stream_id, device_index=device_index, device_type=device_type, **kwargs
            )

        @property
        def sycl_queue(self) -> int:
            """Address of the sycl::queue."""
            return extension._stream_handle(self.stream_id, self.device_index)

        @property
        def priority(self) -> int:
            """-1 high, 0 normal, 1 low."""
            return extension._stream_priority(self.stream_id, self.device_index)

        @staticmethod
        def priority_range() -> tuple[int, int]:
            """Lowest and highest priority."""
            return (1, -1)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, torch.Stream) and super().__eq__(other)

        def __hash__(self) -> int:
            return super().__hash__()

    _XpuStreamBase.__module__ = "torch._C"
    return _XpuStreamBase


def event_base(extension: ModuleType) -> type:
    """Make _XpuEventBase, a torch.Event of the XPU device."""

    class _XpuEventBase(torch.Event):
        def __new__(cls, enable_timing: bool = False, interprocess: bool = False) -> _XpuEventBase:
            if interprocess:
                raise NotImplementedError("Event: interprocess=True is not supported on xpu; leave it False")
            return super().__new__(cls, device="xpu", enable_timing=enable_timing)

        @property
        def sycl_event(self) -> int:
            """Address of the sycl::event; 0 before the event is recorded."""
            return extension._event_handle(self.event_id)

        def elapsed_time(self, other: torch.Event) -> float:
            """Milliseconds from this event to the other one. torch.Event's own method takes no subclass as argument."""
            return extension._event_elapsed(self.event_id, other.event_id)

    _XpuEventBase.__module__ = "torch._C"
    return _XpuEventBase
