"""torch's decompositions where they give xpu other strides or values than its operators. Runs after torch._decomp.decompositions."""

from __future__ import annotations

import functools
from typing import Any

from torch._prims_common import suggest_memory_format

from xpu_ops.upstream.registry import replaces


def _is_xpu(tensor: Any) -> bool:
    return getattr(tensor, "fake_device", tensor.device).type == "xpu"


@replaces(
    "torch._decomp.decompositions._max_unpoolnd",
    since="2.13",
    why="max_unpool2d keeps channels last, as its kernels do; the decomposition, which also serves fake tensors, does not",
    test="tests/inductor/test_compile_graphs.py::test_unpooled_images_stay_channels_last",
)
def keep_channels_last(upstream: Any) -> Any:
    def max_unpoolnd(self: Any, indices: Any, output_size: Any, dim: int) -> Any:
        out = upstream(self, indices, output_size, dim)
        if dim != 2 or not _is_xpu(self):
            return out
        return out.contiguous(memory_format=suggest_memory_format(self))

    return max_unpoolnd


@replaces(
    "torch._decomp.decomposition_table[torch.ops.aten.native_group_norm_backward.default]",
    since="2.13",
    why="the decomposition takes views; torch's autograd makes its operands contiguous on every device but xpu",
    test="tests/inductor/test_compile_graphs.py::test_group_norm_of_permuted_gradients",
)
def contiguous_group_norm(upstream: Any) -> Any:
    @functools.wraps(upstream)
    def decompose(grad_output: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_xpu(input):
            grad_output, input = grad_output.contiguous(), input.contiguous()
        return upstream(grad_output, input, *args, **kwargs)

    return decompose


@replaces(
    "torch._decomp.decompositions._compute_upsample_nearest_indices",
    since="2.13",
    why="upsample_nearest2d copies an axis that keeps its size, and repeats one that doubles, for any scale; the decomposition goes by the scale",
    test="tests/inductor/test_compile_graphs.py::test_nearest_pixels_of_a_scale_that_changes_no_size",
)
def nearest_by_size(upstream: Any) -> Any:
    def indices(input: Any, output_size: Any, scales: Any, exact: bool = False) -> Any:
        if len(output_size) == 2 and not exact and _is_xpu(input):
            sizes = zip(input.shape[-2:], output_size, scales, strict=True)
            scales = [None if s is not None and o in (i, 2 * i) else s for i, o, s in sizes]
        return upstream(input, output_size, scales, exact)

    return indices
