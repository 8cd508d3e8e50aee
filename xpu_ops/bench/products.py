"""Matrix products, convolutions and attention: the shapes that models use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from .core import Case, with_gradients

# Every convolution of ResNet-50 at 224 x 224: channels in and out, side of the input, kernel, stride.
RESNET50 = [
    (3, 64, 224, 7, 2),
    (64, 64, 56, 1, 1), (64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (256, 64, 56, 1, 1),
    (256, 128, 56, 1, 1), (128, 128, 56, 3, 2), (256, 512, 56, 1, 2),
    (128, 128, 28, 3, 1), (128, 512, 28, 1, 1), (512, 128, 28, 1, 1),
    (512, 256, 28, 1, 1), (256, 256, 28, 3, 2), (512, 1024, 28, 1, 2),
    (256, 256, 14, 3, 1), (256, 1024, 14, 1, 1), (1024, 256, 14, 1, 1),
    (1024, 512, 14, 1, 1), (512, 512, 14, 3, 2), (1024, 2048, 14, 1, 2),
    (512, 512, 7, 3, 1), (512, 2048, 7, 1, 1), (2048, 512, 7, 1, 1),
]  # fmt: skip
# Those of the core level, the same operators at every depth.
CORE = [(64, 64, 56, 3, 1), (64, 256, 56, 1, 1), (128, 128, 28, 3, 1), (256, 256, 14, 3, 1), (512, 512, 7, 3, 1)]
LAYOUTS = (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last))


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def matmul(full: bool) -> Iterator[Case]:
    for n in (64, 256, 512, 1024, 2048) + ((4096,) if full else ()):
        a, b = torch.randn(n, n), torch.randn(n, n)
        yield Case("matmul", f"mm f32 {n}", torch.mm, (a, b), flops=2 * n**3)
        quick = n < 2048  # without instructions for them the CPU's bf16 takes a minute, its s8 half of one
        yield Case("matmul", f"mm bf16 {n}", torch.mm, (a.bfloat16(), b.bfloat16()), flops=2 * n**3, check=quick)
        i, j = (torch.randint(-128, 128, (n, n), dtype=torch.int8) for _ in range(2))
        yield Case("matmul", f"mm s8 {n}", torch._int_mm, (i, j), flops=2 * n**3, check=quick)
    for n in (256, 512):
        a, b = torch.randn(n, n, dtype=torch.float64), torch.randn(n, n, dtype=torch.float64)
        yield Case("matmul", f"mm f64 {n}", torch.mm, (a, b), flops=2 * n**3)
    for wide in (torch.float64, torch.complex64):
        a, b = torch.randn(1024, 1024, dtype=wide), torch.randn(16, 64, 64, dtype=wide)
        yield Case("matmul", f"one row {short(wide)} 1024", torch.mm, (a[:1], a))
        yield Case("matmul", f"bmm {short(wide)} 16x64", torch.bmm, (b, b))
    a = torch.randn(256, 256, dtype=torch.complex64)
    yield Case("matmul", "mm complex64 256", torch.mm, (a, a))
    a, b = torch.randn(8, 64, 28, 28, dtype=torch.float64), torch.randn(64, 64, 3, 3, dtype=torch.float64)
    yield Case("convolution", "3x3 of 64 at 28 float64", lambda x, w: F.conv2d(x, w, padding=1), (a, b))
    yield Case("convolution", "its gradients float64", with_gradients(lambda x, w: F.conv2d(x, w, padding=1)), (a, b))
    x, w, bias = torch.randn(512, 1024), torch.randn(4096, 1024), torch.randn(4096)
    left, right = torch.randn(96, 128, 64), torch.randn(96, 64, 128)
    for dtype in (torch.float32, torch.bfloat16):
        kind = "" if dtype == torch.float32 else " bfloat16"
        args, flops = tuple(t.to(dtype) for t in (x, w, bias)), 2 * 512 * 1024 * 4096
        yield Case("matmul", f"linear 512x1024x4096{kind}", F.linear, args, flops=flops)
        yield Case("matmul", f"linear+gelu{kind}", lambda *t: F.gelu(F.linear(*t)), args, flops=flops)
        yield Case("matmul", f"bmm 96x128x64x128{kind}", torch.bmm, (left.to(dtype), right.to(dtype)))


def decode() -> Iterator[Case]:
    """Products of one and four rows with weights of 16, 8 and 4 bits, which reading the weights bounds. torch's CPU has
    an operator and a packing of its own for 4 bits."""
    n, k, group = 4096, 4096, 128
    ops = torch.ops.aten
    weight = torch.randn(n, k).bfloat16()
    bytes8, scale = torch.randint(-128, 128, (n, k), dtype=torch.int8), torch.rand(n).bfloat16() / 1000
    nibbles, scales = torch.randint(0, 16, (n, k), dtype=torch.int32), torch.rand(k // group, n, 2).bfloat16() / 100
    packed = (nibbles[:, 1::2] << 4 | nibbles[:, ::2]).to(torch.uint8).view(torch.int32)
    cpu_packed = ops._convert_weight_to_int4pack_for_cpu(nibbles, 2)

    def int4(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            return ops._weight_int4pack_mm_for_cpu(x, cpu_packed, group, s)
        return ops._weight_int4pack_mm(x, w, group, s)

    for rows in (1, 4):
        x = torch.randn(rows, k).bfloat16()
        form = f"{rows} x {k} x {n}"
        yield Case("decode", f"bf16 {form}", F.linear, (x, weight), bytes_moved=2 * n * k)
        yield Case("decode", f"int8 {form}", ops._weight_int8pack_mm, (x, bytes8, scale), bytes_moved=n * k)
        yield Case("decode", f"int4 {form}", int4, (x, packed, scales), bytes_moved=n * k // 2 + scales.numel() * 2)


def convolution(full: bool) -> Iterator[Case]:
    """ResNet-50, batch 4, forward and all gradients, and a depthwise convolution; the core level has five of the shapes."""
    for c_in, c_out, side, k, stride in RESNET50 if full else CORE:
        weight = torch.randn(c_out, c_in, k, k) / 10
        flops = 2 * 4 * c_in * c_out * (side // stride) ** 2 * k * k
        step = "" if stride == 1 else f"/{stride}"

        def conv(x: torch.Tensor, w: torch.Tensor, s: int = stride, p: int = k // 2) -> torch.Tensor:
            return F.conv2d(x, w, stride=s, padding=p)

        for layout, fmt in LAYOUTS:
            x = torch.randn(4, c_in, side, side).contiguous(memory_format=fmt)
            for dtype in (torch.float32, torch.bfloat16):
                name = f"conv {c_in}-{c_out} {k}x{k}{step} {side} {layout} {short(dtype)}"
                args = (x.to(dtype), weight.to(dtype))
                yield Case("convolution", name, conv, args, flops=flops)
                yield Case("convolution", f"{name} backward", with_gradients(conv), args, flops=3 * flops)
    x, w = torch.randn(4, 144, 56, 56), torch.randn(144, 1, 3, 3)

    def depthwise(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, w, padding=1, groups=144)

    yield Case("convolution", "depthwise 144 3x3 56", depthwise, (x, w))
    for layout, fmt in LAYOUTS:
        for dtype in (torch.float32, torch.bfloat16):
            args = (x.to(dtype).contiguous(memory_format=fmt), w.to(dtype))
            name = f"depthwise 144 3x3 56 {layout} {short(dtype)}"
            if (layout, dtype) != ("nchw", torch.float32):
                yield Case("convolution", name, depthwise, args)
            yield Case("convolution", f"{name} backward", with_gradients(depthwise), args)


def attention(full: bool) -> Iterator[Case]:
    sdpa: Callable[..., Any] = F.scaled_dot_product_attention
    for tokens in (128, 512, 2048) + ((1024, 4096) if full else ()):
        flops = 4 * 12 * tokens * tokens * 64
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = (torch.randn(1, 12, tokens, 64).to(dtype) for _ in range(3))
            name = f"12 heads, {tokens} tokens, {short(dtype)}"
            yield Case("attention", name, sdpa, (q, k, v), flops=flops)
            yield Case("attention", f"{name}, causal", lambda *t: sdpa(*t, is_causal=True), (q, k, v), flops=flops // 2)
            yield Case("attention", f"{name}, backward", with_gradients(sdpa), (q, k, v), flops=flops * 7 // 2)
    q, k = torch.randn(1, 16, 1024, 64), torch.randn(1, 4, 1024, 64)
    mask = torch.rand(1, 1, 1024, 1024) > 0.2
    yield Case("attention", "mask, 16 heads, 1024 tokens", sdpa, (q, q, q, mask), flops=4 * 16 * 1024 * 1024 * 64)
    yield Case("attention", "grouped 16/4 heads, 1024 tokens", lambda *t: sdpa(*t, enable_gqa=True), (q, k, k),
               flops=4 * 16 * 1024 * 1024 * 64)  # fmt: skip
    yield Case("attention", "dropout, 16 heads, 1024 tokens", lambda *t: sdpa(*t, dropout_p=0.1), (q, q, q),
               flops=4 * 16 * 1024 * 1024 * 64, check=False)  # fmt: skip
    yield Case("attention", "one query, 1024 keys", sdpa, (q[:, :, :1], q, q))
