"""Dynamo's questions about the device. Runs after torch._dynamo.utils."""

from __future__ import annotations

from typing import Any

import torch

from xpu_ops import _autoload
from xpu_ops.upstream.registry import replaces


@replaces(
    "torch._dynamo.utils.is_compile_supported",
    since="2.13",
    why="for xpu it asks for Triton",
    test="tests/inductor/test_compile_environment.py::test_is_compile_supported",
)
def is_compile_supported(upstream: Any) -> Any:
    def supported(device_type: Any) -> Any:
        return upstream("cpu" if torch.device(device_type).type == "xpu" else device_type)

    return supported


@replaces(
    "torch._dynamo.utils.get_current_stream",
    since="2.13",
    why="a guard asks for the stream at every call of a compiled function; upstream first looks for the accelerator, in Python",
    test="tests/inductor/test_compile_environment.py::test_streams_are_guarded",
)
def current_stream(upstream: Any) -> Any:
    current = torch._C._accelerator_getStream

    def get_current_stream(device: torch.device) -> Any:
        return current(device.index) if device.type == "xpu" and device.index is not None else upstream(device)

    return get_current_stream


@replaces(
    "torch._dynamo.utils.record_pregraph_bytecode_enter",
    "torch._dynamo.utils.record_pregraph_bytecode_exit",
    since="2.13",
    why="compiled code calls both around its guards' results, for the profiler alone, by four frames of Python each",
    test="tests/inductor/test_compile_environment.py::test_a_profiler_sees_the_bytecode_of_a_call",
)
def without_frames(upstream: Any) -> Any:
    return _autoload.load().while_recorded(upstream)
