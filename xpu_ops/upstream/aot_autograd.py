"""AOTAutograd's guesses about gradients. Runs after torch._functorch._aot_autograd.schemas."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false

from xpu_ops.upstream.registry import replaces


def may_overlap(t: torch.Tensor) -> bool:
    """Whether elements may share their place. Where a size is known to the run only, whatever has gaps may."""
    if t._has_symbolic_sizes_strides:
        return not is_non_overlapping_and_dense_or_false(t)
    reach = 0
    for step, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += step * (size - 1)
    return False


@replaces(
    "torch._functorch._aot_autograd.schemas.MemoryFormatMeta.from_tensor",
    since="2.13",
    why="upstream gives gradients the strides of an output of overlapping windows, which cannot hold them",
    test="tests/inductor/test_compile_front_end.py::test_gradients_of_overlapping_outputs",
)
def with_places_for_all(upstream: Any) -> Any:
    def from_tensor(t: torch.Tensor, force_use_memory_format: bool = False) -> Any:
        if t.device.type == "xpu" and t.layout == torch.strided and not t._has_symbolic_sizes_strides:
            force_use_memory_format = force_use_memory_format or may_overlap(t)
        return upstream(t, force_use_memory_format)

    return from_tensor
