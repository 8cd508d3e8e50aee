"""The device of torch.profiler's events: a torch built without XPU takes every kernel in a trace for CUDA's."""

from __future__ import annotations

import functools
from typing import Any

from torch.autograd import DeviceType, profiler


def name_device() -> None:
    """Make the kernels of a profile of xpu events of xpu."""
    original = profiler.profile._parse_kineto_results

    @functools.wraps(original)
    def parse(self: profiler.profile, *args: Any, **kwargs: Any) -> Any:
        events = original(self, *args, **kwargs)
        if self.use_device == "xpu":
            for e in events:
                if e.device_type == DeviceType.CUDA:
                    e.device_type = DeviceType.XPU
        return events

    profiler.profile._parse_kineto_results = parse
