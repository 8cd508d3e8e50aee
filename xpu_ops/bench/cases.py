"""The benchmark's rows: one for every pointwise row of the manifest, and the shapes that models use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from xpu_ops._paths import manifest

from . import (
    compiled,
    compiled_models,
    element_types,
    families,
    fused,
    generation,
    layouts,
    linalg,
    process,
    products,
    selection,
    triton,
)
from .core import Case, with_gradients
from .models import models


def host() -> Iterator[Case]:
    """Host overhead: one element, so that only the path to the launch counts."""
    one = torch.ones(1)
    thousand = torch.rand(1000)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(10):
            x = (x * 1.0001).relu()
        return x

    yield Case("host", "add, 1 element", torch.add, (one, one), inner=1000)
    yield Case("host", "mul_, 1 element", lambda x: x.mul_(1.0), (one.clone(),), inner=1000, check=False)
    yield Case("host", "relu, 1 element", torch.relu, (one,), inner=1000)
    yield Case("host", "empty_like", torch.empty_like, (one,), inner=1000, check=False)
    yield Case("host", "view", lambda x: x.view(1, 1), (one,), inner=1000)
    yield Case("host", "20-op chain of 1000 elements", chain, (thousand,), inner=50)


def pointwise(size: int) -> Iterator[Case]:
    """Every pointwise row of the manifest in f32, or i32 where it has no floats, at one size; each mode is a row."""
    for row in manifest()["rows"]:
        if row["kind"] == "pointwise" and row["types"]:
            modes = {k: v for k, v in row["test"]["sample"].items() if isinstance(v, list) and isinstance(v[-1], str)}
            for choice in next(iter(modes.values()), [None]):
                yield _pointwise(row, size, dict.fromkeys(modes, choice))


def _pointwise(row: dict[str, Any], size: int, mode: dict[str, Any]) -> Case:
    base, _, overload = row["functional"].partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    generator = torch.Generator().manual_seed(0)
    args: list[Any] = []
    named: dict[str, Any] = {}
    tensors, elements = 0, 0
    test = row["test"]
    domain, sample = test["domain"], {**test["sample"], **mode}
    for arg in op._schema.arguments:
        if arg.is_out:
            continue
        if str(arg.type) in ("Tensor", "Optional[Tensor]"):
            span = domain.get("abcdef"[tensors], [-2, 2]) if isinstance(domain, dict) else domain or [-2, 2]
            n = size // 2 if test["args"].get(arg.name) == "half" else size
            value = torch.rand(n, generator=generator) * (span[1] - span[0]) + span[0]
            if row["inputs"].get(arg.name) in ("bool", "b8"):
                value = value > 0
            elif "f32" not in row["types"]:
                value = value.int()
            args.append(value)
            tensors, elements = tensors + 1, elements + n
            continue
        if arg.name in sample:
            choice = sample[arg.name]
            value = choice[0] if isinstance(choice, list) else choice
        elif arg.has_default_value():
            value = arg.default_value
        else:
            value = 1 if str(arg.type) in ("int", "SymInt") else True if str(arg.type) == "bool" else 0.5
            value = 1 if "f32" not in row["types"] else value
        if arg.kwarg_only:
            named[arg.name] = value
        else:
            args.append(value)
    outs = [a.name for a in op._schema.arguments if a.is_out]

    def call(*given: Any) -> Any:
        into = {name: torch.empty(0, device=given[0].device) for name in outs}
        return op(*given, **named, **into)

    name = row["op"] + "".join(f" {k}={v}" for k, v in mode.items())
    function = call if named or outs else op
    return Case(f"pointwise {size:.0e}", name, function, tuple(args), bytes_moved=4 * (elements + size))


def reductions(size: int) -> Iterator[Case]:
    side = int(size**0.5)
    x = torch.rand(side, side)
    for name, fn in {
        "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "var": torch.var, "argmax": torch.argmax,
        "sum dim=-1": lambda t: t.sum(-1), "sum dim=0": lambda t: t.sum(0), "max dim=-1": lambda t: t.max(-1),
        "norm": torch.linalg.vector_norm, "logsumexp dim=-1": lambda t: t.logsumexp(-1),
        "softmax dim=-1": lambda t: t.softmax(-1), "cumsum dim=-1": lambda t: t.cumsum(-1),
        "mean dim=-1": lambda t: t.mean(-1), "amax dim=-1": lambda t: t.amax(-1), "amax dim=0": lambda t: t.amax(0),
        "argmax dim=-1": lambda t: t.argmax(-1), "argmax dim=0": lambda t: t.argmax(0), "median": torch.median,
        "dot": lambda t: torch.dot(t.view(-1), t.view(-1)),
        "cumsum dim=0": lambda t: t.cumsum(0), "softmax dim=0": lambda t: t.softmax(0),
        "log_softmax dim=-1": lambda t: t.log_softmax(-1), "log_softmax dim=0": lambda t: t.log_softmax(0),
        "layer_norm": lambda t: F.layer_norm(t, t.shape[-1:]), "rms_norm": lambda t: F.rms_norm(t, t.shape[-1:]),
    }.items():  # fmt: skip
        whole = name.startswith(("softmax", "log_softmax", "cumsum", "layer_norm", "rms_norm"))  # writes as much
        yield Case(
            f"reduction {size:.0e}", name, fn, (x,), bytes_moved=0 if name == "median" else 4 * size * (1 + whole)
        )
    rows = torch.rand(size // 512, 512)
    for name in ("sum", "amax"):
        yield Case(
            f"reduction {size:.0e}", f"{name} of rows of 512", lambda t, n=name: getattr(t, n)(-1), (rows,),
            bytes_moved=4 * rows.numel(),
        )  # fmt: skip
    y = torch.rand(side, side)
    for name, loss in {"smooth_l1": F.smooth_l1_loss, "mse": F.mse_loss, "kl_div": F.kl_div}.items():
        yield Case(f"reduction {size:.0e}", name, loss, (x, y), bytes_moved=8 * size)


def copies(size: int) -> Iterator[Case]:
    side = int(size**0.5)
    x = torch.rand(side, side)
    section = f"copy {size:.0e}"
    yield Case(section, "clone", torch.clone, (x,), bytes_moved=8 * size)
    yield Case(section, "transpose", lambda t: t.t().contiguous(), (x,), bytes_moved=8 * size)
    yield Case(section, "f32 to bf16", lambda t: t.bfloat16(), (x,), bytes_moved=6 * size)
    yield Case(section, "cat", lambda t: torch.cat([t, t]), (x,), bytes_moved=16 * size)
    yield Case(section, "fill", torch.zeros_like, (x,), bytes_moved=4 * size)
    yield Case(section, "uniform", lambda t: t.clone().uniform_(), (x,), check=False)
    yield Case(section, "normal", lambda t: t.clone().normal_(), (x,), check=False)


def indexing() -> Iterator[Case]:
    g = torch.Generator().manual_seed(0)
    table, ids = torch.rand(30522, 768), torch.randint(0, 30522, (8192,), generator=g)
    square = torch.rand(4096, 4096)
    index = torch.randint(0, 4096, (4096, 4096), generator=g)
    yield Case("indexing", "embedding 30522x768, 8192 ids", F.embedding, (ids, table))
    yield Case("indexing", "gather 4096x4096", lambda x, i: x.gather(1, i), (square, index))
    yield Case(
        "indexing", "scatter_add 4096x4096", lambda x, i: torch.zeros_like(x).scatter_add_(1, i, x), (square, index)
    )
    yield Case("indexing", "topk 50 of 64x50257", lambda x: x.topk(50)[0], (torch.rand(64, 50257, generator=g),))
    yield Case("indexing", "sort 1e6", lambda x: x.sort()[0], (torch.rand(1_000_000, generator=g),))
    yield Case("indexing", "sort 1024x4096", lambda x: x.sort()[0], (torch.rand(1024, 4096, generator=g),))
    yield Case("indexing", "index_select 4096x4096", lambda x, i: x.index_select(0, i), (square, index[0]))
    yield Case(
        "indexing", "masked_select 1e7", lambda x: x.masked_select(x > 0.5), (torch.rand(10_000_000, generator=g),)
    )
    yield Case("indexing", "nonzero 1e7", torch.nonzero, (torch.rand(10_000_000, generator=g) > 0.5,))
    image = torch.rand(4, 3, 224, 224)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield Case("indexing", f"{mode} 4x3x224 to 512", lambda x, m=mode: F.interpolate(x, 512, mode=m), (image,))
    yield Case("indexing", "embedding_bag 1024 of 8", lambda i, t: F.embedding_bag(i.view(-1, 8), t), (ids, table))
    # As deformable attention calls it: heads as batch, 4 points per query.
    value, grid = torch.randn(16, 32, 64, 64), torch.rand(16, 1000, 4, 2, generator=g) * 2.2 - 1.1
    sample = lambda v, p: F.grid_sample(v, p, align_corners=False)  # noqa: E731
    yield Case("indexing", "grid_sample 16x32x64x64, 1000x4", sample, (value, grid))
    yield Case("indexing", "grid_sample 16x32x64x64, 1000x4 backward", with_gradients(sample), (value, grid))
    million, numbers = torch.rand(1_000_000, generator=g), torch.randint(0, 1_000_000, (1_000_000,), generator=g)
    edges = torch.rand(100_000, generator=g).sort()[0]
    yield Case("indexing", "searchsorted 1e6 in 1e5", torch.searchsorted, (edges, million))
    yield Case("indexing", "bucketize 1e6 in 100", torch.bucketize, (million, edges[::1000].contiguous()))
    yield Case("indexing", "isin 1e6 in 1e3", torch.isin, (numbers, numbers[:1000].clone()))
    yield Case("indexing", "unique 1e6", torch.unique, (numbers,))
    points = torch.rand(1000, 64, generator=g)
    yield Case("indexing", "cdist 1000x64", torch.cdist, (points, points))
    yield Case("indexing", "pdist 1000x64", torch.pdist, (points,))


def sampling() -> Iterator[Case]:
    rate = torch.rand(1_000_000) * 5 + 0.5
    rows = {
        "poisson": torch.poisson, "binomial": lambda r: torch.binomial(r.ceil(), r / 8),
        "gamma": torch._standard_gamma, "bernoulli": lambda r: torch.bernoulli(r / 8),
        "exponential": lambda r: torch.empty_like(r).exponential_(), "randperm": lambda r: torch.randperm(1_000_000, device=r.device),
        "multinomial": lambda r: torch.multinomial(r, 1000, replacement=True),
    }  # fmt: skip
    for name, fn in rows.items():
        yield Case("sampling 1e+06", name, fn, (rate,), check=False)


def normalization() -> Iterator[Case]:
    c = 64
    weight, bias, mean, var = torch.rand(c) + 0.5, torch.randn(c), torch.randn(c) / 10, torch.rand(c) + 0.5
    rows: dict[str, Callable[..., Any]] = {
        "batch_norm eval": lambda t, m, v, w, b: F.batch_norm(t, m, v, w, b),
        "batch_norm train": lambda t, m, v, w, b: F.batch_norm(t, None, None, w, b, training=True),
        "batch_norm backward": with_gradients(lambda t, w, b: F.batch_norm(t, None, None, w, b, training=True)),
        "group_norm": lambda t, m, v, w, b: F.group_norm(t, 8, w, b),
        "group_norm backward": with_gradients(lambda t, w, b: F.group_norm(t, 8, w, b)),
        "instance_norm": lambda t, m, v, w, b: F.instance_norm(t, None, None, w, b),
    }
    for layout, fmt in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        for side, batch in ((112, 4), (14, 16)):
            x = torch.randn(batch, c if side > 14 else 4 * c, side, side).contiguous(memory_format=fmt)
            p = [t.repeat(x.shape[1] // c) for t in (mean, var, weight, bias)]
            for name, fn in rows.items():
                args = (x, *p[2:]) if "backward" in name else (x, *p)
                label = f"{name} {layout} {'x'.join(map(str, x.shape))}"
                yield Case("norm", label, fn, args, bytes_moved=0 if "backward" in name else 8 * x.numel())
    for tokens, dim in ((4096, 768), (512, 4096)):
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(tokens, dim).to(dtype)
            w, b = torch.rand(dim).to(dtype), torch.rand(dim).to(dtype)
            name = f"{tokens}x{dim} {str(dtype).removeprefix('torch.')}"
            moved = 2 * x.numel() * x.element_size()
            layer = lambda t, w, b, d=dim: F.layer_norm(t, (d,), w, b)  # noqa: E731
            yield Case("norm", f"layer_norm {name}", layer, (x, w, b), bytes_moved=moved)
            yield Case("norm", f"layer_norm backward {name}", with_gradients(layer), (x, w, b))
            yield Case(
                "norm", f"rms_norm {name}", lambda t, w, d=dim: F.rms_norm(t, (d,), w), (x, w), bytes_moved=moved
            )
    for shape, d in (
        ((4096, 1024), -1),
        ((128, 50257), -1),
        ((64, 21, 64, 64), 1),
        ((12 * 512, 512), -1),
        ((8192, 64), -1),
    ):
        x = torch.randn(shape)
        for name, fn in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
            label = f"{name} {'x'.join(map(str, shape))} dim {d}"
            yield Case("softmax", label, lambda t, f=fn, d=d: f(t, d), (x,), bytes_moved=8 * x.numel())
            yield Case("softmax", f"{label} backward", with_gradients(lambda t, f=fn, d=d: f(t, d)), (x,))


def pooling() -> Iterator[Case]:
    rows: dict[str, Callable[..., Any]] = {
        "max_pool2d 3/2": lambda t: F.max_pool2d(t, 3, 2, 1),
        "max_pool2d 2/2": lambda t: F.max_pool2d(t, 2),
        "max_pool2d 3/2 indices": lambda t: F.max_pool2d(t, 3, 2, 1, return_indices=True)[0],
        "avg_pool2d 3/2": lambda t: F.avg_pool2d(t, 3, 2, 1),
        "avg_pool2d 2/2": lambda t: F.avg_pool2d(t, 2),
        "adaptive_avg 1": lambda t: F.adaptive_avg_pool2d(t, 1),
        "adaptive_avg 7": lambda t: F.adaptive_avg_pool2d(t, 7),
        "adaptive_max 7": lambda t: F.adaptive_max_pool2d(t, 7),
    }
    lines = torch.randn(64, 192, 1024)
    yield Case("pooling", "max_pool1d 4/4", lambda t: F.max_pool1d(t, 4), (lines,), bytes_moved=4 * lines.numel())
    for layout, fmt in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
        x = torch.randn(4, 64, 112, 112).contiguous(memory_format=fmt)
        for name, fn in rows.items():
            yield Case("pooling", f"{name} {layout}", fn, (x,), bytes_moved=4 * x.numel())
            yield Case("pooling", f"{name} {layout} backward", with_gradients(fn), (x,))
    x = torch.randn(2, 32, 16, 56, 56)
    yield Case("pooling", "max_pool3d 2/2", lambda t: F.max_pool3d(t, 2), (x,))
    yield Case("pooling", "avg_pool3d 3/2", lambda t: F.avg_pool3d(t, 3, 2, 1), (x,))


def sparse() -> Iterator[Case]:
    """Ten elements per row of a square matrix."""
    n, nnz = 100_000, 1_000_000
    coo = torch.sparse_coo_tensor(torch.randint(0, n, (2, nnz)), torch.rand(nnz), (n, n))
    merged = coo.coalesce()
    csr = merged.to_sparse_csr()
    yield Case("sparse", "coalesce 1e6", lambda t: t.coalesce().values(), (coo,))
    for columns in (1, 64):
        dense = torch.rand(n, columns)
        yield Case("sparse", f"csr 1e6 @ dense {columns}", torch.mm, (csr, dense), flops=2 * nnz * columns)
        yield Case("sparse", f"coo 1e6 @ dense {columns}", torch.sparse.mm, (merged, dense), flops=2 * nnz * columns)
    yield Case("sparse", "coo to csr 1e6", lambda t: t.to_sparse_csr().crow_indices(), (merged,))
    weight, ids = torch.rand(n, 64), torch.randint(0, n, (8192,))
    grad = torch.sparse_coo_tensor(ids.unsqueeze(0), torch.rand(8192, 64), (n, 64))
    yield Case("sparse", "embedding update 8192x64", lambda w, g: w.add_(g, alpha=-1e-9), (weight, grad))


SIZES = {"core": [10**6], "full": [10**3, 10**5, 10**6, 16 * 10**6], "sample": [10**3, 10**5], "types": []}
SELECTION_SIZES: dict[str, list[int]] = {"core": [], "full": [10**3, 10**5, 10**7], "sample": [10**3]}


def cases(level: str) -> Iterator[Case]:
    """Every row of a level: core in a few minutes, full with all sizes and models, sample every operator at one size or two,
    types common operators of every element type."""
    if level == "types":
        yield from element_types.cases()
        return
    full = level == "full"
    yield from host()
    for size in SIZES[level]:
        yield from pointwise(size)
    for size in SIZES["core"] if level == "sample" else [10**6, 16 * 10**6]:
        yield from reductions(size)
        yield from copies(size)
    yield from layouts.cases()
    yield from indexing()
    for size in SELECTION_SIZES[level]:
        yield from selection.lines(size)
        yield from selection.planes(size)
        yield from selection.sparse(size)
    yield from products.matmul(full)
    yield from products.decode()
    yield from products.convolution(full)
    yield from products.attention(full)
    yield from normalization()
    yield from pooling()
    yield from sparse()
    yield from sampling()
    yield from linalg.cases(level)
    yield from fused.cases()
    if level != "core":
        yield from families.cases()
    if level != "sample":
        yield from generation.cases(full)
        yield from compiled.cases()
        yield from triton.cases()
        yield from process.scaling()
    if full:
        yield from models()
        yield from compiled_models.cases()
