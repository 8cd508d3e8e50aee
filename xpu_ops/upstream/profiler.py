"""The device of torch.profiler's events: a torch built without XPU takes every kernel in a trace for CUDA's."""

from __future__ import annotations

import functools
from typing import Any

from torch.autograd import DeviceType

from xpu_ops.upstream.registry import replaces


@replaces(
    "torch.autograd.profiler.profile._parse_kineto_results",
    since="2.13",
    why="a torch built without XPU takes every kernel in a trace for CUDA's",
    test="tests/runtime/test_profiler.py::test_events_of_torch_agree",
)
def name_device(upstream: Any) -> Any:
    @functools.wraps(upstream)
    def parse(self: Any, *args: Any, **kwargs: Any) -> Any:
        events = upstream(self, *args, **kwargs)
        if self.use_device == "xpu":
            for e in events:
                if e.device_type == DeviceType.CUDA:
                    e.device_type = DeviceType.XPU
        return events

    return parse
