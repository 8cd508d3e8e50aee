"""Changes to graphs: linear layers that oneDNN fuses with what follows, and operators that stay operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import sympy
import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.dependencies import MemoryDep
from torch._inductor.virtualized import V, ops

from xpu_ops.inductor.compiler import generator_digest

aten = torch.ops.aten
_PRODUCTS = (aten.addmm.default, aten.mm.default)
_VIEWS = (aten.view.default, aten.reshape.default)
# First operations of the patterns that upstream fuses into a linear layer.
_FUSED_USERS = (
    aten.mul.Tensor,
    aten.add.Tensor,
    aten.relu.default,
    aten.sigmoid.default,
    aten.tanh.default,
    aten.gt.Scalar,
    aten.clamp_min.default,
    torch.ops.prims.convert_element_type.default,
)
_MOST_USERS = 5  # of gelu, decomposed
_FEW_CHANNELS = 4  # of the images that a network begins with
_TWO_PASS_MOST = 16384  # elements of a row that stays in the caches between two passes


def is_xpu(x: Any) -> bool:
    """Whether an IR node lies on an XPU device."""
    device = x.get_device() if hasattr(x, "get_device") else None
    return device is not None and device.type == "xpu"


class FuseLinear(CustomGraphPass):
    """addmm and mm with a transposed weight become mkldnn::_linear_pointwise where an activation or a sum follows.

    Upstream's patterns then put that into oneDNN's post-ops. Upstream itself writes this operator only for CPU tensors of
    frozen graphs, to pack the weights; here nothing is packed ahead.
    """

    def uuid(self) -> str:
        return generator_digest()

    def __call__(self, graph: fx.Graph) -> None:
        nodes = [n for target in _PRODUCTS for n in graph.find_nodes(op="call_function", target=target)]
        fused = [n for n in nodes if _fuse_linear(graph, n)]
        if fused:
            from torch._inductor.fx_passes import post_grad

            post_grad.lazy_init()
            _lower_linear()
            graph.eliminate_dead_code()


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def _fuse_linear(graph: fx.Graph, node: fx.Node) -> bool:
    if node.kwargs:
        return False
    bias, a, w = node.args if node.target is aten.addmm.default else (None, *node.args)
    out = _value(node)
    if out is None or out.device.type != "xpu" or out.dtype not in (torch.float32, torch.bfloat16):
        return False
    if w.target is not aten.permute.default or not _value(w.args[0]).is_contiguous() or _value(w.args[0]).dim() != 2:
        return False
    if bias is not None and _value(bias).dim() != 1:
        return False
    last, a = _through_views(node, a)
    if not 0 < len(last.users) <= _MOST_USERS or not any(u.target in _FUSED_USERS for u in last.users):
        return False
    with graph.inserting_before(last):
        new = graph.call_function(torch.ops.mkldnn._linear_pointwise.default, (a, w.args[0], bias, "none", [], ""))
    new.meta.update(last.meta)
    last.replace_all_uses_with(new)
    graph.erase_node(last)
    if last is not node:
        graph.erase_node(node)
    return True


def _through_views(node: fx.Node, a: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The last node and the input of a linear layer over more than two dimensions, which views surround."""
    if a.target not in _VIEWS or len(node.users) != 1:
        return node, a
    (user,) = node.users
    x, rows, out = _value(a.args[0]), _value(a), _value(user)
    if user.target not in _VIEWS or x.dim() < 2 or not x.is_contiguous() or x.dim() != out.dim():
        return node, a
    same = [x.shape[-1] == rows.shape[-1], out.shape[-1] == _value(node).shape[-1]]
    same += [m == n for m, n in zip(x.shape[:-1], out.shape[:-1], strict=True)]
    return (user, a.args[0]) if all(s is True for s in same) else (node, a)


@functools.cache
def _lower_linear() -> None:
    """Upstream's lowerings of the two operators ask for weights that are constants of a frozen graph."""
    from torch._inductor import ir, lowering, mkldnn_ir

    packet = torch.ops.mkldnn._linear_pointwise
    for op, make in ((packet.default, mkldnn_ir.LinearUnary), (packet.binary, mkldnn_ir.LinearBinary)):
        upstream = lowering.lowerings[op]

        def lower(x: Any, *args: Any, upstream: Any = upstream, make: Any = make, **kwargs: Any) -> Any:
            if not is_xpu(x):
                return upstream(x, *args, **kwargs)
            return ir.TensorBox.create(make.create(x, *args, **kwargs))

        lowering.lowerings[op] = lower


# ---- Operators that stay operators, or are lowered in another way


def _lowers_on_xpu() -> bool:
    """Whether the node that is being lowered makes a tensor of an XPU device."""
    value = _value(getattr(V.graph, "current_node", None))
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(v, torch.Tensor) and v.device.type == "xpu" for v in values)


def _keep_accumulation(upstream: Callable[[torch.dtype], bool]) -> Callable[[torch.dtype], bool]:
    """Sums by index stay operators: their kernels need no atomics, and add in one order."""

    def needs_fallback(dtype: torch.dtype) -> bool:
        return _lowers_on_xpu() or upstream(dtype)

    return needs_fallback


def _two_passes(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """Variances of rows that stay in the caches by the sum first and the squared deviations then: no divisions."""

    def use_two_step_variance(x: Any, axis: Any, keepdim: bool, input_dtype: torch.dtype) -> bool:
        if not is_xpu(x):
            return upstream(x, axis, keepdim, input_dtype)
        from torch._inductor.lowering import _validate_reduction_axis

        size = x.get_size()
        axes = sorted(_validate_reduction_axis(x, axis))
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
    from torch._inductor import ir

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


def _logical_index(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """argmax over several dimensions counts in the logical order, whatever the order of the loops.

    Upstream does so where the operand is a buffer or a permutation of one, not where it is computed from such.
    """

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


def _exact_floor(upstream: Callable[..., Any]) -> Callable[..., Any]:
    """The quotient that upstream rounds down: at::floor_divide goes by the remainder, so that 1 // 0.1 is 9."""

    def div_rn(a: Any, b: Any) -> Any:
        from torch._inductor import lowering

        return lowering.floordiv(a, b) if is_xpu(a) or is_xpu(b) else upstream(a, b)

    return div_rn


def _any_of_bytes(op: Any) -> None:
    """any of uint8 is uint8, as at::any; upstream's lowering gives bool."""
    from torch._inductor import lowering

    upstream = lowering.lowerings[op]

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        result = upstream(x, *args, **kwargs)
        return lowering.to_dtype(result, torch.uint8) if is_xpu(x) and x.get_dtype() == torch.uint8 else result

    lowering.lowerings[op] = lower


def _or_operator(op: Any) -> None:
    """Pooling windows whose size only the run knows: upstream's lowering asks whether they are large."""
    from torch._inductor import lowering

    upstream, operator = lowering.lowerings[op], lowering.fallback_handler(op, add_to_fallback_set=False)

    def lower(x: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return upstream(x, *args, **kwargs)
        except TypeError as error:
            if not is_xpu(x) or "truth value of Relational" not in str(error):
                raise
            return operator(x, *args, **kwargs)

    lowering.lowerings[op] = lower


def _no_template(upstream: Callable[..., bool]) -> Callable[..., bool]:
    """Products are operators here: upstream's question whether the device is large enough for Triton's, and its warning."""

    def is_big_gpu(device: Any = 0) -> bool:
        return getattr(device, "type", "") != "xpu" and upstream(device)

    return is_big_gpu


def _keep_operator(op: Any) -> None:
    """No decomposition on XPU: the operator reads its operands once for results that generated kernels need two passes for.

    Operands are made contiguous: strides are taken from the decomposition, which keeps those of a permuted operand.
    """
    from torch._inductor import decomposition, lowering

    upstream = decomposition.decompositions[op]

    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if x.device.type == "xpu" else upstream(x, *args, **kwargs)

    decomposition.decompositions[op] = decompose
    lowering.make_fallback(op, layout_constraint=lowering.require_contiguous, warn=False, override_decomp=True)


def _contiguous_result(op: Any) -> None:
    """torch's decomposition keeps channels last, where the operator and its meta function make contiguous images on xpu."""
    from torch._inductor import decomposition

    upstream = decomposition.decompositions[op]

    @functools.wraps(upstream)
    def decompose(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        result = upstream(x, *args, **kwargs)
        return result.contiguous() if x.device.type == "xpu" else result

    decomposition.decompositions[op] = decompose


def _contiguous_on_xpu(node: fx.Node, *args: Any, **kwargs: Any) -> Any:
    """Operands of an operator whose gradient keeps their strides, where its meta function promises a contiguous one."""
    from torch._inductor import lowering

    return lowering.require_contiguous(node, *args, **kwargs) if is_xpu(args[0]) else (args, kwargs)


def _convolution_operands() -> None:
    """Upstream copies all operands to channels last in generated kernels.

    Weights that are operands of the graph are not copied for each call: oneDNN keeps them packed. Images of few channels
    are copied by the operator: a generated kernel stores element by element where so few follow each other.
    """
    from torch._inductor import ir, lowering
    from torch._inductor.kernel import conv

    upstream, require = conv.convolution, ir.ExternKernel.require_channels_last
    clone = lowering.fallback_handler(aten.clone.default, add_to_fallback_set=False)

    @functools.wraps(upstream)
    def convolution(x: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_xpu(x):
            return upstream(x, weight, *args, **kwargs)

        def require_channels_last(t: Any) -> Any:
            if t is weight:
                given = isinstance(t.data, ir.StorageBox) and isinstance(t.data.data, ir.InputBuffer)
                return t if given else require(t)
            if len(t.get_size()) != 4 or not V.graph.sizevars.statically_known_leq(t.get_size()[1], _FEW_CHANNELS):
                return require(t)
            t = ir.ExternKernel.realize_input(t)
            if isinstance(t, ir.StorageBox):
                t.data.decide_layout()  # by the layouts that its kernel reads
            planar = ir.is_contiguous_strides_for_shape(t.get_stride(), t.get_size())
            return clone(t, memory_format=torch.channels_last) if planar else require(t)

        with mock.patch.object(ir.ExternKernel, "require_channels_last", require_channels_last):
            return upstream(x, weight, *args, **kwargs)

    conv.convolution = convolution  # which calls itself for other ranks
    lowering.lowerings[aten.convolution.default] = convolution


def _attention_operand(x: Any, node: Any) -> Any:
    """A tensor in memory whose last dimension is dense. Upstream also asks whether strides are multiples of 8, which guards."""
    from torch._inductor import ir, lowering

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


def install_lowerings() -> None:
    """Change upstream's decompositions and lowerings for tensors of XPU devices."""
    from torch._inductor import lowering, utils

    utils.is_big_gpu = _no_template(utils.is_big_gpu)
    for op in (aten._adaptive_avg_pool2d.default, aten.adaptive_max_pool2d.default):
        _or_operator(op)
    for op in (aten.any.default, aten.any.dim, aten.any.dims):
        _any_of_bytes(op)
    _convolution_operands()
    _contiguous_result(aten.pixel_shuffle.default)
    _keep_operator(aten.native_layer_norm_backward.default)
    lowering.add_layout_constraint(aten.replication_pad2d_backward.default, _contiguous_on_xpu)
    attention = _attention_operands(lowering.sdpa_constraint)
    for op in (
        aten._scaled_dot_product_fused_attention_overrideable.default,
        aten._scaled_dot_product_fused_attention_overrideable_backward.default,
    ):
        lowering.add_layout_constraint(op, attention)

    keep = _keep_accumulation(utils.needs_fallback_due_to_atomic_add_limitations)
    utils.needs_fallback_due_to_atomic_add_limitations = keep
    lowering.needs_fallback_due_to_atomic_add_limitations = keep
    lowering.use_two_step_variance = _two_passes(lowering.use_two_step_variance)
    lowering._make_reduction_inner = _logical_index(lowering._make_reduction_inner)
    lowering._div_rn = _exact_floor(lowering._div_rn)
