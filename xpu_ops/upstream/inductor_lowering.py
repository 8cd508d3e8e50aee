"""Decompositions and lowerings of Inductor for tensors of XPU devices: operators that stay operators, or become other loops.

Runs after torch._inductor.compile_fx.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx
from torch._inductor import config, ir, lowering
from torch._inductor.dependencies import MemoryDep
from torch._inductor.kernel import flex as _flex_kernels  # noqa: F401  registers the lowerings of flex_attention
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.value_ranges import ValueRanges

from xpu_ops.inductor import flex
from xpu_ops.inductor.passes import is_xpu
from xpu_ops.upstream.registry import replaces, temporarily, uses

aten = torch.ops.aten
_LOWERINGS = "torch._inductor.lowering.lowerings"
_DECOMPOSITIONS = "torch._inductor.decomposition.decompositions"
_FLEX = "torch._higher_order_ops.flex_attention"
_FEW_CHANNELS = 4  # of the images that a network begins with
_TWO_PASS_MOST = 16384  # elements of a row that stays in the caches between two passes


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, fx.Node) else None


@replaces(
    "torch._inductor.utils.is_big_gpu",
    since="2.13",
    why="products are operators here: upstream asks whether the device is large enough for Triton's, and warns",
    test="tests/inductor/test_compile_graphs.py::test_modes",
)
def no_template(upstream: Callable[..., bool]) -> Callable[..., bool]:
    def is_big_gpu(device: Any = 0) -> bool:
        return getattr(device, "type", "") != "xpu" and upstream(device)

    return is_big_gpu


def _or_operator(upstream: Callable[..., Any], op: Any) -> Callable[..., Any]:
    operator = lowering.fallback_handler(op, add_to_fallback_set=False)

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return upstream(x, *args, **kwargs)
        except TypeError as error:
            if not is_xpu(x) or "truth value of Relational" not in str(error):
                raise
            return operator(x, *args, **kwargs)

    return lower


_ANY_WINDOW = "upstream asks whether a window is large, also where only the run knows its size"
_ANY_WINDOW_TEST = "tests/inductor/test_compile_graphs.py::test_pooling_of_any_size"


@replaces(
    f"{_LOWERINGS}[torch.ops.aten._adaptive_avg_pool2d.default]", since="2.13", why=_ANY_WINDOW, test=_ANY_WINDOW_TEST
)
def average_of_any_window(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return _or_operator(upstream, aten._adaptive_avg_pool2d.default)


@replaces(
    f"{_LOWERINGS}[torch.ops.aten.adaptive_max_pool2d.default]", since="2.13", why=_ANY_WINDOW, test=_ANY_WINDOW_TEST
)
def maximum_of_any_window(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return _or_operator(upstream, aten.adaptive_max_pool2d.default)


@replaces(
    *(f"{_LOWERINGS}[torch.ops.aten.any.{overload}]" for overload in ("default", "dim", "dims")),
    since="2.13",
    why="any of uint8 is uint8, as at::any; upstream's lowering gives bool",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def any_of_bytes(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        result = upstream(x, *args, **kwargs)
        return lowering.to_dtype(result, torch.uint8) if is_xpu(x) and x.get_dtype() == torch.uint8 else result

    return lower


_channels_last = temporarily(
    "torch._inductor.ir.ExternKernel.require_channels_last",
    since="2.13",
    why="the lowering of a convolution asks for all operands in channels last",
    test="tests/inductor/test_compile_models.py::test_convolutions_take_weights_as_they_are",
)


_device_type = temporarily(
    "torch._inductor.ir.get_device_type",
    since="2.13",
    why="the lowering of a convolution leaves the bias to it for images of the CPU alone",
    test="tests/inductor/test_compile_models.py::test_convolutions_take_their_bias",
)


def images_last(t: Any, require: Callable[..., Any]) -> Any:
    """Images in channels last, by `require`; of few channels by the operator."""
    if len(t.get_size()) != 4 or not V.graph.sizevars.statically_known_leq(t.get_size()[1], _FEW_CHANNELS):
        return require(t)
    t = ir.ExternKernel.realize_input(t)
    if isinstance(t, ir.StorageBox):
        t.data.decide_layout()  # by the layouts that its kernel reads
    planar = ir.is_contiguous_strides_for_shape(t.get_stride(), t.get_size())
    clone = lowering.fallback_handler(aten.clone.default, add_to_fallback_set=False)
    return clone(t, memory_format=torch.channels_last) if planar else require(t)


@replaces(
    "torch._inductor.kernel.conv.convolution",
    f"{_LOWERINGS}[torch.ops.aten.convolution.default]",
    since="2.13",
    why="upstream copies all operands to channels last in generated kernels",
    test="tests/inductor/test_compile_models.py::test_convolutions_take_weights_as_they_are",
)
def convolution_operands(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """Weights that are operands of the graph are not copied for each call: oneDNN keeps them packed. Images of few channels
    are copied by the operator: a generated kernel stores element by element where so few follow each other. The bias stays
    with oneDNN, which adds it for nothing; upstream adds it in a kernel of its own where an operator follows.
    """
    require = ir.ExternKernel.require_channels_last
    type_of = ir.get_device_type

    @functools.wraps(upstream)
    def convolution(x: Any, weight: Any, bias: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_xpu(x):
            return upstream(x, weight, bias, *args, **kwargs)
        # Upstream makes images of 1-d convolutions, without a batch too, and comes back. The symbolic strides of an operator's
        # result in 3-d are too much for its comparisons.
        size = x.get_size()
        known = len(size) < 5 or all(sympy.sympify(s).is_number for s in size[1:])
        whole = bias is not None and known and len(size) == len(weight.get_size()) > 3

        def require_channels_last(t: Any) -> Any:
            if t is weight:
                box = t.data.data if isinstance(t.data, ir.ReinterpretView) else t.data  # a 1-d kernel with a row more
                given = isinstance(box, ir.StorageBox) and isinstance(box.data, ir.InputBuffer)
                return t if given else require(t)
            return images_last(t, require)

        def device_type(t: Any) -> str | None:
            return "cpu" if whole and t is x else type_of(t)

        with _channels_last(require_channels_last), _device_type(device_type):
            return upstream(x, weight, bias, *args, **kwargs)

    return convolution  # the original calls itself by name for other ranks


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten.pixel_shuffle.default]",
    since="2.13",
    why="it keeps channels last, where the operator and its meta function make contiguous images on xpu",
    test="tests/inductor/test_compile_graphs.py::test_shuffled_pixels_are_contiguous",
)
def contiguous_result(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        result = upstream(x, *args, **kwargs)
        return result.contiguous() if x.device.type == "xpu" else result

    return decompose


@replaces(
    f"{_DECOMPOSITIONS}[torch.ops.aten.native_layer_norm_backward.default]",
    since="2.13",
    why="the operator reads its operands once for results that generated kernels need two passes for",
    test="tests/inductor/test_compile_models.py::test_strides_of_gradients",
)
def no_decomposition(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.device.type == "xpu" else upstream(x, *args, **kwargs)

    return decompose


@uses(
    "torch._inductor.lowering.make_fallback",
    since="2.13",
    why="native_layer_norm_backward stays an operator, with contiguous operands: its strides are taken from the decomposition, "
    "which keeps those of a permuted operand",
    test="tests/inductor/test_compile_models.py::test_strides_of_gradients",
)
def keep_operator(make_fallback: Callable[..., Any]) -> None:
    op = aten.native_layer_norm_backward.default
    make_fallback(op, layout_constraint=lowering.require_contiguous, warn=False, override_decomp=True)


def _contiguous_on_xpu(node: fx.Node, *args: Any, **kwargs: Any) -> Any:
    """Operands of an operator whose gradient keeps their strides, where its meta function promises a contiguous one."""
    return lowering.require_contiguous(node, *args, **kwargs) if is_xpu(args[0]) else (args, kwargs)


def _attention_operand(x: Any, node: Any) -> Any:
    """A tensor in memory whose last dimension is dense. Upstream also asks whether strides are multiples of 8, which guards."""
    if not lowering._is_tensor_irnode(x):
        return x
    strides, known = _value(node).stride(), V.graph.sizevars
    x = ir.ExternKernel.realize_input(x)
    layout = x.get_layout()
    if isinstance(layout, ir.FixedLayout) and (
        not layout.size
        or known.statically_known_equals(layout.stride[-1], 1)
        or known.statically_known_leq(layout.size[-1], 1)
    ):
        return ir.try_match_insignificant_strides(x, [s.node.expr if hasattr(s, "node") else s for s in strides])
    order = ir.get_stride_order(strides, known.shape_env)
    if order and order[-1] != 0:
        order = list(reversed(range(len(order))))
    return ir.ExternKernel.require_stride_order(x, order)


def _attention_operands(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def constrain(node: fx.Node, *args: Any, **kwargs: Any) -> Any:
        if not is_xpu(args[0]):
            return upstream(node, *args, **kwargs)
        return (
            tuple(_attention_operand(x, n) for x, n in zip(args, node.args, strict=False)),
            {k: _attention_operand(x, node.kwargs[k]) for k, x in kwargs.items()},
        )

    return constrain


@uses(
    "torch._inductor.lowering.add_layout_constraint",
    "torch._inductor.lowering.sdpa_constraint",
    since="2.13",
    why="operands of attention are taken in memory with a dense last dimension; upstream also asks whether strides are "
    "multiples of 8, which guards. The gradient of replication_pad2d takes contiguous operands, as its meta function has it",
    test="tests/inductor/test_compile_dynamic.py::test_attention_compiles_once",
)
def layouts(add_layout_constraint: Callable[..., Any], sdpa_constraint: Callable[..., Any]) -> None:
    add_layout_constraint(aten.replication_pad2d_backward.default, _contiguous_on_xpu)
    attention = _attention_operands(sdpa_constraint)
    add_layout_constraint(aten._scaled_dot_product_fused_attention_overrideable.default, attention)
    add_layout_constraint(aten._scaled_dot_product_fused_attention_overrideable_backward.default, attention)


def _lowers_on_xpu() -> bool:
    """Whether the node that is being lowered makes a tensor of an XPU device."""
    value = _value(getattr(V.graph, "current_node", None))
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(v, torch.Tensor) and v.device.type == "xpu" for v in values)


@replaces(
    "torch._inductor.utils.needs_fallback_due_to_atomic_add_limitations",
    "torch._inductor.lowering.needs_fallback_due_to_atomic_add_limitations",
    since="2.13",
    why="sums by index stay operators: their kernels need no atomics, and add in one order",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def keep_accumulation(upstream: Callable[[torch.dtype], bool]) -> Callable[[torch.dtype], bool]:
    def needs_fallback(dtype: torch.dtype) -> bool:
        return _lowers_on_xpu() or upstream(dtype)

    return needs_fallback


@replaces(
    "torch._inductor.lowering.use_two_step_variance",
    since="2.13",
    why="variances of rows that stay in the caches by the sum first and the squared deviations then: no divisions",
    test="tests/inductor/test_compile_graphs.py::test_graph",
)
def two_passes(upstream: Callable[..., bool]) -> Callable[..., bool]:
    def use_two_step_variance(x: Any, axis: Any, keepdim: bool, input_dtype: torch.dtype) -> bool:
        if not is_xpu(x):
            return upstream(x, axis, keepdim, input_dtype)
        size = x.get_size()
        axes = sorted(lowering._validate_reduction_axis(x, axis))
        numel: Any = sympy.S.One
        for a in axes or range(len(size)):
            numel *= size[a]
        if numel == 0:  # upstream's moments of nothing have the mean 0
            return True
        if not axes or axes != list(range(len(size) - len(axes), len(size))) or len(axes) == len(size):
            return False
        return bool(numel.is_number) and int(numel) <= _TWO_PASS_MOST

    return use_two_step_variance


def _reads_in_logical_order(x: Any) -> bool:
    """Whether the loops over a tensor keep the order of its dimensions. Inductor sorts them by the strides of what is read."""
    data = x.data if isinstance(x, ir.TensorBox) else x
    if not isinstance(data, (ir.StorageBox, ir.ReinterpretView)):
        return False
    if isinstance(data, ir.ReinterpretView) or isinstance(data.data, ir.Buffer):
        layout = data.get_layout()
        return isinstance(layout, ir.FixedLayout) and bool(layout.is_contiguous())
    for read in data.data.get_reads():
        buffer = V.graph.try_get_buffer(read.name)
        if (
            not isinstance(read, MemoryDep)
            or buffer is None
            or not isinstance(buffer.get_output_spec(), ir.FixedLayout)
        ):
            return False
        strides = [s for s in V.graph.sizevars.stride_hints(read.index, read.var_names) if s]
        if strides != sorted(strides, reverse=True):
            return False
    return True


@replaces(
    "torch._inductor.lowering._make_reduction_inner",
    since="2.13",
    why="argmax over several dimensions counts in the logical order, whatever the order of the loops; upstream does so where "
    "the operand is a buffer or a permutation of one, not where it is computed from such",
    test="tests/inductor/test_compile_front_end.py::test_argmax_counts_in_the_logical_order",
)
def logical_index(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def make_reduction_inner(x: Any, *, axis: Any, reduction_type: Any = None, **kwargs: Any) -> Any:
        result = upstream(x, axis=axis, reduction_type=reduction_type, **kwargs)
        sizes = result["reduction_ranges"]
        if not is_xpu(x) or reduction_type not in ("argmax", "argmin") or len(sizes) < 2 or _reads_in_logical_order(x):
            return result
        load = result["inner_fn"]

        def indexed(index: Any, reduction_index: Any) -> Any:
            value = load(index, reduction_index)
            if isinstance(value, tuple):
                return value
            position: Any = sympy.S.Zero
            for size, i in zip(sizes, reduction_index, strict=True):
                position = position * size + i
            return value, ops.index_expr(sympy.expand(position), torch.int64)

        return {**result, "inner_fn": indexed}

    return make_reduction_inner


@replaces(
    "torch._inductor.lowering._div_rn",
    since="2.13",
    why="upstream rounds the quotient down; at::floor_divide goes by the remainder, so that 1 // 0.1 is 9",
    test="tests/inductor/test_compile_front_end.py::test_floor_division_goes_by_the_remainder",
)
@replaces(
    "torch._inductor.lowering._floor_div_floating",
    since="2.14",
    why="as before it, upstream rounds the quotient down",
    test="tests/inductor/test_compile_front_end.py::test_floor_division_goes_by_the_remainder",
)
def exact_floor(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def floor_division(a: Any, b: Any) -> Any:
        return lowering.floordiv(a, b) if is_xpu(a) or is_xpu(b) else upstream(a, b)

    return floor_division


@replaces(
    "torch.utils._sympy.value_ranges.SymPyValueRangeAnalysis.floordiv",
    since="2.13",
    why="upstream knows the operation for integers alone, and compares two quotients of floats that have no value",
    test="tests/inductor/test_compile_front_end.py::test_floor_division_of_known_floats",
)
def floats_divided(upstream: Callable[..., Any]) -> Callable[..., Any]:
    def floordiv(a: Any, b: Any) -> ValueRanges[Any]:
        a, b = ValueRanges.wrap(a), ValueRanges.wrap(b)
        return ValueRanges.unknown() if a.is_float or b.is_float else upstream(a, b)

    return floordiv


_splits_of_a_scan = temporarily(
    "torch._inductor.ir.Scan.num_splits",
    since="2.13",
    why="kernels scan each row as a whole",
    test="tests/inductor/test_compile_scans.py::test_scan",
)


@replaces(
    "torch._inductor.ir.Scan.create",
    since="2.13",
    why="kernels are written for scans that ATen has no operator for; cumsum and its kin stay operators",
    test="tests/inductor/test_compile_scans.py::test_scans_of_aten_stay_operators",
)
def own_scans(upstream: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(upstream)
    def create(device: torch.device, dtypes: tuple[torch.dtype, ...], *args: Any, **kwargs: Any) -> Any:
        if device.type != "xpu" or config.xpu_backend == "triton":
            return upstream(device, dtypes, *args, **kwargs)
        if kwargs.get("can_fallback_to_aten", True):
            return [None] * len(dtypes)
        with _splits_of_a_scan(lambda **_: (ir.ReductionHint.DEFAULT, 1)):
            return upstream(device, dtypes, *args, **kwargs)

    return create


@replaces(
    f"{_LOWERINGS}[{_FLEX}.flex_attention]",
    since="2.13",
    why="upstream's is a template of Triton",
    test="tests/inductor/test_compile_flex.py::test_scores",
)
def flex_attention(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return flex.forward(upstream)


@replaces(
    f"{_LOWERINGS}[{_FLEX}.flex_attention_backward]",
    since="2.13",
    why="upstream's is a template of Triton",
    test="tests/inductor/test_compile_flex.py::test_gradients",
)
def flex_attention_backward(upstream: Callable[..., Any]) -> Callable[..., Any]:
    return flex.backward(upstream)
