"""Sizes that only the run knows: marked dimensions compile once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from torch.utils._sympy import functions as sizes

SIZES = ((2, 7), (3, 16), (5, 11), (4, 24))
MASKS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "whole": lambda keep: None,
    "keys": lambda keep: keep[:, None, None, :],
    "expanded": lambda keep: torch.where(keep[:, None, None, :], 0.0, -1e4).expand(-1, 1, keep.shape[1], -1),
}


@pytest.mark.parametrize("mask", MASKS)
def test_attention_compiles_once(mask: str) -> None:
    """The attention operators take strides that are no multiples of 8, and no size is guarded on for it."""

    def attention(x: torch.Tensor, w: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        q, k, v = (x @ w).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=MASKS[mask](keep)).transpose(1, 2).flatten(2)

    compiled, results = torch.compile(attention, fullgraph=True), []
    counters.clear()
    for b, n in SIZES:
        x, w = torch.randn(b, n, 64, device="xpu"), torch.randn(64, 192, device="xpu") * 0.1
        keep = torch.rand(b, n, device="xpu") > 0.2
        keep[:, 0] = True
        for t in (x, keep):
            torch._dynamo.mark_dynamic(t, 0)
            torch._dynamo.mark_dynamic(t, 1)
        x.requires_grad_()
        for f in (compiled, attention):
            out = f(x, w, keep)
            results.append((out.detach(), torch.autograd.grad(out.square().sum(), x)[0]))
    torch.testing.assert_close(results[0::2], results[1::2], rtol=1e-4, atol=1e-3)
    assert counters["stats"]["unique_graphs"] == 1


S = sympy.Symbol("s0", integer=True, positive=True)


@pytest.mark.parametrize(
    ("expr", "floats"),
    [
        (2 * S + 1, False),
        (sizes.FloorDiv(S + 3, 4) * sizes.ModularIndexing(S, 2, 8), False),
        (sizes.Max(S, sizes.CleanDiv(S, 2)), False),
        (sizes.Where(S < 4, S, 2 * S), False),
        (sizes.TruncToInt(sizes.ToFloat(S) / 3), True),
        (sizes.CeilToInt(S * sympy.Float(0.5)), True),  # its text says so nowhere
        (sizes.FloorToInt(sizes.OpaqueUnaryFn_sqrt(S)) + 1, True),
        (sizes.FloorToInt(sizes.IntTrueDiv(S, 3)), True),
    ],
)
def test_sizes_that_come_of_floats_are_known(expr: sympy.Expr, floats: bool) -> None:
    """They are computed before a launch: the kernel then needs no fp64."""
    from xpu_ops.inductor.types import asks_floats

    assert asks_floats(expr) == floats
