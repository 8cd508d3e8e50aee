"""torch.compile on xpu against xpu eager, and against torch.compile on the CPU where g++ is there for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .core import Case, with_gradients

AGAINST_EAGER = "compiled against eager on xpu"
AGAINST_CPU = "compiled against compiled CPU"
_WIDTH, _HEADS = 768, 12


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """As language models write it."""
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def _layer(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
    """A layer of BERT-base: attention and perceptron, each with its residual sum and norm."""
    qkv, out, up, down, norm = w
    b, n, width = x.shape
    q, k, v = (t.view(b, n, _HEADS, -1).transpose(1, 2) for t in F.linear(x, qkv).chunk(3, -1))
    a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, width)
    x = F.layer_norm(x + F.linear(a, out), (width,), norm, norm)
    return F.layer_norm(x + F.linear(F.gelu(F.linear(x, up)), down), (width,), norm, norm)


def _rows() -> Iterator[tuple[str, Callable[..., Any], tuple[torch.Tensor, ...]]]:
    for n in (10**6, 16 * 10**6):
        a, b, c = torch.randn(n // 1000, 1000), torch.randn(n // 1000, 1000), torch.randn(1000)
        yield f"gelu(a * b + c) * 2 + a, {n:.0e}", lambda a, b, c: F.gelu(a * b + c) * 2 + a, (a, b, c)
        yield f"relu(a * b + c) - a, {n:.0e}", lambda a, b, c: (a * b + c).relu() - a, (a, b, c)
        yield f"whole sum of squares, {n:.0e}", lambda a: (a * a).sum(), (a,)
    x, y, w = torch.randn(4096, 1024), torch.randn(4096, 1024), torch.rand(1024)
    norm = lambda x, y, w: F.layer_norm(x + y, (1024,), w, w)  # noqa: E731
    yield "softmax(x * 0.5) 4096x1024", lambda x: torch.softmax(x * 0.5, -1), (x,)
    yield "layer_norm(x + y) 4096x1024", norm, (x, y, w)
    yield "layer_norm(x + y), gradients too", with_gradients(norm), (x, y, w)
    yield "rms norm by hand, f32", _rms_norm, (x, w)
    yield "rms norm by hand, bf16", _rms_norm, (x.bfloat16(), w.bfloat16())
    yield "columns' sums of squares 4096x1024", lambda x: (x * x).sum(0), (x,)
    square, other = torch.randn(2048, 2048), torch.randn(2048, 2048)
    yield "x.t() + y, 2048", lambda x, y: x.t() + y, (square, other)
    yield "bf16 chain, 4e6", lambda x, y: F.silu(x) * y + x, (x.bfloat16(), y.bfloat16())
    yield "rows by index * 2", lambda w, i: w[i] * 2, (x, torch.randint(0, 4096, (4096,)))
    shapes = ((3 * _WIDTH, _WIDTH), (_WIDTH, _WIDTH), (4 * _WIDTH, _WIDTH), (_WIDTH, 4 * _WIDTH))
    weights = [nn.init.xavier_uniform_(torch.empty(s)) for s in shapes]
    tokens = torch.randn(8, 128, _WIDTH)
    yield "BERT-base layer, 8x128", _layer, (tokens, *weights, torch.ones(_WIDTH))
    yield "BERT-base layer, 8x128, gradients too", with_gradients(_layer), (tokens, *weights, torch.ones(_WIDTH))


def cases() -> Iterator[Case]:
    """Each graph twice; ratio = time of the other / time of xpu compiled."""
    against_cpu = shutil.which("g++") is not None
    for name, f, args in _rows():
        torch._dynamo.reset()
        yield Case(AGAINST_EAGER, name, torch.compile(f), args, check=False, unfused=f)
        if against_cpu:
            yield Case(AGAINST_CPU, name, torch.compile(f), args)
