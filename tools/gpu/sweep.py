"""Calls that launch the kernels which the test suite's draws reach by chance only: every element type at the sizes of each form.

`tools.gpu.record` runs this file after the suite. Nothing is compared here: the replay compares each launch with what the CPU
device wrote, and the suite compares the CPU device with torch. A call of a type that its operator refuses is skipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.manifest import TORCH_TYPES, overload, rows

from tools.codegen.types import TYPES
from tools.gpu.sweep_calls import (
    COMPLEX,
    EVERY,
    FLOATS,
    INTS,
    ORDERED,
    RAW,
    SORTED,
    UNSIGNED,
    Case,
    Cases,
    numbers,
    places,
    run,
)

aten = torch.ops.aten
CASES = Cases()


def long(t: str) -> Iterator[torch.Tensor]:
    """Rows and columns that one team reduces, and that several share."""
    yield from (numbers(70, 300, t=t), numbers(3, 40_000, t=t))


# Reductions
REDUCTIONS: dict[str, tuple[list[str], Callable[..., Any]]] = {
    "amax": (ORDERED, torch.amax),
    "amin": (ORDERED, torch.amin),
    "argmax": (ORDERED[:-1], torch.argmax),
    "argmin": (ORDERED[:-1], torch.argmin),
    "sum": ([*ORDERED, *COMPLEX], torch.sum),
    "sum_f32": (["f16", "bf16"], lambda x, *d: torch.sum(x, *(d or ([],)), dtype=torch.float32)),
    "nansum": ([*FLOATS, *COMPLEX], torch.nansum),
    "nansum_f32": (["f16", "bf16"], lambda x, *d: torch.nansum(x, *(d or (None,)), dtype=torch.float32)),
    "any": ([*ORDERED, *UNSIGNED, *COMPLEX], torch.any),
    "count_nonzero": ([*ORDERED, *COMPLEX], torch.count_nonzero),
    "hash": (ORDERED, lambda x, *d: torch.hash_tensor(x, *(d or ([],)))),
    "logsumexp": (FLOATS, lambda x, *d: torch.logsumexp(x, *(d or ([0, 1],)))),
    "var": (FLOATS, lambda x, *d: torch.var(x, *(d or (None,)))),
    **{
        f"norm_{p}": (
            FLOATS + (["c64", "c128"] if p == 2 else []),
            lambda x, *d, p=p: torch.linalg.vector_norm(x, p, *d),
        )
        for p in (0.5, 1, 2, float("inf"), float("-inf"))
    },
    "norm_2_f32": (["f16", "bf16"], lambda x, *d: torch.linalg.vector_norm(x, 2, *(d or (None,)), dtype=torch.float32)),
}


@pytest.mark.parametrize(
    ("call", "t"), [pytest.param(f, t, id=f"{n}-{t}") for n, (types, f) in REDUCTIONS.items() for t in types]
)
def test_reduction(call: Callable[..., Any], t: str) -> None:
    for x in (*long(t), numbers(40_000, 3, t=t)):
        run(lambda: call(x, 0), lambda: call(x, 1), lambda: call(x))


@CASES.of([*ORDERED, *COMPLEX])
def prod(t: str) -> None:
    for x in (*long(t), numbers(40_000, 3, t=t)):
        run(lambda: torch.prod(x, 0), lambda: torch.prod(x, 1), lambda: torch.prod(x))
        run(lambda: torch.prod(x, 0, dtype=torch.float32), lambda: torch.prod(x, dtype=torch.float32))


@CASES.of(ORDERED)
def aminmax(t: str) -> None:
    for x in (*long(t), numbers(40_000, 3, t=t)):
        run(lambda: torch.aminmax(x, dim=0), lambda: torch.aminmax(x, dim=1), lambda: torch.aminmax(x))


# Scans, sorts, selections
@CASES.of([*ORDERED, *COMPLEX])
def scans(t: str) -> None:
    for x in (numbers(40, 300, t=t), numbers(2, 20_000, t=t), numbers(300, 40, t=t)):
        for f in (torch.cumsum, torch.cumprod, torch.cummax, torch.cummin, torch.logcumsumexp):
            run(lambda: f(x, 0), lambda: f(x, 1))
        run(lambda: torch.cumsum(x, 1, dtype=x.dtype), lambda: torch.cumsum(x, 0, dtype=x.dtype))
        run(lambda: torch.cumprod(x, 1, dtype=x.dtype), lambda: torch.cumprod(x, 0, dtype=x.dtype))


@CASES.of(SORTED)
def sorts(t: str) -> None:
    for shape in ((50, 9), (50, 100), (20, 1500), (2, 20_000)):
        x = numbers(*shape, t=t, low=-99, high=99)
        run(lambda: torch.sort(x, stable=True), lambda: torch.argsort(x, descending=True))
        for k in (3, 12, 40):
            run(lambda: torch.topk(x, min(k, x.shape[1])))
        run(lambda: x.median(1), lambda: x.nanmedian(), lambda: x.kthvalue(2), lambda: x.mode(1))
        run(
            lambda: torch.unique(x, return_inverse=True, return_counts=True),
            lambda: torch.unique(x[:, :4], dim=0),
        )
        run(lambda: torch.unique_consecutive(x, return_counts=True))


@CASES.of(SORTED)
def searches(t: str) -> None:
    x, y = numbers(3000, t=t, low=0, high=90), numbers(400, t=t, low=0, high=90)
    run(lambda: torch.searchsorted(x.sort().values, y), lambda: torch.bucketize(y, x[:50].sort().values))
    run(lambda: torch.isin(y, x), lambda: torch.isin(y, x[:5]))
    run(lambda: torch.histc(x.abs()), lambda: torch.histogram(x, 20), lambda: torch.bincount(x))


# Scatters
@CASES.of(EVERY)
def columns(t: str) -> None:
    for shape, many in (((300, 40), 500), ((40, 300), 500), ((4, 5), 9), ((2000, 1), 3000)):
        x, y = numbers(*shape, t=t), numbers(many, shape[1], t=t)
        rows_ = places(many, below=shape[0])
        each = places(many, shape[1], below=shape[0])
        run(lambda: x.clone().index_add_(0, rows_, y), lambda: x.clone().scatter_add_(0, each, y))
        run(lambda: x.clone().index_put_((rows_,), y, accumulate=True), lambda: x.clone().scatter_(0, each, y))
        run(lambda: x.clone().index_copy_(0, rows_, y), lambda: x.clone().index_fill_(0, rows_, 1))
        for how in ("sum", "prod", "amax", "amin", "mean"):
            run(
                lambda: x.clone().scatter_reduce_(0, each, y, how),
                lambda: x.clone().index_reduce_(0, rows_, y, how),
            )
            run(lambda: x.t().clone().scatter_reduce_(1, each.t(), y.t(), how))
        run(lambda: x.t().clone().index_add_(1, rows_, y.t()), lambda: x.t().clone().scatter_(1, each.t(), y.t()))
    wide, near = numbers(1100, 40, t=t), places(1100, 20, below=40)
    for how in ("sum", "prod", "amax", "amin"):
        run(lambda: wide.clone().scatter_reduce_(1, near, wide[:, :20].contiguous(), how))
    run(
        lambda: wide.clone().scatter_(1, near, wide[:, :20].contiguous()),
        lambda: wide.clone().scatter_add_(1, near, wide[:, :20].contiguous()),
    )
    z = numbers(8, 6, 50, t=t)
    across = places(8, 30, 50, below=6)
    run(
        lambda: z.clone().scatter_(1, across, numbers(8, 30, 50, t=t)),
        lambda: z.clone().scatter_add_(1, across, numbers(8, 30, 50, t=t)),
    )
    for how in ("prod", "amax", "amin"):
        run(lambda: z.clone().scatter_reduce_(1, across, numbers(8, 30, 50, t=t), how))
        run(lambda: z.mT.clone().scatter_reduce_(2, across.mT, numbers(8, 30, 50, t=t).mT, how))


@CASES.of(FLOATS)
def segments(t: str) -> None:
    x = numbers(60, 7, t=t).requires_grad_()
    lengths = torch.tensor([20, 0, 30, 10]).xpu()
    for how in ("sum", "mean", "max", "min", "prod"):
        run(lambda: torch.segment_reduce(x, how, lengths=lengths, axis=0).sum().backward())


# Copies and casts
@CASES.of(EVERY)
def casts(t: str) -> None:
    x, y = numbers(1000, t=t, low=0, high=3), numbers(4096, t=t, low=0, high=3)
    for to in EVERY:
        run(lambda: x.to(TORCH_TYPES[to], copy=True), lambda: y.to(TORCH_TYPES[to], copy=True))


@CASES.of([*RAW, "u32", "u64"])
def layouts(t: str) -> None:
    x = numbers(30, 40, 50, t=t)
    run(lambda: x.mT.contiguous(), lambda: x.permute(2, 1, 0).contiguous(), lambda: x[:, ::2].contiguous())
    run(lambda: x[..., ::3].contiguous(), lambda: x.flip(2), lambda: x[:, :1].expand(30, 40, 50).contiguous())
    run(lambda: x[..., 0].fill_(1), lambda: x[::2, ::2, ::2].fill_(1), lambda: torch._foreach_zero_([x, x[0]]))
    run(lambda: torch._foreach_copy_([x.clone(), x[0].clone()], [x, x[0]]))
    mask = numbers(30, 40, 50, t="b8")
    run(lambda: x.masked_select(mask), lambda: x.masked_scatter(mask, x.flatten()), lambda: x.nonzero())
    run(lambda: torch._assert_async(x[0, 0, :1]), lambda: x[mask], lambda: x.clone().masked_fill_(mask, 1))
    run(lambda: F.pad(x[None], (3, 2, 1, 4), mode="reflect"), lambda: F.pad(x[None], (3, 2, 1, 4), mode="replicate"))
    run(lambda: F.unfold(x[:, None], 3), lambda: torch.tril(x), lambda: torch.triu(x))
    run(
        lambda: x.index_put_((places(20, below=30), places(20, below=40)), x[0, :20]),
        lambda: x[places(20, below=30), places(20, below=40)],
    )


@CASES.of(EVERY)
def windows(t: str) -> None:
    run(lambda: F.fold(numbers(2, 36, 25, t=t), (6, 7), (2, 3)), lambda: F.unfold(numbers(2, 3, 6, 7, t=t), 3))
    run(lambda: aten.unfold_backward(numbers(5, 7, 3, t=t), [5, 30], 1, 3, 4))
    x, mask = numbers(70, 8, t=t), numbers(70, 8, t="b8")
    run(
        lambda: x.masked_scatter(mask, numbers(560, t=t)),
        lambda: torch._foreach_copy_([x.clone()], [x]),
        lambda: torch.conj_physical(x, out=x.clone()),
    )
    run(lambda: torch._foreach_max([x, x[0]]))
    for mode in ("reflection", "replication"):
        for n in (1, 2, 3):
            inner, pad = (2, 3, *(5, 6, 7)[:n]), [1, 2] * n
            grad = tuple(s if i < 2 else s + 3 for i, s in enumerate(inner))
            run(lambda: getattr(aten, f"{mode}_pad{n}d_backward")(numbers(*grad, t=t), numbers(*inner, t=t), pad))


# Products, convolutions, sparse
@CASES.of([*INTS, *FLOATS, *COMPLEX])
def products(t: str) -> None:
    a, b = numbers(9, 20, t=t), numbers(20, 33, t=t)
    run(
        lambda: a @ b,
        lambda: a[:1] @ b,
        lambda: a[0] @ b,
        lambda: a[0].dot(a[1]),
        lambda: a[:, ::2] @ b[::2],
        lambda: torch.vdot(a[0], a[1]),
    )
    run(
        lambda: torch.bmm(a[None].expand(4, -1, -1), b[None].expand(4, -1, -1)),
        lambda: torch.addmm(b[0], a, b),
        lambda: torch.addmv(a[:, 0], a, a[0]),
    )
    run(
        lambda: numbers(5000, t=t).dot(numbers(5000, t=t)),
        lambda: torch.cross(numbers(40, 3, t=t), numbers(40, 3, t=t), dim=1),
    )


@CASES.of([*INTS, *FLOATS, *COMPLEX])
def convolutions(t: str) -> None:
    x, w = numbers(2, 4, 9, 9, t=t), numbers(6, 4, 3, 3, t=t)
    run(
        lambda: F.conv2d(x, w),
        lambda: F.conv2d(x, w[:, :2], groups=2),
        lambda: F.conv_transpose2d(x, w.transpose(0, 1)),
        lambda: F.conv2d(x, w, dilation=(2, 1), stride=2),
    )
    grad = numbers(2, 6, 7, 7, t=t)
    run(
        lambda: aten.convolution_backward(grad, x, w, [6], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    )
    run(lambda: F.conv3d(numbers(1, 2, 5, 5, 5, t=t), numbers(3, 2, 2, 2, 2, t=t)), lambda: F.conv1d(x[0], w[:, :, 0]))
    run(lambda: F.conv2d(x[:, :, :, ::2], w), lambda: F.conv2d(x, w, padding=1))


@CASES.of([*INTS, *FLOATS, *COMPLEX])
def compressed(t: str) -> None:
    a, b = numbers(30, 40, t=t) * (numbers(30, 40, t="f32") > 1.5), numbers(40, 33, t=t)
    csr, coo = a.to_sparse_csr(), a.to_sparse()
    run(
        lambda: csr @ b,
        lambda: csr @ b[:, :1],
        lambda: csr @ b[:, :9],
        lambda: coo @ b[:, :9],
        lambda: csr @ b[:, 0],
        lambda: coo @ b,
        lambda: (coo + coo).coalesce(),
        lambda: csr + csr,
    )
    run(
        lambda: csr @ csr.transpose(0, 1).to_sparse_csr(),
        lambda: coo @ coo.t(),
        lambda: torch.sparse.sum(csr, 1, dtype=csr.dtype),
        lambda: torch.sparse.sum(coo, 1),
    )
    run(
        lambda: torch._sparse_csr_sum(csr, [1], True),
        lambda: torch._sparse_csr_sum(csr, [0], True),
        lambda: torch._sparse_csr_prod(csr, [1], True),
    )
    run(
        lambda: a.to_sparse_bsr((5, 4)),
        lambda: numbers(30, 40, t=t).sparse_mask(coo),
        lambda: torch.sparse.sampled_addmm(csr, numbers(30, 8, t=t), numbers(8, 40, t=t)),
    )
    for how in ("sum", "mean", "amax", "amin"):
        run(lambda: torch.sparse.mm(csr, b, how))
    double = torch.sparse_coo_tensor(
        torch.cat([coo.coalesce().indices()] * 2, 1), torch.cat([coo.coalesce().values()] * 2), coo.shape
    )
    run(lambda: double.coalesce(), lambda: torch.sparse.softmax(coo, 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "t"), CASES.params())
def test_case(call: Case, t: str) -> None:
    call(t)


# Pointwise rows
def argument(row: dict[str, Any], arg: Any, at: int, t: str, n: int, turn: int) -> Any:
    kind, domain, test = str(arg.type), row["test"]["domain"], row["test"]
    if isinstance(domain, dict):
        domain = domain.get("abcdef"[at : at + 1]) or domain.get(arg.name)
    if "Tensor" in kind:
        low, high = domain or (-3, 3)
        kind_of = row["inputs"].get(arg.name, t) if isinstance(row.get("inputs"), dict) else t
        x = numbers(
            n,
            t=kind_of if kind_of in TYPES else t,
            low=max(low, -3),
            high=min(high, 3) if high > max(low, -3) else low + 1,
        )
        return [x] if "[]" in kind else x
    if arg.name in test["sample"]:
        value = test["sample"][arg.name]
        return value[turn % len(value)] if isinstance(value, list) else value
    if arg.has_default_value() and "number" not in kind and "Scalar" not in kind:
        return arg.default_value
    return True if "bool" in kind else 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("row", "t"),
    [pytest.param(r, t, id=f"{r['op']}-{t}") for r in rows() if r["kind"] == "pointwise" for t in r["types"]],
)
def test_pointwise(row: dict[str, Any], t: str) -> None:
    call = overload(row["functional"])
    for n, turn in itertools.product((1000, 8192), range(3)):
        args = [argument(row, a, i, t, n, turn) for i, a in enumerate(call._schema.arguments) if not a.kwarg_only]
        kwargs = {
            a.name: argument(row, a, 9, t, n, turn)
            for a in call._schema.arguments
            if a.kwarg_only and not a.is_out and not a.has_default_value()
        }
        run(lambda: call(*args, **kwargs))
        if len(args) > 1 and isinstance(args[1], torch.Tensor):
            run(lambda: call(args[0], args[1][:1], *args[2:], **kwargs))
