"""Benchmark rows of every operator that indexes, sorts, scans, searches, resamples or takes sparse tensors, at one size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from .core import Case, with_gradients

Rows = dict[str, tuple[Any, ...]]  # name: function, its arguments


def _cases(section: str, rows: Rows) -> Iterator[Case]:
    for name, (function, *args) in rows.items():
        yield Case(section, name, function, tuple(args))


def lines(size: int) -> Iterator[Case]:
    """One dimension of `size` elements, and a square matrix of as many."""
    g = torch.Generator().manual_seed(0)
    side = math.isqrt(size)
    x, m = torch.rand(size, generator=g), torch.rand(side, side, generator=g)
    long = torch.randint(0, size, (size,), generator=g)
    few = torch.randint(0, 1000, (size,), generator=g)
    rows = torch.randint(0, side, (side,), generator=g)
    once = torch.randperm(side, generator=g)
    square = torch.randint(0, side, (side, side), generator=g)
    mask = x > 0.5
    yield from _cases(f"indexing {size:.0e}", {**_sorts(x, m, long, few), **_scans(m)})
    table, lookups = torch.rand(30522, 64, generator=g), torch.randint(0, 30522, (max(size // 64, 8),), generator=g)
    bags = lookups[: lookups.numel() // 8 * 8].view(-1, 8)
    both = torch.randint(0, side, (2, size), generator=g)
    lengths = torch.full((size // 100 + 1,), 100)
    part = x[: size // 100 * 100].view(-1, 100)
    yield from _cases(f"indexing {size:.0e}", {
        "index, rows": (lambda t, i: t[i], m, rows),
        "index, elements": (lambda t, i: t[i[0], i[1]], m, both),
        "index, mask": (lambda t, k: t[k], x, mask),
        "index_put, rows": (lambda t, i, s: t.index_put((i,), s), m, once, m),
        "index_put accumulate, rows": (lambda t, i, s: t.index_put((i,), s, accumulate=True), m, rows, m),
        "index_put accumulate, elements": (lambda t, i, s: t.index_put((i,), s, accumulate=True), x, long, x),
        "index_put, elements": (lambda t, i, s: t.index_put((i,), s * 0), x, long, x),
        "index_put, mask": (lambda t, k: t.index_put((k,), t.sum()), x, mask),
        "index_select, dim 0": (lambda t, i: t.index_select(0, i), m, rows),
        "index_select, dim 1": (lambda t, i: t.index_select(1, i), m, rows),
        "index_add, dim 0": (lambda t, i: t.index_add(0, i, t), m, rows),
        "index_add, dim 1": (lambda t, i: t.index_add(1, i, t), m, rows),
        "index_add, 1-d": (lambda t, i: t.index_add(0, i, t), x, long),
        "index_copy, dim 0": (lambda t, i: t.index_copy(0, i, t), m, once),
        "index_copy, dim 1": (lambda t, i: t.index_copy(1, i, t), m, once),
        "index_fill, dim 0": (lambda t, i: t.index_fill(0, i, 2.0), m, rows),
        "index_fill, dim 1": (lambda t, i: t.index_fill(1, i, 2.0), m, rows),
        "index_reduce amax, dim 0": (lambda t, i: t.index_reduce(0, i, t, "amax"), m, rows),
        "index_reduce mean, dim 1": (lambda t, i: t.index_reduce(1, i, t, "mean"), m, rows),
        "gather, dim 0": (lambda t, i: t.gather(0, i), m, square),
        "gather, dim 1": (lambda t, i: t.gather(1, i), m, square),
        "gather, 1-d": (lambda t, i: t.gather(0, i), x, long),
        "scatter value, dim 0": (lambda t, i: t.scatter(0, i, 1.0), m, square),
        "scatter value, dim 1": (lambda t, i: t.scatter(1, i, 1.0), m, square),
        "scatter src, dim 1": (lambda t, i: t.scatter(1, i, t * 0), m, square),
        "scatter_add, dim 0": (lambda t, i: t.scatter_add(0, i, t), m, square),
        "scatter_add, dim 1": (lambda t, i: t.scatter_add(1, i, t), m, square),
        "scatter_add, 1-d": (lambda t, i: t.scatter_add(0, i, t), x, long),
        "scatter_reduce amax, dim 1": (lambda t, i: t.scatter_reduce(1, i, t, "amax"), m, square),
        "scatter_reduce mean, dim 0": (lambda t, i: t.scatter_reduce(0, i, t, "mean"), m, square),
        "scatter_reduce prod, dim 1": (lambda t, i: t.scatter_reduce(1, i, t, "prod"), m, square),
        "take": (torch.take, x, long),
        "put": (lambda t, i: t.put(i, t * 0), x, long),
        "put accumulate": (lambda t, i: t.put(i, t, accumulate=True), x, long),
        "take_along_dim": (lambda t, i: torch.take_along_dim(t, i, 1), m, square),
        "masked_select": (torch.masked_select, x, mask),
        "masked_scatter": (lambda t, k: t.masked_scatter(k, t), x, mask),
        "masked_fill": (lambda t, k: t.masked_fill(k, 1.0), x, mask),
        "nonzero": (torch.nonzero, mask),
        "nonzero, 2-d": (lambda t: torch.nonzero(t > 0.9), m),
        "argwhere, f32": (torch.argwhere, x),
        "embedding": (F.embedding, lookups, table),
        "embedding backward": (with_gradients(lambda i, t: F.embedding(i, t)), lookups, table),
        "embedding_bag sum": (lambda i, t: F.embedding_bag(i, t, mode="sum"), bags, table),
        "embedding_bag max": (lambda i, t: F.embedding_bag(i, t, mode="max"), bags, table),
        "embedding_bag backward": (with_gradients(lambda i, t: F.embedding_bag(i, t)), bags, table),
        "repeat_interleave 3": (lambda t: t.repeat_interleave(3), x),
        "repeat_interleave of counts": (lambda t, n: t.repeat_interleave(n % 4), x, few),
        "tril_indices": (lambda t: torch.tril_indices(t.shape[0], t.shape[0], device=t.device), m),
        "tril": (torch.tril, m),
        "flip, dim 0": (lambda t: t.flip(0), m),
        "flip, dim 1": (lambda t: t.flip(1), m),
        "flip, 1-d": (lambda t: t.flip(0), x),
        "roll, 2-d": (lambda t: t.roll((3, 5), (0, 1)), m),
        "roll, 1-d": (lambda t: t.roll(7), x),
        "rot90": (torch.rot90, m),
        "histc": (lambda t: torch.histc(t, 100), x),
        "histogram": (lambda t: torch.histc(t, 10000), x),
        "bincount": (torch.bincount, few),
        "bincount, many": (torch.bincount, long),
        "bincount, weights": (torch.bincount, few, x),
        "segment_reduce": (lambda t, n: torch.segment_reduce(t, "sum", lengths=n, axis=0), part, lengths[: len(part)] // 100),
        "segment_reduce, 1-d": (lambda t, n: torch.segment_reduce(t.view(-1), "max", lengths=n, axis=0), part, lengths[: len(part)]),
        "trace": (torch.trace, m),
        "diag": (lambda t: torch.diag(t).clone(), m),
        "diag_embed": (torch.diag, x[:side].clone()),
        "renorm": (lambda t: t.renorm(2, 0, 1.0), m),
        "cross": (lambda t: torch.linalg.cross(t, t + 1), x[: size // 3 * 3].view(-1, 3)),
        "cross, dim 0": (lambda t: torch.linalg.cross(t, t + 1, dim=0), x[: size // 3 * 3].view(3, -1)),
    })  # fmt: skip
    points = torch.rand(side, 16, generator=g)
    yield from _cases(f"indexing {size:.0e}", {
        "cdist 2": (torch.cdist, points, points),
        "cdist 1": (lambda a, b: torch.cdist(a, b, 1.0), points, points),
        "cdist 2, exact": (lambda a: torch.cdist(a, a, compute_mode="donot_use_mm_for_euclid_dist"), points),
        "cdist backward": (with_gradients(lambda a, b: torch.cdist(a, b)), points, points + 1),
        "cdist 1 backward": (with_gradients(lambda a, b: torch.cdist(a, b, 1.0)), points, points + 1),
        "pdist": (torch.pdist, points),
        "pdist backward": (with_gradients(torch.pdist), points),
    })  # fmt: skip


def _sorts(x: torch.Tensor, m: torch.Tensor, long: torch.Tensor, few: torch.Tensor) -> Rows:
    return {
        "sort": (lambda t: t.sort()[0], x),
        "sort, i64": (lambda t: t.sort()[0], long),
        "sort stable": (lambda t: t.sort(stable=True), x),
        "sort descending, rows": (lambda t: t.sort(descending=True)[0], m),
        "sort, columns": (lambda t: t.sort(0)[0], m),
        "argsort stable": (lambda t: t.argsort(stable=True), x),
        "msort": (torch.msort, m),
        "topk 50": (lambda t: t.topk(50)[0], x),
        "topk 50, rows": (lambda t: t.topk(min(50, t.shape[1]))[0], m),
        "topk 5, columns": (lambda t: t.topk(5, 0)[0], m),
        "topk half": (lambda t: t.topk(t.numel() // 2)[0], x),
        "kthvalue": (lambda t: t.kthvalue(t.numel() // 3)[0], x),
        "kthvalue, rows": (lambda t: t.kthvalue(5)[0], m),
        "median": (torch.median, x),
        "median, rows": (lambda t: t.median(-1)[0], m),
        "median, columns": (lambda t: t.median(0)[0], m),
        "nanmedian": (torch.nanmedian, x),
        "mode, rows": (lambda t: (t * 100).floor().mode(-1)[0], m),
        "quantile": (lambda t: t.quantile(0.3, -1), m),
        "unique": (torch.unique, long),
        "unique of few": (torch.unique, few),
        "unique, f32": (torch.unique, x),
        "unique, all results": (lambda t: torch.unique(t, return_inverse=True, return_counts=True), long),
        "unique_consecutive": (lambda t: torch.unique_consecutive(t // 2, return_counts=True), few.sort()[0]),
        "unique dim 0": (lambda t: torch.unique(t, dim=0), few[: min(few.numel(), 1_000_000) // 4 * 4].view(-1, 4) % 10),
        "searchsorted": (torch.searchsorted, x[: max(x.numel() // 10, 10)].sort()[0], x),
        "bucketize": (torch.bucketize, x, torch.linspace(0, 1, 100)),
        "isin 100": (torch.isin, long, long[:100].clone()),
        "isin as many": (torch.isin, long, long.flip(0)[: long.numel() // 2].clone()),
    }  # fmt: skip


def _scans(m: torch.Tensor) -> Rows:
    rows: Rows = {}
    for d in (0, -1):
        for name in ("cumsum", "cumprod", "logcumsumexp"):
            rows[f"{name}, dim {d}"] = (lambda t, n=name, d=d: getattr(torch, n)(t, d), m)
        for name in ("cummax", "cummin"):
            rows[f"{name}, dim {d}"] = (lambda t, n=name, d=d: getattr(torch, n)(t, d)[0], m)
        rows[f"cumsum i64, dim {d}"] = (lambda t, d=d: t.cumsum(d), (m * 10).long())
    rows["cumsum, 1-d"] = (lambda t: t.view(-1).cumsum(0), m)
    rows["cumsum backward"] = (with_gradients(lambda t: t.cumsum(-1)), m)
    rows["diff"] = (torch.diff, m)
    return rows


def planes(size: int) -> Iterator[Case]:
    """Images, 16 and 3 channels, of about `size` elements in all."""
    g = torch.Generator().manual_seed(0)
    section = f"indexing {size:.0e}"
    for channels in (3, 16):
        side = max(4, math.isqrt(size // channels // 2) // 4 * 4)
        x = torch.rand(2, channels, side, side, generator=g)
        grid = torch.rand(2, side, side, 2, generator=g) * 2.2 - 1.1
        smooth = F.affine_grid(
            torch.tensor([[[0.9, 0.1, 0.0], [-0.1, 0.9, 0.1]]] * 2), [2, 1, side, side], align_corners=False
        )
        rows: Rows = {}

        def add(name: str, f: Callable[..., Any], *args: Any, into: Rows = rows) -> None:
            into[name] = (f, *args)
            into[f"{name} backward"] = (with_gradients(f), *args)

        for mode in ("bilinear", "nearest", "bicubic"):
            add(f"grid_sample {mode}", lambda t, p, m=mode: F.grid_sample(t, p, mode=m, align_corners=False), x, smooth)
        add("grid_sample bilinear, random", lambda t, p: F.grid_sample(t, p, align_corners=False), x, grid)
        add(
            "grid_sample border",
            lambda t, p: F.grid_sample(t, p, padding_mode="border", align_corners=False),
            x,
            smooth,
        )
        for scale in (2, 0.6):
            for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
                add(f"{mode} x{scale}", lambda t, s=scale, m=mode: F.interpolate(t, scale_factor=s, mode=m), x)
        for mode in ("bilinear", "bicubic"):
            add(
                f"{mode} x0.6 antialias",
                lambda t, m=mode: F.interpolate(t, scale_factor=0.6, mode=m, antialias=True),
                x,
            )
            last = x.contiguous(memory_format=torch.channels_last)
            add(f"{mode} x2 nhwc", lambda t, m=mode: F.interpolate(t, scale_factor=2, mode=m), last)
        pooled, places = F.max_pool2d(x, 2, return_indices=True)
        add("max_unpool2d", lambda t, i: F.max_unpool2d(t, i, 2), pooled, places)
        tenths = torch.full((2, channels, 2), 3)
        fractional = lambda t, u: F.fractional_max_pool2d(t, 2, output_ratio=(0.6, 0.6), _random_samples=u / 10)  # noqa: E731
        add("fractional_max_pool2d", fractional, x, tenths)
        add("unfold 3x3", lambda t: F.unfold(t, 3, padding=1), x)
        columns = F.unfold(x, 3, padding=1)
        add("fold 3x3", lambda t, s=side: F.fold(t, s, 3, padding=1), columns)
        add("reflection_pad2d", lambda t: F.pad(t, (2, 2, 2, 2), mode="reflect"), x)
        add("replication_pad2d", lambda t: F.pad(t, (2, 2, 2, 2), mode="replicate"), x)
        add("constant pad", lambda t: F.pad(t, (2, 2, 2, 2)), x)
        if channels == 16:
            add("pixel_shuffle 2", lambda t: F.pixel_shuffle(t, 2), x)
            add("pixel_unshuffle 2", lambda t: F.pixel_unshuffle(t, 2), x)
            add("channel_shuffle 4", lambda t: F.channel_shuffle(t, 4), x)
        yield from _cases(f"{section}", {f"{name}, {channels} channels": row for name, row in rows.items()})
    side = max(4, round((size / 8) ** (1 / 3) / 4) * 4)
    v = torch.rand(1, 8, side, side, side, generator=g)
    grid = torch.rand(1, side, side, side, 3, generator=g) * 2.2 - 1.1
    line = torch.rand(1, 8, max(size // 8, 8), generator=g)
    rows = {}
    for name, f, args in (
        ("grid_sample 3-d", lambda t, p: F.grid_sample(t, p, align_corners=False), (v, grid)),
        ("grid_sample 3-d nearest", lambda t, p: F.grid_sample(t, p, mode="nearest", align_corners=False), (v, grid)),
        ("trilinear x1.5", lambda t: F.interpolate(t, scale_factor=1.5, mode="trilinear"), (v,)),
        ("nearest 3-d x2", lambda t: F.interpolate(t, scale_factor=2), (v,)),
        ("linear 1-d x2", lambda t: F.interpolate(t, scale_factor=2, mode="linear"), (line,)),
        ("nearest 1-d x2", lambda t: F.interpolate(t, scale_factor=2), (line,)),
        ("unfold of a tensor", lambda t: t.unfold(2, 4, 2).contiguous(), (line,)),
    ):  # fmt: skip
        rows[name] = (f, *args)
        rows[f"{name} backward"] = (with_gradients(f), *args)
    yield from _cases(section, rows)


def sparse(size: int) -> Iterator[Case]:
    """`size` elements, ten per row of a square matrix."""
    g = torch.Generator().manual_seed(0)
    nnz, n = size, max(size // 10, 10)
    coo = torch.sparse_coo_tensor(torch.randint(0, n, (2, nnz), generator=g), torch.rand(nnz, generator=g), (n, n))
    a = coo.coalesce()
    b = torch.sparse_coo_tensor(
        torch.randint(0, n, (2, nnz), generator=g), torch.rand(nnz, generator=g), (n, n)
    ).coalesce()
    csr, wide, vector = a.to_sparse_csr(), torch.rand(n, 16, generator=g), torch.rand(n, generator=g)
    side = math.isqrt(size)
    dense = torch.where(torch.rand(side, side, generator=g) > 0.9, torch.rand(side, side, generator=g), 0.0)
    part = dense.to_sparse()
    hybrid = torch.sparse_coo_tensor(torch.randint(0, n, (1, n), generator=g), torch.rand(n, 16, generator=g), (n, 16))
    values = lambda t: t.values() if t.layout != torch.sparse_coo else t._values()  # noqa: E731
    rows: Rows = {
        "coalesce": (lambda t: values(t.coalesce()), coo),
        "coalesce hybrid": (lambda t: values(t.coalesce()), hybrid),
        "to_dense": (torch.Tensor.to_dense, part),
        "to_dense csr": (torch.Tensor.to_dense, part.to_sparse_csr()),
        "to_sparse": (lambda t: values(t.to_sparse()), dense),
        "to_sparse_csr of dense": (lambda t: values(t.to_sparse_csr()), dense),
        "coo to csr": (lambda t: t.to_sparse_csr().crow_indices(), a),
        "csr to coo": (lambda t: values(t.to_sparse_coo()), csr),
        "csr to csc": (lambda t: values(t.to_sparse_csc()), csr),
        "transpose and coalesce": (lambda t: values(t.t().coalesce()), a),
        "sparse_mask": (lambda t, k: values(t.sparse_mask(k)), dense, part),
        "sparse_mask of sparse": (lambda t, k: values(t.sparse_mask(k)), a, b),
        "mm": (torch.sparse.mm, a, wide),
        "mm csr": (torch.mm, csr, wide),
        "mv": (torch.mv, a, vector),
        "mv csr": (torch.mv, csr, vector),
        "addmm": (lambda t, s: torch.sparse.addmm(t, s, t), wide, a),
        "addmm csr": (torch.addmm, wide, csr, wide),
        "mul by sparse": (lambda t, s: values(t * s), a, b),
        "mul by dense": (lambda t, s: values(t * s), part, dense),
        "mul by scalar": (lambda t: values(t * 2.0), a),
        "mul csr by scalar": (lambda t: values(t * 2.0), csr),
        "add sparse": (lambda t, s: values(t + s), a, b),
        "add sparse, coalesced": (lambda t, s: values((t + s).coalesce()), a, b),
        "add csr": (lambda t, s: values(t + s), csr, b.to_sparse_csr()),
        "add to dense": (lambda t, s: t + s, dense, part),
        "sampled_addmm": (lambda s, t: values(torch.sparse.sampled_addmm(s, t, t.t())), csr, wide),
        "sum": (torch.sparse.sum, a),
        "sum, dim 0": (lambda t: values(torch.sparse.sum(t, 0)), a),
        "sum, dim 1": (lambda t: values(torch.sparse.sum(t, 1)), a),
        "softmax": (lambda t: values(torch.sparse.softmax(t, 1)), a),
        "mm reduce mean": (lambda s, t: torch.sparse.mm(s, t, "mean"), csr, wide),
        "mm reduce amax": (lambda s, t: torch.sparse.mm(s, t, "amax"), csr, wide),
        "relu": (lambda t: values(torch.relu(t)), a),
        "index_select": (lambda t, i: values(t.index_select(0, i)), a, torch.arange(0, n, 7)),
        "norm": (lambda t: t.norm(), a),
    }  # fmt: skip
    if size <= 100_000:
        rows["mm of sparse"] = (lambda t, s: values(torch.sparse.mm(t, s)), a, b)
        rows["mm of sparse, csr"] = (
            lambda t, s: torch.mm(t, s).values().sum(),
            csr,
            b.to_sparse_csr(),
        )  # MKL does not sort
    yield from _cases(f"sparse {size:.0e}", rows)
