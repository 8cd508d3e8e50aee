"""Inductor's passes over graphs, where they change values of XPU tensors. Runs after torch._inductor.compile_fx."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from xpu_ops.upstream.aot_autograd import may_overlap
from xpu_ops.upstream.registry import replaces

_REINPLACE = "torch._inductor.fx_passes.reinplace.inplaceable_ops"
_TESTS = "tests/inductor/test_compile_front_end.py"


@replaces(
    "torch._inductor.fx_passes.joint_graph.UniformValueConstantFolder._add_peephole_patterns",
    since="2.13",
    why="upstream takes a product with the whole number 0 for 0, which it is not for infinity and NaN",
    test=f"{_TESTS}::test_a_product_with_zero_keeps_nan",
)
def no_zero_of_nan(upstream: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(upstream)
    def _add_peephole_patterns(self: Any) -> None:
        before = set(self.node_replacements)
        upstream(self)
        for node in set(self.node_replacements) - before:
            value = node.meta["val"]
            if value.device.type == "xpu" and (value.is_floating_point() or value.is_complex()):
                del self.node_replacements[node], self.node_replacements_shapes[node], self.constant_data_ptrs[node]

    return _add_peephole_patterns


@replaces(
    f"{_REINPLACE}[torch.ops.aten.index_put.default]",
    f"{_REINPLACE}[torch.ops.aten._unsafe_index_put.default]",
    since="2.13",
    why="upstream writes into expanded tensors and overlapping windows, where elements share their place",
    test=f"{_TESTS}::test_writes_where_elements_share_their_place",
)
def into_places_of_their_own(upstream: Any) -> Any:
    def extra_check(node: Any) -> bool:
        value = node.args[0].meta["val"]
        return upstream.extra_check(node) and not (value.device.type == "xpu" and may_overlap(value))

    return dataclasses.replace(upstream, extra_check=extra_check)
