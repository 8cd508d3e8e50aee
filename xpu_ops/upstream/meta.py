"""Shapes and types of results that torch computes without data. Runs after torch._meta_registrations."""

from __future__ import annotations

from typing import Any

import torch

from xpu_ops.upstream.registry import replaces

_TYPES = (torch.float32, torch.float16)


@replaces(
    "torch._meta_registrations._meta_grouped_mm_common",
    since="2.13",
    why="products of groups in f32 and f16 compute, but could not be traced",
    test="tests/inductor/test_export.py::test_products_of_groups",
)
def products_of_groups(upstream: Any) -> Any:
    def _meta_grouped_mm_common(
        mat_a: torch.Tensor, mat_b: torch.Tensor, *args: Any, out_dtype: torch.dtype | None = None, **kwargs: Any
    ) -> Any:
        dtype = mat_a.dtype
        if dtype not in _TYPES or mat_b.dtype != dtype or out_dtype not in (None, dtype):
            return upstream(mat_a, mat_b, *args, out_dtype=out_dtype, **kwargs)
        return upstream(mat_a.bfloat16(), mat_b.bfloat16(), *args, out_dtype=None, **kwargs).to(dtype)

    return _meta_grouped_mm_common


@replaces(
    "torch._meta_registrations._check_scaled_mm_sizes_v2",
    since="2.13",
    until="2.14",
    why="upstream wants the layouts of CUDA's scales of every device; the operator here takes plain ones, too, and checks them itself",
    test="tests/aten/test_blockscale.py::test_compiled",
)
def scaled_products(upstream: Any) -> Any:
    def _check_scaled_mm_sizes_v2(
        self: torch.Tensor, mat2: torch.Tensor, *args: Any, out_dtype: torch.dtype | None = None, **kwargs: Any
    ) -> torch.Tensor:
        if torch._meta_registrations.device_hint(self) != "xpu" or self.dim() != 2 or mat2.dim() != 2:
            return upstream(self, mat2, *args, out_dtype=out_dtype, **kwargs)
        return self.new_empty((self.shape[0], mat2.shape[1]), dtype=out_dtype or self.dtype)

    return _check_scaled_mm_sizes_v2
