"""A bool may be any byte, such as uint8 seen as bool: every byte but 0 is true, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.compare import assert_same
from torch.utils._pytree import tree_map

import xpu_ops

INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
DTYPES = (*INTEGERS, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
Call = Callable[[torch.Tensor, torch.Tensor], Any]


def full(x: torch.Tensor, value: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(x.shape, value, dtype=dtype, device=x.device)


def typed(dtype: torch.dtype) -> dict[str, Call]:
    calls: dict[str, Call] = {"to": lambda x, y: x.to(dtype), "copy_": lambda x, y: full(x, 0, dtype).copy_(x)}
    if dtype not in UNSIGNED:
        calls |= {
            "sum": lambda x, y: (x.sum(dtype=dtype), x.sum(-1, dtype=dtype), x.sum(0, dtype=dtype)),
            "cumsum": lambda x, y: (x.cumsum(-1, dtype=dtype), x.cumsum(0, dtype=dtype)),
            "add": lambda x, y: (x + full(x, 1, dtype), torch.add(full(x, 1, dtype), x, alpha=2)),
            "mul": lambda x, y: (x * full(x, 3, dtype), full(x, 3, dtype).mul_(x), x * torch.tensor(3, dtype=dtype)),
            "cat": lambda x, y: torch.cat([x, full(x, 1, dtype)]),
            "fill_": lambda x, y: full(x, 5, dtype).fill_(x.flatten()[0]),
        }
    return {f"{name} {str(dtype).removeprefix('torch.')}": call for name, call in calls.items()}


CALLS: dict[str, Call] = {
    "sums": lambda x, y: (x.sum(), x.nansum(), x.count_nonzero(), x.count_nonzero(0), x.float().mean(0)),
    "any and all": lambda x, y: (x.any(), x.all(), x.any(-1), x.all(0)),
    "extremes": lambda x, y: (x.max(), x.amin(0), x.amax(-1), x.aminmax(), torch.maximum(x, y), torch.minimum(x, y)),
    "firsts": lambda x, y: (x.cummax(-1), x.cummin(0), x.cumprod(-1), x.mode(-1).values),
    "sort": lambda x, y: (x.sort(dim=-1, stable=True), x.sort(dim=0, stable=True, descending=True)),
    "sort all": lambda x, y: x.flatten().sort(stable=True),
    "unique": lambda x, y: (
        x.unique(return_inverse=True, return_counts=True), torch.unique_consecutive(x, return_counts=True),
        torch.unique(x, dim=0), torch.unique_consecutive(x.flatten(), dim=0),
    ),
    "hash": lambda x, y: torch.hash_tensor(x),
    "logic": lambda x, y: (x & y, x | y, x ^ y, ~x, x.logical_xor(y), x == y, x < y, x.eq(1), x > 0, x.sign()),
    "arithmetic": lambda x, y: (x + y, x * y, x / (y.int() + 1), x.pow(2), x.exp(), torch.atan2(x, y)),
    "out": lambda x, y: torch.add(x, y, out=torch.empty(0, dtype=torch.int32, device=x.device)),
    "foreach": lambda x, y: (torch._foreach_add([x, y], 1), torch._foreach_mul([x, y], 2.5)),
    "masks": lambda x, y: (
        torch.where(x, 1.0, 2.0), full(x, 0.0).masked_fill(y, 3), full(x, 0)[x], full(x, 0.0).masked_scatter(x, full(x, 2.0)),
        full(x, 0.0).index_put((x,), full(x, 2.0).sum()), x.nonzero(),
    ),
    "moves": lambda x, y: (
        x.gather(-1, full(x, 0, torch.int64)), x.repeat_interleave(2), x.flip(0), torch.nn.functional.pad(x, (1, 1)),
    ),
    "read": lambda x, y: (x.tolist(), x.flatten()[0].item(), bool(y.flatten()[1]), int(x.flatten()[0])),
    "sparse": lambda x, y: x.to_sparse().to_dense(),
}  # fmt: skip
for _dtype in (*DTYPES, *UNSIGNED):
    CALLS |= typed(_dtype)


def odd(t: torch.Tensor, seed: int) -> torch.Tensor:
    """The same bools, in bytes other than 1, on the device."""
    byte = torch.randint(1, 128, t.shape, generator=torch.Generator().manual_seed(seed)).to(torch.uint8) * 2
    return (t.to(torch.uint8) * byte).to("xpu").view(torch.bool)


def transposed(t: torch.Tensor) -> torch.Tensor:
    return t.mT.contiguous().mT if t.dim() > 1 else t


def every_other(t: torch.Tensor) -> torch.Tensor:
    return torch.stack([t.view(torch.uint8)] * 2, -1).view(torch.bool)[..., 0]


def truth(t: Any) -> Any:
    """Bools of a result as 0 and 1: a copy of a byte may be that byte."""
    if isinstance(t, torch.Tensor) and t.dtype == torch.bool:
        return t.cpu().view(torch.uint8) != 0
    return t.cpu() if isinstance(t, torch.Tensor) else t


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "device"])
@pytest.mark.parametrize("sizes", [(7,), (5, 6), (64, 130), (3, 4, 50)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_any_byte(name: str, sizes: tuple[int, ...], inline: bool) -> None:
    g = torch.Generator().manual_seed(0)
    x, y = (torch.rand(sizes, generator=g) < p for p in (0.6, 0.4))
    expected = CALLS[name](x, y)
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(before and inline)
    try:
        for form in (lambda t: t, transposed, every_other):
            a, b = form(odd(x, 1)), form(odd(y, 2))
            assert int(a.view(torch.uint8).max()) > 1
            with xpu_ops.fallback.forbid():
                actual = CALLS[name](a, b)
            assert_same(tree_map(truth, actual), expected, accumulates=True)
    finally:
        xpu_ops.set_inline(before)
