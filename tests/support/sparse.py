"""Helpers of the tests of sparse tensors: drawn tensors, and the same call on both devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import hypothesis.strategies as st
import torch
from torch.utils._pytree import tree_leaves, tree_map

from support.compare import TOLERANCES, assert_same, cpu_refuses

NUMBERS = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.int64,
    torch.int32, torch.uint8,
]  # fmt: skip
FLOATS = [torch.float32, torch.float64, torch.complex64, torch.complex128]
OUT_OF_RANGE = re.compile("out of range|out of DATA bounds|out of bounds|axis dim should be positive")
COMPRESSED = [torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc]


def values(size: list[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(size, generator=g) > 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0, 5, size, generator=g).to(dtype)
    return torch.randn(size, generator=g, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)


def coo(sizes: list[int], sparse: int, nnz: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """An uncoalesced CPU tensor with repeated elements, or a tensor without any where there is no place for one."""
    g = torch.Generator().manual_seed(seed)
    nnz = 0 if 0 in sizes[:sparse] else nnz
    indices = torch.stack([torch.randint(0, max(s, 1), (nnz,), generator=g) for s in sizes[:sparse]])
    return torch.sparse_coo_tensor(indices, values([nnz, *sizes[sparse:]], dtype, seed + 1), sizes)


@st.composite
def tensors(draw: st.DrawFn, dtypes: list[torch.dtype] = NUMBERS, hybrid: bool = True) -> torch.Tensor:
    dtype = draw(st.sampled_from(dtypes))
    sparse = draw(st.integers(1, 3))
    sizes = draw(st.lists(st.integers(0, 7), min_size=sparse, max_size=sparse + (2 if hybrid else 0)))
    t = coo(sizes, sparse, draw(st.sampled_from([0, 1, 2, 9, 40])), dtype, draw(st.integers(0, 99)))
    return t.coalesce() if draw(st.booleans()) else t


def matrix(rows: int, columns: int, nnz: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return coo([rows, columns], 2, nnz, dtype, seed)


def parts(t: Any) -> Any:
    """A sparse tensor as its layout, sizes and dense parts; the elements of an uncoalesced one in order of their keys."""
    if not isinstance(t, torch.Tensor) or t.layout == torch.strided:
        return t
    if t.layout == torch.sparse_coo:
        c = t.coalesce()
        return ["coo", list(t.shape), t.sparse_dim(), t.is_coalesced(), c.indices(), c.values()]
    row = t.layout in (torch.sparse_csr, torch.sparse_bsr)
    compressed, plain = (t.crow_indices(), t.col_indices()) if row else (t.ccol_indices(), t.row_indices())
    return [str(t.layout), list(t.shape), compressed, plain, t.values()]


def outcome(fn: Callable[..., Any], args: Any) -> tuple[Any, BaseException | None]:
    try:
        result = fn(*args)
        torch.xpu.synchronize()  # an index out of range is reported here at the latest, and not by what follows
        return result, None
    except Exception as error:
        with suppress(Exception):
            torch.xpu.synchronize()
        return None, error


def moved(args: Any) -> Any:
    return tree_map(lambda t: t.to("xpu") if isinstance(t, torch.Tensor) else t, args)


def same(fn: Callable[..., Any], *args: Any, flags: bool = True) -> None:
    """`fn` gives the same on xpu as on the CPU, or the same kind of error; also in its arguments afterwards."""
    cpu_args = tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, args)
    xpu_args = moved(args)
    expected, error = outcome(fn, cpu_args)
    actual, raised = outcome(fn, xpu_args)
    if error is not None:
        # Along a dense dim the CPU calls an index out of range a RuntimeError or an IndexError, by the kernel it takes.
        kinds = (IndexError, RuntimeError) if OUT_OF_RANGE.search(str(error)) else (type(error),)
        # a type that the CPU lacks is xpu's to have
        assert cpu_refuses(error) or isinstance(raised, kinds), f"{raised!r}, expected {error!r}"
        return
    if raised is not None:
        raise raised
    assert all(t.device.type == "xpu" for t in tree_leaves(actual) if isinstance(t, torch.Tensor))

    def form(x: Any) -> Any:
        x = tree_map(parts, x)
        return x if flags else tree_map(lambda v: None if isinstance(v, bool) else v, x)

    leaves = [t for t in tree_leaves(form((expected, cpu_args))) if isinstance(t, torch.Tensor)]
    rtol, atol = max((TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in leaves), default=(0.0, 0.0))
    assert_same(form((actual, xpu_args)), form((expected, cpu_args)), tol=(4 * rtol, 4 * atol))
