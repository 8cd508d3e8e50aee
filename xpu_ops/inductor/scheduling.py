"""The interface of a backend to Inductor: its features, its heuristics, the place of its kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.utils import get_fused_kernel_name
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from xpu_ops.block.device import policy
from xpu_ops.inductor.compiler import generator_digest
from xpu_ops.inductor.kernel import SyclKernel
from xpu_ops.inductor.wrapper import root_of
from xpu_ops.jit.service import KernelSpec
from xpu_ops.jit.worker import WORKER

_SPLITS = 32  # work-groups of a reduction with few results
_SPLIT_COLUMNS = 64  # results that one work-group of an outer reduction makes
_ROWS_PER_UNIT = 4  # that many rows for each compute unit are enough
_LEAST_SPLIT = 4096
_LEAST_PART = 1024


class SyclChoices(InductorChoices):
    """Upstream's heuristics, but for how a reduction with few results is split."""

    @staticmethod
    def uuid() -> str:
        """Takes part in the key of Inductor's caches."""
        shape = dataclasses.replace(policy(), units=1) if torch.xpu.is_available() else None
        return f"{generator_digest()} {shape}"

    @staticmethod
    def reduction_split_factor(
        device: torch.device, reduction_numel_hint: int, numel_hint: int, inner_reduction: bool
    ) -> int:
        if device.type != "xpu":
            return InductorChoices.reduction_split_factor(device, reduction_numel_hint, numel_hint, inner_reduction)
        if inner_reduction and numel_hint >= _ROWS_PER_UNIT * DeviceProperties.create(device).multi_processor_count:
            return 1  # parts of several dimensions would step through memory
        columns = 1 if inner_reduction else _SPLIT_COLUMNS
        wanted = _SPLITS * columns // max(numel_hint, 1)
        if wanted <= 1 or reduction_numel_hint < _LEAST_SPLIT:
            return 1
        wanted = min(wanted, reduction_numel_hint // _LEAST_PART)
        # Parts of one length need no masks, which cost more than a few parts too many or too few.
        even = [d for d in sympy.divisors(reduction_numel_hint) if wanted / 2 <= d <= wanted * 2]
        return int(min(even, key=lambda d: abs(d - wanted))) if even else max(1, wanted)


class SyclScheduling(SIMDScheduling):
    """Fuses as upstream's GPU backends do and puts all kernels of a graph into one module."""

    kernel_type = SyclKernel

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        if scheduler is not None:
            WORKER.start()  # takes half a second, while the graph is still worked on

    @classmethod
    def get_backend_features(cls, device: torch.device) -> OrderedSet[BackendFeature]:
        f = BackendFeature
        return OrderedSet([f.INPLACE_BUFFERS, f.MASKED_SCATTER_WITH_INDEX, f.SCAN, f.TUPLE_REDUCTION])

    @classmethod
    def get_tiling_and_scores(
        cls,
        node_schedule: Any,
        numel: sympy.Expr,
        reduction_numel: sympy.Expr = sympy.S.One,
        coalesce_analysis: Any = None,
    ) -> tuple[dict[str, sympy.Expr], None]:
        """One range, and one that is reduced: rows and columns are found from the indices."""
        return cls.create_tiling([numel], [reduction_numel]), None

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: SyclKernel) -> str:
        w = V.graph.wrapper_code
        device = kernel.device
        key = f"{device} {kernel.signature} {kernel.messages} {src_code}"
        if key in w.src_to_kernel:
            return w.src_to_kernel[key]
        fused = get_fused_kernel_name(node_schedule, config.triton.descriptive_names)
        name = "_".join(filter(None, ["sycl", fused, w.next_kernel_suffix()]))
        w.src_to_kernel[key] = name
        spec = KernelSpec(name, kernel.items, kernel.signature, tuple(kernel.messages))
        root_of(w).add_kernel(device, spec, src_code.replace("KERNEL_NAME", name))
        return name
