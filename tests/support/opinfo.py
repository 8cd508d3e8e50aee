"""Helpers of tests over torch's operator samples (OpInfo)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, OpInfo, SampleInput, UnaryUfuncInfo

from support.compare import to_device
from support.ties import by_elements


def _seed(seed: int | None = None) -> None:
    seed = common_utils.SEED if seed is None else seed
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


# Two thirds of the time of a test of samples: before each list of samples torch looks for a unittest.TestCase in the
# whole stack, of which there is none, and before each sample it writes the stack down for devices that are not there.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None
common_utils.set_rng_seed = _seed

# Results that are not a function of the inputs: shapes and dtypes are compared, distributions are tested elsewhere.
UNDETERMINED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "rand_like", "randn",
    "randn_like", "randint", "randint_like", "normal", "uniform", "bernoulli", "cauchy", "exponential", "geometric",
    "log_normal", "multinomial", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu", "pca_lowrank",
    "svd_lowrank", "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
}  # fmt: skip

# Arguments after the first, by name, of the operators that support.ties knows.
POSITIONS = {
    "sort": ["dim"], "argsort": ["dim"], "median": ["dim"], "nanmedian": ["dim"], "mode": ["dim"],
    "topk": ["k", "dim", "largest", "sorted"], "kthvalue": ["k", "dim"],
}  # fmt: skip


def op_id(op: OpInfo) -> str:
    return op.formatted_name if op.variant_test_name else op.name


def arguments(sample: SampleInput) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (sample.input, *sample.args), dict(sample.kwargs)


def undetermined(op: OpInfo, args: Any, kwargs: Any) -> bool:
    """Whether the result hangs on random numbers."""
    dropout = kwargs.get("dropout_p", 0.0)
    if op.name == "nn.functional.multi_head_attention_forward" and kwargs.get("training", True):
        dropout = args[10]
    return op.name in UNDETERMINED or dropout > 0


def to_xpu(op: OpInfo, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return to_device(args), to_device(kwargs)


def accumulates(op: OpInfo) -> bool:
    """Whether results are sums or chains of rounded values, so that no fixed tolerance fits every size."""
    return not isinstance(op, (BinaryUfuncInfo, UnaryUfuncInfo))


def named(op: OpInfo, args: Any, kwargs: Any, result: Any) -> Any:
    """The result in the form in which ties do not matter."""
    given = dict(zip(POSITIONS.get(op.name, []), args[1:], strict=False)) | kwargs
    return by_elements(op.name, {"self": args[0], **given}, result)
