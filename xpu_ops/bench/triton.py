"""Kernels in Triton against the eager operators that do the same, both on xpu. No rows where Triton is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import torch
import torch.nn.functional as F

from .core import Case

SECTION = "Triton against eager on xpu"


def cases() -> Iterator[Case]:
    """Ratio = time of the eager operator / time of the kernel; tests/triton_backend compares the results."""
    if importlib.util.find_spec("triton") is None:
        return
    from . import triton_kernels as t

    x, y = torch.randn(10**6), torch.randn(10**6)
    rows, w, b = torch.randn(4096, 1024), torch.rand(1024), torch.rand(1024)
    masked = torch.randn(4096, 1000)
    yield Case(SECTION, "add 1e6", t.add, (x, y), check=False, unfused=torch.add)
    yield Case(SECTION, "gelu 1e6", t.gelu, (x,), check=False, unfused=F.gelu)
    for v in (rows, masked):
        name = f"softmax {v.shape[0]}x{v.shape[1]}"
        yield Case(SECTION, name, t.softmax, (v,), check=False, unfused=lambda v: v.softmax(-1))
    norm = lambda x, w, b: F.layer_norm(x, (1024,), w, b)  # noqa: E731
    yield Case(SECTION, "layer norm 4096x1024", t.layer_norm, (rows, w, b), check=False, unfused=norm)
    for n in (512, 1024):
        a, c = torch.randn(n, n), torch.randn(n, n)
        yield Case(SECTION, f"matmul {n}", t.matmul, (a, c), check=False, unfused=torch.mm)
    q, k, v = (torch.randn(1, 12, 512, 64) for _ in range(3))
    causal = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    yield Case(SECTION, "flash attention 12x512x64", t.attention, (q, k, v), check=False, unfused=causal)
