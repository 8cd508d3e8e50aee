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
from xpu_ops.inductor.nodes import CONVERT, arguments, in_place_of, only_user, value_of

aten = torch.ops.aten
_TYPES = (torch.float32, torch.bfloat16)
_LEAST_CHANNELS = 16  # of the depthwise kernel


def operator() -> OpOverload:
    """The operator that the pass writes."""
    return torch.ops.xpu_ops.conv_norm.default


def _per_channel(node: object) -> object:
    """The vector that is spread over images."""
    for _ in range(2):
        node, dim = arguments(node, aten.unsqueeze.default) or (None, -1)
        if dim != -1:
            return None
    return node


def _operand(node: object) -> fx.Node | None:
    """An operand of the graph, perhaps widened."""
    while converted := arguments(node, CONVERT):
        node = converted[0]
    return node if isinstance(node, fx.Node) and node.op == "placeholder" else None


def _variance(scale: object) -> tuple[fx.Node, float] | None:
    """var and eps of 1 / sqrt(var + eps), which torch 2.15 has as rsqrt."""
    product = arguments(scale, aten.mul.Tensor)
    if product and product[1] == 1:
        scale = product[0]
    root = arguments(scale, aten.rsqrt.default)
    if root is None and (inverse := arguments(scale, aten.reciprocal.default)):
        root = arguments(inverse[0], aten.sqrt.default)
    total = arguments(root[0], aten.add.Tensor) if root else None
    if total is None or not isinstance(total[1], float):
        return None
    var = _operand(total[0])
    return None if var is None else (var, total[1])


def _behind(node: fx.Node, target: OpOverload) -> tuple[fx.Node, object] | None:
    """The only user of a node, `node <target> vector`, and the vector."""
    user = only_user(node)
    operands = arguments(user, target)
    if user is None or operands is None or operands[0] is not node:
        return None
    vector = _per_channel(operands[1])
    return None if vector is None else (user, vector)


def _behind_cast(node: fx.Node, dtype: torch.dtype) -> fx.Node:
    user = only_user(node)
    converted = arguments(user, CONVERT)
    return user if user is not None and converted and converted[1] == dtype else node


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
    user = only_user(node)
    operands = arguments(user, aten.add.Tensor)
    if user is None or operands is None:
        return None
    other = operands[1] if operands[0] is node else operands[0]
    x, y = value_of(node), value_of(other)
    if other is node or y is None or y.shape != x.shape or y.dtype != x.dtype or y.device != x.device:
        return None
    return user, other


def _clamp(node: fx.Node) -> tuple[fx.Node, list[float]] | None:
    """The last node of relu or a clamp, and its bounds."""
    user = only_user(node)
    if user is None or user.target is aten.relu.default:
        return user and (user, [0.0, float("inf")])
    last = only_user(user)
    match arguments(user, aten.clamp_min.default), arguments(last, aten.clamp_max.default):
        case (_, (int() | float()) as low), (_, (int() | float()) as high) if low <= high:
            return last, [float(low), float(high)]
    return None


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


def _fold(conv: fx.Node) -> fx.Node | None:
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
    new = in_place_of(last, operator(), args)
    if clamped:
        new.meta["xpu_ops_bounds"] = bounds
    return new


def _move_clamps(nodes: list[fx.Node]) -> None:
    for node in nodes:
        bounds, user = node.meta.get("xpu_ops_bounds"), only_user(node)
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
    made = [new for n in convolutions if _fits(n) and (new := _fold(n)) is not None]
    if made:
        graph.eliminate_dead_code()
        if policy().single_items:
            _move_clamps(made)
    return bool(made)
