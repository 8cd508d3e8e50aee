"""Reductions against torch's CPU: every layout the planner tells apart, dimensions, types, nan, empty, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.compare import assert_same, reference
from torch.utils._pytree import tree_leaves

import xpu_ops

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]
TOLERANCE = {
    torch.bfloat16: (2e-2, 1e-2),
    torch.float16: (4e-3, 1e-3),
    torch.float32: (2e-5, 2e-5),
    torch.complex64: (2e-5, 2e-5),
}

# name -> (shape, transformation). Chosen so that each branch of the plan is taken: short and long rows, many and few
# columns, splits, gathers, more separate dimensions than a kernel takes.
LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]] = {
    "scalar": ((), lambda t: t),
    "one": ((1,), lambda t: t),
    "vector": ((1000,), lambda t: t),
    "long": ((100003,), lambda t: t),
    "rows": ((37, 129), lambda t: t),
    "short_rows": ((611, 21), lambda t: t),
    "tiny_rows": ((500, 5), lambda t: t),
    "wide": ((3, 5000), lambda t: t),
    "tall": ((5000, 3), lambda t: t),
    "batch": ((7, 33, 70), lambda t: t),
    "batch_few": ((9, 200, 5), lambda t: t),
    "batch_narrow": ((9, 200, 21), lambda t: t),
    "batch_narrow_steps": ((5, 3, 40, 60), lambda t: t[:, :, ::3, 2:58]),
    "transposed": ((90, 77), lambda t: t.t()),
    "steps": ((64, 90), lambda t: t[1::2, 3::3]),
    "expanded": ((1, 40), lambda t: t.expand(30, 40)),
    "channels_last": ((2, 6, 5, 7), lambda t: t.contiguous(memory_format=torch.channels_last)),
    "permuted": ((3, 4, 5, 6, 7), lambda t: t.permute(2, 0, 4, 1, 3)),
    "offset": ((50, 20), lambda t: t[7:, 3:]),
    "many_dims": ((2,) * 12, lambda t: t),
}


def make(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    gen = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=gen) > 0.4
    if dtype.is_complex:
        return torch.complex(torch.randn(shape, generator=gen), torch.randn(shape, generator=gen)).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=gen).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -9, 10, shape, generator=gen).to(dtype)


def place(layout: str, dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The same tensor on CPU and xpu, with the same strides."""
    shape, change = LAYOUTS[layout]
    base = make(shape, dtype, seed)
    return change(base), change(base.to("xpu"))


def dims_of(ndim: int) -> list[tuple[int, ...]]:
    if ndim > 5:
        return [(0,), tuple(range(0, ndim, 2)), tuple(range(1, ndim, 2)), tuple(range(ndim))]
    singles = [(d,) for d in range(ndim)]
    pairs = list(itertools.combinations(range(ndim), 2))
    return singles + pairs + ([tuple(range(ndim))] if ndim > 2 else [])


def check(
    got: Any, want: Any, rtol: float | None = None, atol: float = 0, wide: Callable[[], Any] | None = None
) -> None:
    """`wide` gives the reference in double, for where the CPU's rounding depends on the machine."""
    for g, w in zip(tree_leaves(got), tree_leaves(want), strict=True):
        assert not isinstance(w, torch.Tensor) or g.stride() == w.stride(), (g.stride(), w.stride())
    if isinstance(want, torch.Tensor) and rtol is None:
        rtol, atol = TOLERANCE.get(want.dtype, (1e-7, 1e-7))
    tol = None if rtol is None else (rtol, atol)
    assert_same(got, want, tol=tol, reference=wide, accumulates=True)


def compare(fn: Callable[..., Any], cpu: torch.Tensor, xpu: torch.Tensor, **tol: float) -> None:
    """Both sides give the same, or both raise."""
    try:
        want = fn(cpu)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        with pytest.raises(type(error)):
            fn(xpu)
        return
    with xpu_ops.fallback.forbid():
        got = fn(xpu)
    check(got, want, wide=lambda: reference(fn, cpu), **tol)


OPS: dict[str, Callable[..., Any]] = {
    "sum": lambda t, d, k: t.sum(d, k),
    "mean": lambda t, d, k: t.mean(d, k),
    "nansum": lambda t, d, k: t.nansum(d, k),
    "amax": lambda t, d, k: t.amax(d, k),
    "amin": lambda t, d, k: t.amin(d, k),
    "all": lambda t, d, k: torch.all(t, d, k),
    "any": lambda t, d, k: torch.any(t, d, k),
    "count_nonzero": lambda t, d, k: torch.count_nonzero(t, d),
    "var": lambda t, d, k: torch.var(t, d, correction=1, keepdim=k),
    "std_mean": lambda t, d, k: torch.std_mean(t, d, correction=0, keepdim=k),
    "norm2": lambda t, d, k: torch.linalg.vector_norm(t, 2, d, k),
    "logsumexp": lambda t, d, k: torch.logsumexp(t, d, k),
}
ONE_DIM_OPS: dict[str, Callable[..., Any]] = {
    "prod": lambda t, d, k: t.prod(d, k),
    "max": lambda t, d, k: t.max(d, k),
    "min": lambda t, d, k: t.min(d, k),
    "argmax": lambda t, d, k: t.argmax(d, k),
    "argmin": lambda t, d, k: t.argmin(d, k),
    "aminmax": lambda t, d, k: torch.aminmax(t, dim=d, keepdim=k),
}
FULL_OPS: dict[str, Callable[..., Any]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "prod": torch.prod,
    "max": torch.max,
    "min": torch.min,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "aminmax": torch.aminmax,
    "all": torch.all,
    "any": torch.any,
    "count_nonzero": torch.count_nonzero,
    "var": torch.var,
    "std": torch.std,
    "norm": torch.norm,
}


def small_values(op: str, t: torch.Tensor) -> torch.Tensor:
    """Products of many normal values underflow to a comparison of zeros; keep them near one."""
    return t if op != "prod" or not t.is_floating_point() else t * 0.05 + 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", OPS)
def test_layouts(op: str, layout: str) -> None:
    cpu, xpu = place(layout, torch.float32)
    for dims, keep in itertools.product(dims_of(cpu.ndim), (False, True)):
        compare(lambda t: OPS[op](t, dims, keep), cpu, xpu, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ONE_DIM_OPS)
def test_layouts_one_dim(op: str, layout: str) -> None:
    cpu, xpu = place(layout, torch.float32)
    cpu, xpu = (small_values(op, t) for t in (cpu, xpu))
    for dim, keep in itertools.product(range(-1, cpu.ndim) if cpu.ndim <= 5 else (0, 5, 11), (False, True)):
        compare(lambda t: ONE_DIM_OPS[op](t, dim, keep), cpu, xpu, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", FULL_OPS)
def test_layouts_full(op: str, layout: str) -> None:
    cpu, xpu = place(layout, torch.float32)
    cpu, xpu = (small_values(op, t) for t in (cpu, xpu))
    compare(FULL_OPS[op], cpu, xpu, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX)
@pytest.mark.parametrize("op", OPS)
def test_types(op: str, dtype: torch.dtype) -> None:
    for layout in ("rows", "transposed", "batch_few"):
        cpu, xpu = place(layout, dtype)
        for dims in ((0,), (1,), (0, 1)):
            if op == "norm2" and dtype in (torch.bfloat16, torch.float16):
                compare(lambda t: OPS[op](t, dims, False), cpu, xpu, rtol=2e-2, atol=1e-2)
            elif op == "nansum" and dtype.is_complex:
                pass  # test_nansum_of_complex_numbers
            elif op in ("sum", "mean", "nansum") and dtype in (torch.bfloat16, torch.float16):
                # torch's CPU rounds partial sums to the type; the sum in float is the better reference.
                want = OPS[op](cpu.double(), dims, False).to(dtype)
                check(OPS[op](xpu, dims, False), want)
            else:
                compare(lambda t: OPS[op](t, dims, False), cpu, xpu)


@pytest.mark.parametrize("dtype", FLOATS + INTS + COMPLEX)
@pytest.mark.parametrize("op", ONE_DIM_OPS)
def test_types_one_dim(op: str, dtype: torch.dtype) -> None:
    for layout in ("short_rows", "transposed", "tall"):
        cpu, xpu = place(layout, dtype)
        if op == "prod" and dtype in (torch.bfloat16, torch.float16):
            continue  # see test_prod_small_floats
        if op == "prod" and dtype.is_complex:
            cpu, xpu = cpu[:21, :21], xpu[:21, :21]
        for dim in range(cpu.ndim):
            compare(
                lambda t: ONE_DIM_OPS[op](t, dim, False),
                cpu,
                xpu,
                **({"rtol": 1e-4, "atol": 1e-4} if op == "prod" else {}),
            )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_prod_small_floats(dtype: torch.dtype) -> None:
    cpu = (make((9, 300), torch.float32) * 0.02 + 1).to(dtype)
    for dim in (0, 1):
        check(cpu.to("xpu").prod(dim), cpu.double().prod(dim).to(dtype))


@pytest.mark.parametrize("source", FLOATS[:3] + INTS)
@pytest.mark.parametrize(
    "result", [torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.complex64]
)
def test_dtype_argument(source: torch.dtype, result: torch.dtype) -> None:
    cpu, xpu = place("short_rows", source)
    if source.is_floating_point and not (result.is_floating_point or result.is_complex):
        cpu, xpu = cpu.round(), xpu.round()
    compare(lambda t: t.sum(1, dtype=result), cpu, xpu, rtol=2e-5, atol=2e-3)
    compare(lambda t: t.sum(dtype=result), cpu, xpu, rtol=2e-5, atol=2e-3)
    compare(lambda t: t[:, :3].prod(1, dtype=result), cpu, xpu, rtol=2e-5, atol=2e-3)
    compare(lambda t: t.mean(1, dtype=result), cpu, xpu, rtol=2e-5, atol=2e-3)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(40,), (6, 33), (33, 6), (700, 20), (20, 700), (100, 100)])
def test_nan_and_ties(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    cpu = torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(1)).to(dtype)  # many ties
    with_nan = cpu.clone()
    with_nan.view(-1)[::17] = float("nan")
    infinite = torch.full(shape, float("-inf"), dtype=dtype)
    for t in (cpu, with_nan, infinite, -infinite):
        x = t.to("xpu")
        for dim in range(t.ndim):
            for name in ("max", "min", "argmax", "argmin", "aminmax"):
                # Ties: torch's CPU names the first index in argmax and argmin, and in max and min.
                compare(lambda v: ONE_DIM_OPS[name](v, dim, False), t, x)
        for name in ("max", "min", "argmax", "argmin", "aminmax", "all", "any", "count_nonzero"):
            compare(FULL_OPS[name], t, x)
        compare(lambda v: v.nansum(0), t, x)
        compare(lambda v: torch.logsumexp(v, 0), t, x, rtol=2e-2, atol=1e-2)
        compare(lambda v: v.amax(), t, x)


def test_index_of_long_row() -> None:
    cpu = torch.zeros(3, 200_000)
    cpu[0, 123_456] = cpu[1, 199_999] = 1
    check(cpu.to("xpu").max(1), cpu.max(1))
    check(cpu.to("xpu").argmax(), cpu.argmax())
    check(cpu.t().contiguous().to("xpu").argmax(0), cpu.t().argmax(0))
    check(cpu.to("xpu").t().argmax(), cpu.t().argmax())


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2.5, float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_norms(ord: float, dtype: torch.dtype) -> None:
    tol = {"rtol": 2e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {"rtol": 2e-5, "atol": 1e-4}
    for layout in ("rows", "transposed", "one", "scalar"):
        cpu, xpu = place(layout, dtype)
        for dims in [None, 0, *([1, (0, 1)] if cpu.ndim > 1 else [])]:
            compare(lambda t: torch.linalg.vector_norm(t, ord, dims), cpu, xpu, **tol)
            if dims is not None:
                compare(lambda t: torch.norm(t, ord, dims), cpu, xpu, **tol)
    cpu, xpu = place("rows", dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    compare(lambda t: torch.linalg.vector_norm(t, ord, 1, dtype=wide), cpu, xpu, **tol)


@pytest.mark.parametrize("correction", [0, 1, 2, 0.5, 100])
def test_variance(correction: float) -> None:
    for dtype in (torch.float32, torch.float64, torch.complex64):
        cpu, xpu = place("rows", dtype)
        cpu, xpu = cpu[:, :90] + 1000, xpu[:, :90] + 1000  # far from zero: a difference of squares would lose it all
        for fn in (torch.var, torch.std, torch.var_mean, torch.std_mean):
            compare(lambda t: fn(t, 1, correction=correction), cpu, xpu, rtol=1e-4, atol=1e-4)
            compare(lambda t: fn(t, (0, 1), correction=correction, keepdim=True), cpu, xpu, rtol=1e-4, atol=1e-4)


EMPTY_CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "sum": lambda t: t.sum(1),
    "sum_all": lambda t: t.sum(),
    "prod": lambda t: t.prod(1),
    "mean": lambda t: t.mean(1),
    "nansum": lambda t: t.nansum(1),
    "var_mean": lambda t: torch.var_mean(t, 1),
    "std": lambda t: torch.std(t),
    "all": lambda t: t.all(1),
    "any": lambda t: t.any(),
    "norm": lambda t: torch.linalg.vector_norm(t, 2, 1),
    "norm_inf": lambda t: torch.linalg.vector_norm(t, float("inf"), 1),
    "amax": lambda t: t.amax(1),
    "max": lambda t: t.max(1),
    "max_all": lambda t: t.max(),
    "argmax": lambda t: t.argmax(),
    "aminmax": lambda t: torch.aminmax(t),
    "logsumexp": lambda t: t.logsumexp(1),
    "count_nonzero": lambda t: t.count_nonzero(1),
}


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (2, 0, 3)])
@pytest.mark.parametrize("call", EMPTY_CALLS)
def test_empty(call: str, shape: tuple[int, ...]) -> None:
    cpu = torch.empty(shape)
    compare(EMPTY_CALLS[call], cpu, cpu.to("xpu"))


ERRORS: list[Callable[[torch.Tensor], Any]] = [
    lambda t: t.sum(5),
    lambda t: t.sum((0, 0)),
    lambda t: t.max(7),
    lambda t: t.argmax(-4),
    lambda t: t.long().mean(),
    lambda t: t.long().var(),
    lambda t: t.bool().argmax(),
    lambda t: torch.linalg.vector_norm(t.long()),
    lambda t: torch.all(t, out=torch.empty(0, device=t.device)),
    lambda t: torch.amax(t, 0, out=torch.empty(0, device=t.device, dtype=torch.int64)),
    lambda t: t.cfloat().amax(0),
    lambda t: torch.trace(t[0]),
    lambda t: t.logsumexp((1, 1)),
    lambda t: torch.mean(t, 0, out=torch.empty(0, device=t.device, dtype=torch.int64)),
    lambda t: torch.mean(t, 0, out=torch.empty(4, device=t.device, dtype=torch.bool)),
]
VARIANCES: list[Callable[[torch.Tensor], Any]] = [torch.std, torch.var, torch.std_mean, torch.var_mean]


@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_nansum_of_complex_numbers(dtype: torch.dtype) -> None:
    """As on CUDA: a number with NaN in a part counts as 0; torch's CPU refuses."""
    t = torch.randn(40, 30, dtype=torch.complex128).to(dtype)
    t[3:20:4, ::3] = complex(float("nan"), 1.0)
    t[5, 7] = complex(2.0, float("nan"))
    want = t.to(torch.complex128).masked_fill(t.to(torch.complex128).isnan(), 0).sum(0).to(dtype)
    got = t.to("xpu").nansum(0).cpu()
    near = {"rtol": 1e-2, "atol": 1e-2} if dtype == torch.complex32 else {}
    torch.testing.assert_close(torch.view_as_real(got), torch.view_as_real(want), **near)


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors(number: int) -> None:
    cpu = torch.ones(3, 4)
    with pytest.raises((RuntimeError, IndexError)) as want:
        ERRORS[number](cpu)
    with pytest.raises(want.type):
        ERRORS[number](cpu.to("xpu"))


@pytest.mark.parametrize("f", VARIANCES)
def test_variances_of_integers_are_refused_in_torchs_words(f: Callable[[torch.Tensor], Any]) -> None:
    cpu = torch.ones(3, 4, dtype=torch.int64)
    with pytest.raises((RuntimeError, NotImplementedError)) as want:
        f(cpu)
    with pytest.raises(want.type) as got:
        f(cpu.to("xpu"))
    assert str(got.value) == str(want.value)


def test_out() -> None:
    cpu, xpu = place("rows", torch.float32)
    base = torch.full((74,), -1.0, device="xpu")
    out = base[::2]
    assert torch.sum(xpu, 1, out=out) is out
    torch.testing.assert_close(out.cpu(), cpu.sum(1), rtol=1e-5, atol=1e-4)
    assert (base.cpu()[1::2] == -1).all()
    wide = torch.empty(37, device="xpu", dtype=torch.float64)
    torch.sum(xpu, 1, out=wide)
    torch.testing.assert_close(wide.cpu(), cpu.double().sum(1))
    values, indices = torch.empty(2, 37, device="xpu").unbind(), torch.empty(37, 2, device="xpu", dtype=torch.int64)
    torch.max(xpu, 1, out=(values[0], indices[:, 1]))
    torch.testing.assert_close(values[0].cpu(), cpu.max(1).values)
    torch.testing.assert_close(indices[:, 1].cpu(), cpu.max(1).indices)
    grown = torch.empty(0, device="xpu")
    torch.var(xpu, 0, out=grown)
    torch.testing.assert_close(grown.cpu(), cpu.var(0), rtol=1e-5, atol=1e-5)
    for fn in (torch.amax, torch.mean, torch.linalg.vector_norm, torch.logsumexp):
        result = torch.empty(0, device="xpu")
        fn(xpu, dim=1, out=result)
        torch.testing.assert_close(result.cpu(), fn(cpu, dim=1), rtol=1e-5, atol=1e-4)


def test_truth_of_uint8_and_empty_dims() -> None:
    cpu = torch.tensor([[0, 2, 255], [1, 1, 1]], dtype=torch.uint8)
    for fn in (torch.all, torch.any):
        for args in ((), (1,), ((0, 1),), ((),)):
            compare(lambda t: fn(t, *args), cpu, cpu.to("xpu"))
    floats = torch.tensor([0.0, -0.0, float("nan"), 1e-45])
    compare(lambda t: torch.any(t.view(4, 1), 1), floats, floats.to("xpu"))


def test_equal_and_trace() -> None:
    cpu, xpu = place("rows", torch.float32)
    assert torch.equal(xpu, xpu.clone())
    other = xpu.clone()
    other[3, 5] += 1
    assert not torch.equal(xpu, other)
    assert not torch.equal(xpu, xpu[:, :3])
    assert torch.equal(xpu[:0], xpu[:0].clone())
    nan = torch.full((3,), float("nan"), device="xpu")
    assert not torch.equal(nan, nan.clone())
    for dtype in (torch.float32, torch.float16, torch.float64, torch.complex64):
        same = nan.to(dtype, copy=True)
        assert not torch.equal(same, same) and not torch.equal(same[1:], same[1:])
        assert torch.equal(same.zero_(), same)
    for dtype in (torch.float32, torch.int32, torch.complex64):
        c, x = place("rows", dtype)
        compare(torch.trace, c, x, rtol=1e-5, atol=1e-4)
        compare(torch.trace, c.t(), x.t(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(2**20 + 3,), (3, 700, 701), (1, 2**21), (2**21, 1), (70_000, 2, 1, 9)])
def test_equal_looks_at_the_beginning_first(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, device="xpu", dtype=torch.uint8)
    for given in (x, x.transpose(0, -1), x[:1].expand(shape)):
        assert torch.equal(given, given.clone())
        for place in (0, -1, given.numel() // 2):
            other = given.contiguous().clone()
            other.view(-1)[place] = 1
            torch.xpu.synchronize()
            torch.xpu.reset_peak_memory_stats()
            before = torch.xpu.memory_allocated()
            assert not torch.equal(given, other)
            if place == 0:
                assert torch.xpu.max_memory_allocated() - before < given.numel() // 4
            assert torch.equal(other, other.clone())


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_renorm(p: float, dtype: torch.dtype) -> None:
    cpu, xpu = place("batch", dtype)
    for dim in (0, 1, -1):
        compare(
            lambda t: torch.renorm(t, p, dim, 3.0), cpu, xpu, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-2
        )


def test_repeatable() -> None:
    x = make((1_000_003,), torch.float32).to("xpu")
    first = x.sum()
    assert all(torch.equal(x.sum(), first) for _ in range(10))
    wide = make((5000, 70), torch.float32).to("xpu")
    assert all(torch.equal(wide.sum(0), wide.sum(0)) for _ in range(5))


@pytest.mark.parametrize("shape", [(3, 50), (90,), (135,)])
@pytest.mark.parametrize("columns", [3, 8, 9, 12, 31, 48, 63, 64, 70])
def test_the_calling_thread_reduces_columns_with_the_same_bits(columns: int, shape: tuple[int, ...]) -> None:
    x = make((*shape, columns), torch.float32).to("xpu")
    dim = len(shape) - 1
    results, before = [], xpu_ops.inline_enabled()
    for inline in (True, False):
        xpu_ops.set_inline(inline)
        results.append([x.sum(dim), x.var(dim), x.argmax(dim)])
    xpu_ops.set_inline(before)
    for here, there in zip(*results, strict=True):
        assert here.equal(there)
    assert_same(results[0][0], x.cpu().sum(dim), tol=(2e-5, 2e-5))


def test_sum_is_accurate() -> None:
    cpu = torch.rand(2_000_000, generator=torch.Generator().manual_seed(3))
    exact = cpu.double().sum()
    for x in (cpu.to("xpu").sum(), cpu.to("xpu").view(-1, 200).sum(0).sum(), cpu.to("xpu").view(200, -1).sum(1).sum()):
        assert abs(x.cpu().double() - exact) / exact < 1e-6


def test_backward() -> None:
    cpu, xpu = place("rows", torch.float32)
    for fn in (
        lambda t: t.sum(1).sum(),
        lambda t: t.mean(0).pow(2).sum(),
        lambda t: t.var(1).sum(),
        lambda t: t.norm(dim=1).sum(),
        lambda t: t.max(1).values.sum(),
        lambda t: t.amax(0).sum(),
        lambda t: t.logsumexp(1).sum(),
        lambda t: (t * 0.1 + 1).prod(1).sum(),
    ):
        grads = []
        for t in (cpu, xpu):
            leaf = t.detach().clone().requires_grad_()
            fn(leaf).backward()
            grads.append(leaf.grad)
        torch.testing.assert_close(grads[1].cpu(), grads[0], rtol=1e-4, atol=1e-5)


# 2^31 is cut into equal parts; the second number has no divisor that would do, so that its last part is shorter.
@pytest.mark.parametrize("count", [pytest.param(2**31, marks=pytest.mark.slow), 2**31 + 11])
def test_a_dimension_that_32_bits_do_not_number(count: int) -> None:
    x = torch.ones(1, dtype=torch.uint8, device="xpu").expand(count)
    assert x.sum().item() == count
    assert x.any().item() and x.all().item()
    assert x.count_nonzero().item() == count
    assert x.argmax().item() == 0 and x.max().item() == 1 and x.amin().item() == 1


def test_positions_beyond_32_bits() -> None:
    count = 2**31 + 11
    x = torch.zeros(count, dtype=torch.uint8, device="xpu")
    x[count - 2] = 3
    assert x.argmax().item() == count - 2
    assert x.sum().item() == 3 and x.count_nonzero().item() == 1
    value, index = x.max(0)
    assert (value.item(), index.item()) == (3, count - 2)


@pytest.mark.parametrize("columns", (3, 17, 40, 1000))
def test_prod_of_infinities_zeros_and_nan(columns: int) -> None:
    """The error that goes with a product is not finite where the product is not; neither shows in the result."""
    gen = torch.Generator().manual_seed(columns)
    values = torch.tensor([1.0, -1.0, 2.0, 0.5, 0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    for kinds in (4, 6, 9):  # without and with zeros; with infinities
        rows = values[torch.randint(0, kinds, (200, columns), generator=gen)]
        if kinds == 4:
            rows[:, 1], rows[:, 2:] = torch.inf, rows[:, 2:].sign()
        for x in (rows, rows.t().contiguous().t()):
            actual, wanted = x.to("xpu").prod(-1).cpu(), x.prod(-1)
            torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)
            known = ~wanted.isnan()
            assert torch.equal(actual[known].signbit(), wanted[known].signbit())


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16), ids=str)
def test_hash_of_all_kinds_of_floats(dtype: torch.dtype) -> None:
    gen = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (3, 70, 100), generator=gen)
    bits[1] &= 0x807FFF  # subnormal in float32, and others in 16 bits
    bits[2, 0, :4] = torch.tensor([0, 1 << 31, 0x7F800000, 1])
    if dtype == torch.float32:
        x = bits.to(torch.int32).view(dtype)
    else:
        x = (bits & 0xFFFF).to(torch.int32).to(torch.int16).view(dtype)
    x = torch.where(x.isnan(), torch.zeros_like(x), x)
    for dims in ((), (-1,), (1, 2)):
        assert torch.equal(torch.hash_tensor(x.to("xpu"), dims).cpu(), torch.hash_tensor(x, dims))


@pytest.mark.parametrize("dims", [64, 65, 100])
@pytest.mark.parametrize("name", ["sum", "mean", "norm", "amax", "prod", "max", "argmax", "std"])
def test_all_of_more_dimensions_than_64(name: str, dims: int) -> None:
    x = torch.arange(1.0, 9.0).view([2] * 3 + [1] * (dims - 3)).transpose(0, 2)
    got, want = getattr(x.to("xpu"), name)(), getattr(x, name)()
    assert got.dim() == 0 and got.dtype == want.dtype
    torch.testing.assert_close(got.cpu(), want)
