"""Checks of Triton for `xpu-ops doctor`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _scaled_rows(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    values = tl.load(x + tl.program_id(0) * n + offsets, mask=mask, other=0.0)
    tl.store(y + tl.program_id(0) * n + offsets, values / tl.sum(values), mask=mask)


def backend() -> str:
    """The package whose backend serves xpu; "" for none."""
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget

    target = GPUTarget("xpu", "cpu", 16)
    serving = [b.compiler.__module__ for b in backends.values() if b.compiler.supports_target(target)]
    return serving[0].split(".")[0] if serving else ""


def one_kernel() -> str:
    """The difference of a kernel from the CPU, "" for none."""
    x = torch.arange(1.0, 1001.0).reshape(10, 100)
    on_device = x.to("xpu")
    y = torch.empty_like(on_device)
    _scaled_rows[(10,)](on_device, y, 100, BLOCK=128)
    difference = (y.cpu() - x / x.sum(1, keepdim=True)).abs().max().item()
    return "" if difference < 1e-6 else f"differs by {difference:.1e}"
