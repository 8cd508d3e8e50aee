"""Regressions that Hypothesis found: arguments that test_rows tries before it draws others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Z = torch.tensor([3 + 4j, -1 + 2j])
FOUND: dict[tuple[str, str], list[Callable[[], dict[str, Any]]]] = {
    # A complex sum with a real dtype drops the imaginary parts.
    ("sum.dim_IntList", "c64"): [lambda: {"self": Z, "dim": [], "keepdim": False, "dtype": torch.float32}],
    ("mean.dim", "c64"): [lambda: {"self": Z, "dim": [], "keepdim": False, "dtype": torch.float32}],
    ("prod", "c64"): [lambda: {"self": Z, "dtype": torch.float32}],
    # dtype must not narrow, and be complex where the input is.
    ("norm.ScalarOpt_dim_dtype", "f64"): [
        lambda: {"self": torch.ones(3).double(), "p": 2, "dim": [0], "keepdim": False, "dtype": torch.float32}
    ],
    ("norm.ScalarOpt_dim_dtype", "c64"): [
        lambda: {"self": Z, "p": 2, "dim": [0], "keepdim": False, "dtype": torch.float32}
    ],
    # Its overload of repeat_interleave was another one: every call failed.
    ("_convert_indices_from_csr_to_coo", "i64"): [
        lambda: {"crow_indices": torch.tensor([0, 2, 3]), "col_indices": torch.tensor([0, 1, 2])}
    ],
    # No number at all for a list of tensors was taken for a zero for each.
    ("_foreach_add.ScalarList", "f32"): [lambda: {"self": [torch.ones(2)], "scalars": []}],
    # The scale counts, also where the sizes are equal.
    ("upsample_nearest3d", "f32"): [
        lambda: {"self": torch.arange(3.0).view(1, 1, 3, 1, 1), "output_size": [3, 1, 1], "scales_d": 1.4}
    ],
    # The result has the type of self.
    ("huber_loss", "bf16"): [lambda: {"self": torch.ones(3).bfloat16(), "target": torch.zeros(3), "reduction": 0}],
    # One sample without a reduction has a total weight.
    ("nll_loss_forward", "f32"): [
        lambda: {"self": torch.ones(3), "target": torch.tensor(1), "weight": None, "reduction": 0, "ignore_index": -100}
    ],
    # 16-bit histograms were refused.
    ("histogram.bins_tensor", "bf16"): [
        lambda: {"self": torch.ones(3).bfloat16(), "bins": torch.tensor([0.0, 1.0, 2.0]).bfloat16()}
    ],
}
