"""Fused chains against the same operators one by one, both on xpu, on shapes where memory decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from xpu_ops import fused as ops

from .core import Case

SECTION = "fused against unfused on xpu"


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The rotation as transformers writes it."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def swiglu(x: torch.Tensor) -> torch.Tensor:
    """The gated unit of one tensor, in one kernel."""
    gate, up = x.chunk(2, -1)
    out = torch.empty_like(gate)
    torch.ops.xpu_ops._gated_unit(out, gate, up, "silu")
    return out


def swiglu_in_two(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate).mul_(up)


def place(key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Keys and values into the pages of a cache, in one kernel."""
    pages = torch.zeros(2, 64, 16, *key.shape[1:], dtype=key.dtype, device=key.device)
    torch.ops.xpu_ops._place_rows(pages[0], pages[1], key, value, slots)
    return pages


def place_in_two(key: torch.Tensor, value: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    pages = torch.zeros(2, 64, 16, *key.shape[1:], dtype=key.dtype, device=key.device)
    kept = slots >= 0
    for rows, x in zip(pages.flatten(1, 2), (key, value), strict=True):
        rows.index_copy_(0, slots[kept], x[kept])
    return pages


def cases() -> Iterator[Case]:
    """Rows whose ratio is unfused time / fused time. Operations and bytes are those of the fused form: they tell which of
    the shapes are bound by memory."""

    def row(
        name: str, fused: Callable[..., Any], unfused: Callable[..., Any], *args: Any, out: int, flops: int = 0
    ) -> Case:
        moved = (sum(a.numel() for a in args) + out) * args[0].element_size()
        return Case(SECTION, name, fused, args, unfused=unfused, bytes_moved=moved, flops=flops)

    for dtype in (torch.float32, torch.bfloat16):
        kind = str(dtype).removeprefix("torch.")
        x, w, b = torch.randn(4096, 64), torch.randn(1024, 64) / 8, torch.randn(1024)
        residual = torch.randn(4096, 1024)
        x, w, b, residual = (t.to(dtype) for t in (x, w, b, residual))
        yield row(
            f"linear 4096x64x1024, gelu, add {kind}",
            lambda x, w, b, r: ops.linear(x, w, b, ["gelu", "add"], [r]),
            lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r,
            x, w, b, residual, out=4096 * 1024, flops=2 * 4096 * 64 * 1024,
        )  # fmt: skip
        yield row(
            f"linear 4096x64x1024, silu, mul, clip {kind}",
            lambda x, w, b, r: ops.linear(x, w, b, ["silu", "mul", "clip:-2,2"], [r]),
            lambda x, w, b, r: (F.silu(F.linear(x, w, b)) * r).clamp(-2, 2),
            x, w, b, residual, out=4096 * 1024, flops=2 * 4096 * 64 * 1024,
        )  # fmt: skip
        yield row(
            f"gated linear 4096x64x1024 {kind}",
            lambda x, g, u: ops.gated_linear(x, g, u),
            lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u),
            x, w, w.flip(0).contiguous(), out=4096 * 1024, flops=4 * 4096 * 64 * 1024,
        )  # fmt: skip
        yield row(
            f"matmul 4096x64x1024, relu {kind}",
            lambda x, w: ops.matmul(x, w, None, ["relu"]),
            lambda x, w: F.relu(x @ w),
            x, w.t().contiguous(), out=4096 * 1024, flops=2 * 4096 * 64 * 1024,
        )  # fmt: skip
        for layout, fmt in (("nhwc", torch.channels_last), ("nchw", torch.contiguous_format)):
            image = torch.randn(4, 16, 112, 112).to(dtype).contiguous(memory_format=fmt)
            kernel, bias = (torch.randn(32, 16, 1, 1) / 4).to(dtype), torch.randn(32).to(dtype)
            skip = torch.randn(4, 32, 112, 112).to(dtype).contiguous(memory_format=fmt)
            yield row(
                f"conv 16-32 1x1 112, add, relu, {layout} {kind}",
                lambda x, w, b, r: ops.conv(x, w, b, post_ops=["add", "relu"], operands=[r]),
                lambda x, w, b, r: F.relu(F.conv2d(x, w, b) + r),
                image, kernel, bias, skip, out=skip.numel(), flops=2 * 16 * skip.numel(),
            )  # fmt: skip
            # In the caches, and past them.
            for channels in (16, 144):
                image = torch.randn(4, channels, 112, 112).to(dtype).contiguous(memory_format=fmt)
                deep, deep_bias = (torch.randn(channels, 1, 3, 3) / 3).to(dtype), torch.randn(channels).to(dtype)
                yield row(
                    f"depthwise {channels} 3x3 112, hardswish, {layout} {kind}",
                    lambda x, w, b, c=channels: ops.conv(x, w, b, padding=1, groups=c, post_ops=["hardswish"]),
                    lambda x, w, b, c=channels: F.hardswish(F.conv2d(x, w, b, padding=1, groups=c)),
                    image, deep, deep_bias, out=image.numel(), flops=18 * image.numel(),
                )  # fmt: skip
        s, r, g = (torch.randn(4096, 1024).to(dtype) for _ in range(3))
        yield row(
            f"add + layer_norm 4096x1024 {kind}",
            lambda x, r, w: ops.add_layer_norm(x, r, w, w),
            lambda x, r, w: F.layer_norm(x + r, (1024,), w, w),
            s, r, g[0], out=2 * 4096 * 1024,
        )  # fmt: skip
        yield row(
            f"add + rms_norm 4096x1024 {kind}",
            lambda x, r, w: ops.add_rms_norm(x, r, w, 1e-6),
            lambda x, r, w: F.rms_norm(x + r, (1024,), w, 1e-6),
            s, r, g[0], out=2 * 4096 * 1024,
        )  # fmt: skip
        yield row(
            f"rms_norm 4096x1024 {kind}",
            lambda x, w: ops.rms_norm(x, w, 1e-6),
            lambda x, w: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * w,
            s, g[0], out=s.numel(),
        )  # fmt: skip
        q = torch.randn(1, 1024, 32, 64).to(dtype).transpose(1, 2)
        angles = torch.randn(1, 1, 1024, 32)
        cos, sin = (torch.cat((t, t), -1).to(dtype) for t in (angles.cos(), angles.sin()))
        yield row(f"rotary 32 heads, 1024 tokens {kind}", ops.rotary_embedding, rotate, q, cos, sin, out=q.numel())
        both = torch.randn(512, 8192).to(dtype)
        tokens, slots = torch.randn(16, 8, 128).to(dtype), torch.arange(15, -1, -1) * 3
        yield row(
            f"16 tokens into pages {kind}", place, place_in_two, tokens, tokens + 1, slots, out=tokens.numel() * 2
        )
        yield row(f"silu and mul 512x4096 {kind}", swiglu, swiglu_in_two, both, out=both.numel() // 2)
