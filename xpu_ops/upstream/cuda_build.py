"""A CUDA build of torch on a machine without an NVIDIA GPU: what stands in the way of xpu there."""

from __future__ import annotations

from typing import Any

import torch

from xpu_ops.upstream.registry import replaces


@replaces(
    "torch._subclasses.fake_tensor.FakeTensorMode.avoid_device_init",
    since="2.13",
    why="the original asserts that only one of CUDA and XPU is compiled in; torch.cuda stays, for builds of CUDA extensions",
    test="tests/runtime/test_torch_xpu.py::test_cuda_is_hidden_in_a_cuda_build",
)
def avoid_device_init(upstream: Any) -> Any:
    return property(lambda mode: not torch.xpu.is_available())
