"""A pass over graphs of inferences: the batch norm behind a convolution, and what follows it, become one operator.

The operator keeps weights with the norm folded in until one of the tensors is written, so that parameters stay what they are. A
clamp whose result one depthwise convolution reads alone becomes a bound of what that one reads.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor import config
from torch._inductor.virtualized import V
from torch._ops import OpOverload

from xpu_ops.block.device import policy
from xpu_ops.inductor.nodes import value_of

aten = torch.ops.aten
_convert = torch.ops.prims.convert_element_type.default
_TYPES = (torch.float32, torch.bfloat16)
_LEAST_CHANNELS = 16  # of the depthwise kernel


def operator() -> OpOverload:
    """The operator that the pass writes."""
    return torch.ops.xpu_ops.conv_norm.default


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _per_channel(node: object) -> object:
    """The vector that is spread over images."""
    for _ in range(2):
        if not isinstance(node, fx.Node) or node.target is not aten.unsqueeze.default or node.args[1] != -1:
            return None
        node = node.args[0]
    return node


def _operand(node: object) -> fx.Node | None:
    """An operand of the graph, perhaps widened."""
    while isinstance(node, fx.Node) and node.target is _convert:
        node = node.args[0]
    return node if isinstance(node, fx.Node) and node.op == "placeholder" else None


def _variance(scale: object) -> tuple[fx.Node, float] | None:
    """var and eps of 1 / sqrt(var + eps), which torch 2.15 has as rsqrt."""
    if isinstance(scale, fx.Node) and scale.target is aten.mul.Tensor and scale.args[1] == 1:
        scale = scale.args[0]
    inverse = isinstance(scale, fx.Node) and scale.target is aten.rsqrt.default
    for target in (aten.rsqrt.default,) if inverse else (aten.reciprocal.default, aten.sqrt.default):
        if not isinstance(scale, fx.Node) or scale.target is not target:
            return None
        scale = scale.args[0]
    if not isinstance(scale, fx.Node) or scale.target is not aten.add.Tensor or scale.kwargs:
        return None
    if not isinstance(scale.args[1], float):
        return None
    var = _operand(scale.args[0])
    return None if var is None else (var, scale.args[1])


def _behind(node: fx.Node, target: object) -> tuple[fx.Node, object] | None:
    """The only user of a node, `node <target> vector`, and the vector."""
    user = _only_user(node)
    if user is None or user.target is not target or user.kwargs or user.args[0] is not node:
        return None
    vector = _per_channel(user.args[1])
    return None if vector is None else (user, vector)


def _behind_cast(node: fx.Node, dtype: torch.dtype) -> fx.Node:
    user = _only_user(node)
    return user if user is not None and user.target is _convert and user.args[1] == dtype else node


def _norm(conv: fx.Node) -> tuple[fx.Node, list[fx.Node | float | None]] | None:
    """The last node of the norm behind a convolution, and weight, bias, mean, variance and eps."""
    node = _behind_cast(conv, torch.float32)
    centred = _behind(node, aten.sub.Tensor)
    mean = _operand(centred[1]) if centred else None
    scaled = _behind(centred[0], aten.mul.Tensor) if centred and mean else None
    variance = _variance(scaled[1]) if scaled else None
    if scaled is None or variance is None:
        return None
    node, vectors = scaled[0], []
    for target in (aten.mul.Tensor, aten.add.Tensor):
        found = _behind(node, target)
        vector = _operand(found[1]) if found else None
        if found and vector is not None:
            node = found[0]
        vectors.append(vector)
    node = _behind_cast(node, value_of(conv).dtype)
    if value_of(node).dtype != value_of(conv).dtype:
        return None
    return node, [*vectors, mean, *variance]


def _addend(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The sum that a node goes into, of two tensors like it, and the other one."""
    user = _only_user(node)
    if user is None or user.target is not aten.add.Tensor or user.kwargs:
        return None
    other = user.args[1] if user.args[0] is node else user.args[0]
    x, y = value_of(node), value_of(other)
    if other is node or y is None or y.shape != x.shape or y.dtype != x.dtype or y.device != x.device:
        return None
    return user, other


def _clamp(node: fx.Node) -> tuple[fx.Node, list[float]] | None:
    """The last node of relu or a clamp, and its bounds."""
    user = _only_user(node)
    if user is None:
        return None
    if user.target is aten.relu.default:
        return user, [0.0, float("inf")]
    if user.target is not aten.clamp_min.default or not isinstance(user.args[1], (int, float)):
        return None
    last = _only_user(user)
    if last is None or last.target is not aten.clamp_max.default or not isinstance(last.args[1], (int, float)):
        return None
    low, high = float(user.args[1]), float(last.args[1])
    return (last, [low, high]) if low <= high else None


def _fits(conv: fx.Node) -> bool:
    value = value_of(conv)
    if value is None or value.device.type != "xpu" or value.dim() != 4 or value.dtype not in _TYPES:
        return False
    weight, bias = conv.args[1:3]
    operands = _operand(weight) is weight and (bias is None or _operand(bias) is bias)
    return operands and not conv.args[6] and not conv.kwargs and value_of(weight).dtype == value.dtype


def _reads_bounded(user: fx.Node) -> bool:
    """Whether an operator of ours is one that bounds what it reads for nothing."""
    if user.target is not operator() or user.args[12]:
        return False
    weight, stride, dilation, groups = user.args[1], user.args[8], user.args[10], user.args[11]
    size = value_of(weight).shape
    square = size[2] == size[3] and size[2] in (3, 5) and stride[0] == stride[1] and stride[0] in (1, 2)
    cheap = not user.args[13] or user.args[13][0].startswith("clip")
    depthwise = groups == size[0] and size[1] == 1 and size[0] >= _LEAST_CHANNELS
    return square and depthwise and cheap and list(dilation) == [1, 1]


def _bounds_text(bounds: list[float]) -> str:
    low, high = bounds
    return "relu" if bounds == [0.0, float("inf")] else f"clip:{low!r},{high!r}"


def _fold(graph: fx.Graph, conv: fx.Node) -> fx.Node | None:
    found = _norm(conv)
    if found is None:
        return None
    last, norm = found
    posts: list[str] = []
    operands: list[fx.Node] = []
    added = _addend(last)
    if added:
        last, other = added
        posts.append("add")
        operands.append(other)
    clamped = _clamp(last)
    if clamped:
        last, bounds = clamped
        posts.append(_bounds_text(bounds))
    x, weight, bias, stride, padding, dilation, _, _, groups = conv.args
    args = (x, weight, bias, *norm, stride, padding, dilation, groups, [], posts, operands)
    with graph.inserting_before(last):
        new = graph.call_function(operator(), args)
    new.meta.update(last.meta)
    last.replace_all_uses_with(new)
    if clamped:
        new.meta["xpu_ops_bounds"] = bounds
    return new


def _move_clamps(nodes: list[fx.Node]) -> None:
    for node in nodes:
        bounds, user = node.meta.get("xpu_ops_bounds"), _only_user(node)
        if bounds and user is not None and _reads_bounded(user) and user.args[0] is node:
            node.args = (*node.args[:13], node.args[13][:-1], node.args[14])
            user.args = (*user.args[:12], bounds, *user.args[13:])


def fold_norms(graph: fx.Graph) -> bool:
    """Put the operators in the place of convolutions and norms; whether there were any.

    For graphs of inferences: where gradients are recorded, weights that change at each step would be folded at each. Not in
    models for programs without Python.
    """
    convolutions = graph.find_nodes(op="call_function", target=aten.convolution.default)
    if not convolutions or config.cpp_wrapper or V.aot_compilation:
        return False
    from torch._inductor.graph import GraphLowering

    module = graph.owning_module
    if module is None or not GraphLowering.decide_layout_opt(module, is_inference=True):
        return False  # images stay contiguous
    made = [new for n in convolutions if _fits(n) and (new := _fold(graph, n)) is not None]
    if made:
        graph.eliminate_dead_code()
        if policy().single_items:
            _move_clamps(made)
    return bool(made)
