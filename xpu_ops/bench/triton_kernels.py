"""Kernels in Triton that the benchmark and the tests run, as Triton's tutorials have them."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_kernel(x, y, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def gelu_kernel(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(o + at, 0.5 * v * (1 + libdevice.erf(v * 0.7071067811865476)), mask=at < n)


@triton.jit
def softmax_kernel(x, o, rows, n, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(o + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit
def layer_norm_kernel(x, o, w, b, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    mean = tl.sum(v, axis=0) / n
    d = tl.where(at < n, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, axis=0) / n + eps)
    tl.store(o + row * n + at, d * scale * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    columns = tl.cdiv(N, BN)
    om = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    on = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left = a + (om % M)[:, None] * K + k[None, :]
    right = b + k[:, None] * N + (on % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        rest = K - step * BK
        x = tl.load(left, mask=k[None, :] < rest, other=0.0)
        total = tl.dot(x, tl.load(right, mask=k[:, None] < rest, other=0.0), total)
        left += BK
        right += BK * N
    tl.store(
        c + om[:, None] * N + on[None, :], total.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N)
    )


@triton.jit
def attention_kernel(Q, K, V, out, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * N * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(Q + head + m[:, None] * D + d[None, :])
    top = tl.zeros([BM], tl.float32) - float("inf")
    norm = tl.zeros([BM], tl.float32)
    total = tl.zeros([BM, D], tl.float32)
    for j in range(0, (tl.program_id(0) + 1) * BM, BN):
        n = j + tl.arange(0, BN)
        s = tl.dot(q, tl.load(K + head + n[None, :] * D + d[:, None])) * scale
        s = tl.where(m[:, None] >= n[None, :], s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        shrink = tl.exp(top - new)
        norm = norm * shrink + tl.sum(p, 1)
        v = tl.load(V + head + n[:, None] * D + d[None, :])
        total = tl.dot(p.to(v.dtype), v, total * shrink[:, None])
        top = new
    tl.store(out + head + m[:, None] * D + d[None, :], total / norm[:, None])


def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 4096),)](x, y, o, x.numel(), BLOCK=4096)
    return o


def gelu(x: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 4096),)](x, o, x.numel(), BLOCK=4096)
    return o


def softmax(x: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    softmax_kernel[(256,)](x, o, *x.shape, BLOCK=triton.next_power_of_2(x.shape[1]))
    return o


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    layer_norm_kernel[(x.shape[0],)](x, o, w, b, x.shape[1], 1e-5, BLOCK=triton.next_power_of_2(x.shape[1]))
    return o


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    c = a.new_empty(M, N)
    matmul_kernel[(triton.cdiv(M, 64) * triton.cdiv(N, 64),)](a, b, c, M, N, K, BM=64, BN=64, BK=64)
    return c


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal, of contiguous (1, heads, length, width)."""
    o = torch.empty_like(q)
    _, heads, n, d = q.shape
    attention_kernel[(n // 64, heads)](q, k, v, o, d**-0.5, n, D=d, BM=64, BN=64)
    return o
