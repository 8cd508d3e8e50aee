"""The gradient of associative_scan's pointwise mode on xpu, for values that hang on each other too.

Upstream's takes the tensors of a tuple for independent, which those of a recurrence like Mamba's are not, and fills a
matrix of steps by steps. Backwards in time the gradients are a recurrence themselves, and so a scan:
g(t) = grad(t) + J(t + 1) g(t + 1), with J the derivatives of a step by what it is given.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


def _derivatives(upstream: ModuleType, ctx: Any, xs: Tensors, ys: Tensors) -> tuple[list[Tensors], list[Tensors]]:
    """Of each result of steps 1 and on: by every value that the step is given, by every value that joins there."""
    n = len(xs)
    slices = upstream.first_slice_copy_with_grad(itertools.chain(xs, xs))
    step = upstream.materialize_as_graph(
        upstream.create_bw_fn(ctx._combine_fn, slices),
        (*slices, *(upstream.first_slice_copy(y) for y in ys)),
        ctx._fw_include_key_set,
        ctx._fw_exclude_key_set,
        force_enable_grad=True,
    )
    steps = torch.vmap(step, 0, 0)
    given, joining = [y[:-1] for y in ys], [x[1:] for x in xs]
    by_given, by_joining = [], []
    for k in range(n):
        seeds = [torch.ones_like(y) if i == k else torch.zeros_like(y) for i, y in enumerate(given)]
        grads = steps(*given, *joining, *seeds)
        by_given.append(grads[:n])
        by_joining.append(grads[n:])
    return by_given, by_joining


def _product(a: Tensors, b: Tensors) -> torch.Tensor:
    """Sum of the products of what has the same place."""
    return functools.reduce(torch.add, map(torch.mul, a, b))


def _linear(n: int) -> Callable[..., list[torch.Tensor]]:
    """Joins maps g -> J g + c, each as the rows of J and c; the first is applied first."""

    def join(*values: torch.Tensor) -> list[torch.Tensor]:
        first, second = values[: n * n + n], values[n * n + n :]

        rows = [second[i * n : i * n + n] for i in range(n)]
        columns = [first[j : n * n : n] for j in range(n)]
        maps = [_product(row, column) for row in rows for column in columns]
        shifts = [_product(row, first[n * n :]) + second[n * n + i] for i, row in enumerate(rows)]
        return [*maps, *shifts]

    return join


def backward(upstream: ModuleType, ctx: Any, grads: Tensors) -> list[torch.Tensor]:
    """Gradients of the scanned tensors; `upstream` is torch._higher_order_ops.associative_scan."""
    n = ctx._num_xs
    xs, _, ys = upstream.split_into_chunks(upstream.saved_values(ctx), [n, ctx._num_additional_inputs, n])
    if ctx._scan_length == 1:
        return list(grads)
    by_given, by_joining = _derivatives(upstream, ctx, xs, ys)
    maps = [
        torch.cat([by_given[j][i], torch.zeros_like(by_given[j][i][:1])]) for i in range(n) for j in range(n)
    ]  # of the step behind each; behind the last there is none
    leaves = [t.flip(0) for t in (*maps, *grads)]
    scanned = upstream.associative_scan_op(_linear(n), leaves, ())
    g = [t.flip(0) for t in scanned[n * n :]]
    later = [x[1:] for x in g]
    return [torch.cat([g[i][:1], _product([by_joining[j][i] for j in range(n)], later)]) for i in range(n)]
