"""Gradients whose operators take what only their own forward keeps for them: drawn as gradients of the forward operator."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from support.arguments import Draw, row_of
from support.compare import assert_same, clone, reference, to_device
from support.manifest import TORCH_TYPES, overload
from torch.utils._pytree import tree_leaves, tree_map

import xpu_ops

EXAMPLES = min(10, settings.default.max_examples) if settings.default.derandomize else settings.default.max_examples


def gradients(function: Any, args: dict[str, Any]) -> list[torch.Tensor | None]:
    """Of the sum of all results, each with weights of its own, by every floating tensor given."""

    def leaf(t: Any) -> Any:
        return t.detach().requires_grad_() if isinstance(t, torch.Tensor) and t.is_floating_point() else t

    args = tree_map(leaf, args)
    leaves = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
    results = [r for r in tree_leaves(function(**args)) if isinstance(r, torch.Tensor) and r.requires_grad]
    loss = sum(
        (r * torch.linspace(0.5, 1.5, r.numel(), device=r.device).to(r.dtype).view(r.shape)).sum() for r in results
    )
    return list(torch.autograd.grad(loss, leaves, allow_unused=True))


def gru(input: torch.Tensor, hx: Any, params: Any, **rest: Any) -> Any:
    # Three gates of the four that the recipe draws weights for.
    hidden = hx[0].shape[-1]
    return torch.gru(input, hx[0], [p[: 3 * hidden] for p in params], *[rest[k] for k in (
        "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")])  # fmt: skip


CASES = [("scaled_dot_product_attention", None, t) for t in ("f32", "bf16", "f64")]
CASES += [("lstm.input", f, t) for f in (None, gru) for t in ("f32", "f64")]


@pytest.mark.parametrize(
    ("name", "function", "type_name"), CASES, ids=[f"{f.__name__ if f else n}-{t}" for n, f, t in CASES]
)
def test_gradients(name: str, function: Any, type_name: str) -> None:
    call = function or overload(name)

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def run(data: Any) -> None:
        args = Draw(data.draw, row_of(name), name, TORCH_TYPES[type_name]).call()
        expected = gradients(call, clone(args))
        with xpu_ops.fallback.forbid():
            actual = gradients(call, to_device(clone(args)))

        def wide() -> Any:
            return reference(lambda **given: gradients(call, given), **args)

        # In 16 bit the probabilities are rounded between the products: as in aten/test_attention.py.
        tol = (5e-2, 5e-2) if type_name == "bf16" else None
        assert_same(actual, expected, tol=tol, reference=wide, accumulates=True)

    run()
