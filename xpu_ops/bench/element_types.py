"""Rows of common operators for every element type, at a million elements: the other rows are of floats for the most part,
and a type can fall behind unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from xpu_ops._dtypes import names

from .core import Case

TYPES = ("f32", "f64", "f16", "bf16", "c64", "c128", "i64", "i32", "i16", "i8", "u8", "b8")
UNARY = """abs neg sgn exp log sqrt rsqrt sin tanh sigmoid reciprocal square floor round trunc isnan isinf isfinite angle logical_not
    bitwise_not erf lgamma digamma expm1 log1p atan sinh cosh asin sign frac nan_to_num exp2 log2 relu gelu silu tril"""
BINARY = """add sub mul div pow maximum minimum eq lt logical_and bitwise_and bitwise_xor fmod remainder atan2 hypot floor_divide copysign
    gcd logaddexp isclose fmax heaviside nextafter mse_loss equal"""
REDUCTIONS = "sum mean prod amax amin std var norm all any argmax count_nonzero nansum"
ALONG = "logsumexp cumsum cumprod median logcumsumexp cummax softmax log_softmax diff max"
TO = ("f32", "f64", "f16", "c64", "i64", "b8")
# Their values are random, or not defined.
UNCHECKED = {"normal_", "uniform_", "bernoulli_", "random_", "dropout"}


def random(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    return (
        torch.randn(shape, dtype=dtype)
        if dtype.is_floating_point or dtype.is_complex
        else torch.randint(1, 80, shape).to(dtype)
    )


def _type(label: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, names()[label])
    return dtype


def _named(text: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    return ((name, getattr(torch, name, None) or getattr(F, name)) for name in text.split())


def rows(n: int) -> dict[str, tuple[Callable[..., Any], int]]:
    """Functions of so many matrices of n x n, of an index per element, and of one per row."""
    k, parts = n // 3, n // 10
    r: dict[str, tuple[Callable[..., Any], int]] = {}
    for name, f in _named(f"{UNARY} {REDUCTIONS}"):
        r[name] = (lambda a, i, j, f=f: f(a), 1)
    for name, f in _named(BINARY):
        r[name] = (lambda a, b, i, j, f=f: f(a, b), 2)
    for name, f in _named(f"{REDUCTIONS} {ALONG}"):
        for dim in (0, 1):
            r[f"{name} dim={dim}"] = (lambda a, i, j, f=f, dim=dim: f(a, dim=dim), 1)
    for dim in (0, 1):
        along: dict[str, Callable[..., Any]] = {
            "sort": lambda a, i, j, d=dim: a.sort(d)[0],
            "argsort": lambda a, i, j, d=dim: a.argsort(d, stable=True),
            "topk": lambda a, i, j, d=dim: a.topk(n // 50 + 1, d)[0],
            "gather": lambda a, i, j, d=dim: a.gather(d, i),
            "index_select": lambda a, i, j, d=dim: a.index_select(d, j),
            "scatter_add": lambda a, i, j, d=dim: a.scatter_add(d, i, a),
            "index_add": lambda a, i, j, d=dim: a.index_add(d, j, a),
            "scatter_reduce amax": lambda a, i, j, d=dim: a.scatter_reduce(d, i, a, "amax"),
        }
        r |= {f"{name} dim={dim}": (f, 1) for name, f in along.items()}
    for name, dtype in ((name, _type(name)) for name in TO):
        r[f"to {name}"] = (lambda a, i, j, t=dtype: a.to(t), 1)
    one: dict[str, Callable[..., Any]] = {
        "add a row": lambda a, i, j: a + a[0],
        "mul by a column": lambda a, i, j: a * a[:, :1],
        "add turned": lambda a, i, j: a + a.t(),
        "turned": lambda a, i, j: a.t().contiguous(),
        "clamp": lambda a, i, j: a.clamp(1, 3),
        "masked_fill": lambda a, i, j: a.masked_fill(a == 1, 1),
        "addcmul": lambda a, i, j: torch.addcmul(a, a, a),
        "lerp": lambda a, i, j: torch.lerp(a, a, 0.3),
        "flip": lambda a, i, j: a.flip(0, 1),
        "roll": lambda a, i, j: a.roll((3, 5), (0, 1)),
        "cat dim=1": lambda a, i, j: torch.cat([a, a], 1),
        "stack dim=-1": lambda a, i, j: torch.stack([a, a], -1),
        "repeat_interleave": lambda a, i, j: a[:parts].repeat_interleave(10, 0),
        "pad": lambda a, i, j: F.pad(a, (1, 2, 3, 4)),
        "pad reflect": lambda a, i, j: F.pad(a[None], (1, 2, 3, 4), mode="reflect"),
        "full": lambda a, i, j: torch.full_like(a, 3),
        "arange": lambda a, i, j: torch.arange(n, dtype=a.dtype, device=a.device),
        "rows by index": lambda a, i, j: a[j],
        "columns by index": lambda a, i, j: a[:, j],
        "index_put": lambda a, i, j: a.clone().index_put_((j,), a[j]),
        "index_put accumulate": lambda a, i, j: a.clone().index_put_((j,), a, accumulate=True),
        "embedding": lambda a, i, j: F.embedding(i[:parts], a),
        "mask": lambda a, i, j: a[a == 1],
        "nonzero": lambda a, i, j: a.nonzero(),
        "take": lambda a, i, j: a.take(i),
        "unique": lambda a, i, j: a.unique(),
        "bincount": lambda a, i, j: a.view(-1).bincount(),
        "sort flat": lambda a, i, j: a.view(-1).sort()[0],
        "searchsorted": lambda a, i, j: torch.searchsorted(a[0].sort()[0], a),
        "isin": lambda a, i, j: torch.isin(a, a[0]),
        "outer": lambda a, i, j: torch.outer(a[0], a[1]),
        "dot": lambda a, i, j: torch.dot(a.view(-1), a.view(-1)),
        "vdot": lambda a, i, j: torch.vdot(a.view(-1), a.view(-1)),
        "mv": lambda a, i, j: a @ a[0],
        "mm": lambda a, i, j: a[:k, :k] @ a[:k, :k],
        "addmm": lambda a, i, j: torch.addmm(a[:k, :k], a[:k, :k], a[:k, :k]),
        "bmm": lambda a, i, j: torch.bmm(a.view(parts, 10, n), a.view(parts, n, 10)),
        "cdist": lambda a, i, j: torch.cdist(a[:k], a[:k]),
        "layer_norm": lambda a, i, j: F.layer_norm(a, (n,)),
        "cross_entropy": lambda a, i, j: F.cross_entropy(a, j),
        "conv1d": lambda a, i, j: F.conv1d(a.view(1, 10, -1)[..., : 10 * n], a.view(-1)[:300].view(10, 10, 3)),
        "conv2d": lambda a, i, j: F.conv2d(a.view(1, 10, parts, n), a.view(-1)[:90].view(1, 10, 3, 3), padding=1),
        "max_pool2d": lambda a, i, j: F.max_pool2d(a.view(1, 4, n // 2, n // 2), 3, 2),
        "avg_pool2d": lambda a, i, j: F.avg_pool2d(a.view(1, 4, n // 2, n // 2), 3, 2),
        "interpolate bilinear": lambda a, i, j: F.interpolate(a.view(1, 4, n // 2, n // 2), scale_factor=1.5, mode="bilinear"),
        "interpolate nearest": lambda a, i, j: F.interpolate(a.view(1, 4, n // 2, n // 2), scale_factor=1.5),
        "normal_": lambda a, i, j: torch.empty_like(a).normal_(),
        "uniform_": lambda a, i, j: torch.empty_like(a).uniform_(),
        "bernoulli_": lambda a, i, j: torch.empty_like(a).bernoulli_(0.3),
        "random_": lambda a, i, j: torch.empty_like(a).random_(),
        "dropout": lambda a, i, j: F.dropout(a),
        "fft": lambda a, i, j: torch.fft.fft(a),
        "foreach add": lambda a, i, j: torch._foreach_add(list(a.view(parts, -1)), 2),
    }  # fmt: skip
    return r | {name: (f, 1) for name, f in one.items()}


def cases(n: int = 1000, labels: Iterable[str] = TYPES) -> Iterator[Case]:
    """Of matrices of n x n, a multiple of 10. What torch's CPU refuses for a type has no row."""
    by_element, by_row = torch.randint(0, n, (n, n)), torch.randint(0, n, (n,))
    for label in labels:
        given = [random(_type(label), n, n) for _ in range(2)]
        for name, (function, operands) in rows(n).items():
            args = (*given[:operands], by_element, by_row)
            try:
                function(*args)
            except (RuntimeError, TypeError):
                continue
            yield Case(f"types {label}", name, function, args, check=name not in UNCHECKED)
