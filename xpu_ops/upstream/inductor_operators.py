"""Operators whose kernels beat the loops that Inductor makes of them: they stay operators in a compiled graph.

Runs after torch._inductor.compile_fx.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config, ir, lowering
from torch._inductor.virtualized import V

from xpu_ops.inductor.passes import is_xpu
from xpu_ops.upstream.inductor_lowering import images_last
from xpu_ops.upstream.registry import replaces, uses

aten = torch.ops.aten
_LOWERINGS = "torch._inductor.lowering.lowerings"
_DECOMPOSITIONS = "torch._inductor.decomposition.decompositions"
_TEST = "tests/inductor/test_compile_operators.py"


def _stays() -> bool:
    """Upstream's own backend for this device gets upstream's loops."""
    return config.xpu_backend != "triton"


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten.native_group_norm.default]",
    since="2.13",
    why="group norm reads groups of channels in the layout that they have; the decomposition's loops divide for every element",
    test=f"{_TEST}::test_group_norm_stays_an_operator",
)
def whole_group_norm(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        rows = x.dim() < 3 or math.prod(x.shape[2:]) == 1  # fused with what surrounds it
        return upstream(x, *args, **kwargs) if rows or x.device.type != "xpu" or not _stays() else NotImplemented

    return decompose


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten._native_batch_norm_legit.no_stats]",
    since="2.13",
    why="instance norm is a batch norm of one image, whose operator reads contiguous planes twice; the decomposition's loops read "
    "a convolution's channels last element by element",
    test=f"{_TEST}::test_instance_norm_stays_an_operator",
)
def whole_instance_norm(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        one = x.dim() > 2 and x.shape[0] == 1 and x.device.type == "xpu" and _stays()
        return NotImplemented if one else upstream(x, *args, **kwargs)

    return decompose


def _images(x: Any) -> Any:
    """A tensor in memory that is contiguous or channels last, as group norm takes it; contiguous where it is neither."""
    x = ir.ExternKernel.realize_input(x)
    if isinstance(x, ir.StorageBox):
        x.data.decide_layout()  # by the layouts that its kernel reads
    size, stride = x.get_size(), x.get_stride()
    if ir.is_contiguous_strides_for_shape(stride, size) or ir.Layout.is_channels_last_contiguous(size, stride):
        return x
    return ir.ExternKernel.require_contiguous(x)


def _group_norm_operands(node: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = lowering.require_contiguous(node, *args, **kwargs)
    return (_images(x) if is_xpu(x) else ir.ExternKernel.require_contiguous(x), *args), kwargs


@uses(
    "torch._inductor.lowering.make_fallback",
    since="2.13",
    why="group and instance norm are decomposed for other devices, and lowered for this one",
    test=f"{_TEST}::test_group_norm_stays_an_operator",
)
def norm_operators(make_fallback: Callable[..., Any]) -> None:
    groups = aten.native_group_norm.default
    make_fallback(groups, layout_constraint=_group_norm_operands, warn=False, override_decomp=True)
    planes = aten._native_batch_norm_legit.no_stats
    make_fallback(planes, layout_constraint=lowering.require_contiguous, warn=False, override_decomp=True)


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten.max_pool2d_with_indices.default]",
    f"{_DECOMPOSITIONS}[torch.ops.aten.max_pool3d_with_indices.default]",
    since="2.13",
    why="the operator goes through whole lines; the decomposition's loops read each window element by element",
    test=f"{_TEST}::test_pooling_stays_an_operator",
)
def whole_max_pool(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.device.type == "xpu" and _stays() else upstream(x, *args, **kwargs)

    return decompose


def _operator(upstream: Callable[..., Any], op: Any) -> Callable[..., Any]:
    operator = lowering.fallback_handler(op, add_to_fallback_set=False)

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        return operator(x, *args, **kwargs) if is_xpu(x) and _stays() else upstream(x, *args, **kwargs)

    return lower


@uses(
    "torch._inductor.lowering.make_fallback",
    since="2.13",
    why="softmax is decomposed for what torch looks for in graphs, and made whole again (xpu_ops/inductor/softmax.py)",
    test=f"{_TEST}::test_softmax_is_one_operator",
)
def softmax_operators(make_fallback: Callable[..., Any]) -> None:
    for op in (aten._softmax.default, aten._log_softmax.default):
        make_fallback(op, warn=False, override_decomp=True)


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten.mish.default]",
    since="2.13",
    why="tanh(log(1 + exp(x))) is a quotient of one exponential, as in the operator; upstream's takes three functions, at five times "
    "the cost",
    test=f"{_TEST}::test_mish_takes_one_exponential",
)
def quotient_of_mish(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor) -> Any:
        if x.device.type != "xpu" or x.dtype.is_complex:
            return upstream(x)
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        e = torch.exp(torch.clamp_max(wide, 20.0))  # from there on the quotient is 1
        n = e * (e + 2.0)
        return (wide * (n / (n + 2.0))).to(x.dtype)

    return decompose


def _last(x: Any) -> Any:
    return images_last(x, ir.ExternKernel.require_channels_last)


def _folded_operands(node: Any, x: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
    """Images are channels last; weights and what belongs to the norm are operands of the graph, and stay as they are."""
    *others, operands = args
    return (_last(x), weight, *others, [_last(t) for t in operands]), kwargs


@uses(
    "torch._inductor.lowering.make_fallback",
    since="2.13",
    why="a convolution whose weights take up the norm behind it is an operator (xpu_ops/inductor/convolution.py)",
    test="tests/inductor/test_compile_norms.py::test_networks",
)
def folded_convolutions(make_fallback: Callable[..., Any]) -> None:
    op = torch.ops.xpu_ops.conv_norm.default
    make_fallback(op, layout_constraint=_folded_operands, warn=False, override_decomp=True)


_POSITION = "the operator compares vectors and then the lanes; upstream's loop carries a position per lane"
_POSITION_TEST = f"{_TEST}::test_positions_stay_operators"


def _position(upstream: Callable[..., Any], op: Any) -> Callable[..., Any]:
    whole = _operator(upstream, op)

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        users = getattr(V.graph.current_node, "users", ())
        values_alone = op in (aten.max.dim, aten.min.dim) and not any(u.args[1:] != (0,) for u in users)
        return (upstream if values_alone else whole)(x, *args, **kwargs)

    return lower


def _max_pool(upstream: Callable[..., Any], op: Any, alone: Any) -> Callable[..., Any]:
    whole = _operator(upstream, op)
    values = lowering.fallback_handler(alone, add_to_fallback_set=False)

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        users = getattr(V.graph.current_node, "users", ())
        if not is_xpu(x) or not _stays() or V.graph.cpp_wrapper or any(u.args[1:] != (0,) for u in users):
            return whole(x, *args, **kwargs)
        return values(x, *args, **kwargs), None  # nobody asks for the indices

    return lower


_POOLING = "windows of whole lines are the operators' vectors; upstream's loops read each window element by element"
_POOLING_TEST = f"{_TEST}::test_pooling_stays_an_operator"


def _stays_an_operator(op: Any, make: Callable[..., Any]) -> None:
    replaces(f"{_LOWERINGS}[torch.ops.{op}]", since="2.13", why=_POOLING, test=_POOLING_TEST)(make)


for _op, _alone in (
    (aten.max_pool2d_with_indices.default, aten.max_pool2d.default),
    (aten.max_pool3d_with_indices.default, aten.max_pool3d.default),
):
    _stays_an_operator(_op, functools.partial(_max_pool, op=_op, alone=_alone))
for _op in (aten.argmax.default, aten.argmin.default, aten.max.dim, aten.min.dim):
    replaces(f"{_LOWERINGS}[torch.ops.{_op}]", since="2.13", why=_POSITION, test=_POSITION_TEST)(
        functools.partial(_position, op=_op)
    )
for _op in (
    aten.max_pool2d_with_indices_backward.default,
    aten.avg_pool2d.default,
    aten.avg_pool3d.default,
    aten.avg_pool2d_backward.default,
    aten.avg_pool3d_backward.default,
):
    _stays_an_operator(_op, functools.partial(_operator, op=_op))
replaces(
    f"{_LOWERINGS}[torch.ops.aten._weight_int8pack_mm.default]",
    since="2.13",
    why="upstream's choice of kernels takes no scales that the graph computes, such as rounded ones",
    test="tests/inductor/test_export.py::test_weights_of_few_bits",
)(functools.partial(_operator, op=aten._weight_int8pack_mm.default))
replaces(
    f"{_LOWERINGS}[torch.ops.aten._scaled_mm_v2.default]",
    since="2.13",
    why="upstream's choice of kernels refuses swizzled scales, drops the recipes and the second scales, and lays scales of blocks out anew",
    test="tests/aten/test_blockscale.py::test_compiled",
)(functools.partial(_operator, op=aten._scaled_mm_v2.default))
