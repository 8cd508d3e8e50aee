"""torch's higher-order operators. Runs after torch._higher_order_ops.associative_scan."""

from __future__ import annotations

import sys
from typing import Any

import torch

from xpu_ops.upstream.registry import replaces


@replaces(
    "torch._higher_order_ops.associative_scan.AssociativeScanAutogradOp.backward",
    since="2.13",
    why="the gradient of a scan is a scan, too; the original takes the tensors of a tuple for independent, and fills a "
    "matrix of steps by steps",
    test="tests/inductor/test_compile_scans.py::test_training",
)
def gradient_of_a_scan(upstream: Any) -> Any:
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        if grads[0].device.type != "xpu":
            return upstream(ctx, *grads)
        from xpu_ops.inductor import scan_gradient

        module = sys.modules["torch._higher_order_ops.associative_scan"]
        return None, None, None, *scan_gradient.backward(module, ctx, grads), *[None] * ctx._num_additional_inputs

    return backward
