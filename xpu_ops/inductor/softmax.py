"""A pass over graphs: softmax and its logarithm, which torch decomposes, become whole operators again.

Their kernels keep a row in the caches and take one exponential per element; the loops of five operators read it from memory in
each. The passes that look for attention have run before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from xpu_ops.inductor.nodes import value_of

aten = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)
_convert = torch.ops.prims.convert_element_type.default


def _used_by(node: fx.Node, *users: fx.Node) -> bool:
    return set(node.users) == set(users)


def _kept_dimension(node: fx.Node, target: object) -> int | None:
    """The one dimension of a reduction that keeps it."""
    if node.target is not target or len(node.args) != 3 or not node.args[2] or node.kwargs:
        return None
    dims = node.args[1]
    if not isinstance(dims, (list, tuple)) or len(dims) != 1:
        return None
    return int(dims[0]) % max(value_of(node).dim(), 1)


def _result(exp: fx.Node, total: fx.Node, shifted: fx.Node) -> tuple[fx.Node, OpOverload] | None:
    """exp / total, or shifted - log(total), where nobody else asks for what leads there; and the operator that it is."""
    if len(total.users) != 1:
        return None
    (user,) = total.users
    if user.target is aten.div.Tensor and user.args == (exp, total) and not user.kwargs:
        if _used_by(exp, total, user) and _used_by(shifted, exp):
            return user, aten._softmax.default
    elif user.target is aten.log.default and len(user.users) == 1 and _used_by(exp, total):
        (last,) = user.users
        difference = last.target is aten.sub.Tensor and last.args == (shifted, user) and not last.kwargs
        if difference and _used_by(shifted, exp, last):
            return last, aten._log_softmax.default
    return None


def _less_most(node: Any, dim: int) -> Any:
    """x of x - amax(x)."""
    if node.target is not aten.sub.Tensor or node.kwargs or not isinstance(node.args[1], fx.Node):
        return None
    x, most = node.args
    fits = most.args[:1] == (x,) and _kept_dimension(most, aten.amax.default) == dim
    return x if fits and _used_by(most, node) else None


def _unconverted(node: Any) -> Any:
    return node.args[0] if isinstance(node, fx.Node) and node.target is _convert else node


def _operand(shifted: fx.Node, dim: int) -> Any:
    """The operand of softmax. Of x * c and x / c torch writes (x - amax(x)) * c where the whole row is finite, else plainly;
    the first x is multiplied by the sign of c."""
    if shifted.target is not aten.where.self:
        return _less_most(shifted, dim)
    finite, scaled, plain = shifted.args
    if finite.target is not aten.logical_not.default or finite.args[0].target is not aten.any.dims:
        return None
    if scaled.target not in (aten.mul.Tensor, aten.div.Tensor):
        return None
    signed, x = _less_most(scaled.args[0], dim), _less_most(plain, dim)
    if signed is None or signed.target is not aten.mul.Tensor or x is None or not _used_by(plain, shifted):
        return None
    product = _unconverted(x)
    same = product.target is scaled.target and _unconverted(signed.args[0]) in map(_unconverted, product.args)
    return x if same else None


def _make_whole(graph: fx.Graph, total: fx.Node) -> bool:
    dim = _kept_dimension(total, aten.sum.dim_IntList)
    value = value_of(total)
    if dim is None or value.device.type != "xpu" or not value.dtype.is_floating_point or value.dim() == 0:
        return False
    exp: Any = total.args[0]
    if exp.target is not aten.exp.default:
        return False
    shifted = exp.args[0]
    x, found = _operand(shifted, dim), _result(exp, total, shifted)
    if x is None or found is None or value_of(x).dtype != value_of(found[0]).dtype:
        return False
    last, operator = found
    if x.target is _convert and len(last.users) == 1:  # 16 bits, which the operator widens itself
        (narrow,) = last.users
        given = value_of(x.args[0]).dtype
        if narrow.target is _convert and given in _HALF and value_of(narrow).dtype == given:
            x, last = x.args[0], narrow
    with graph.inserting_before(last):
        whole = graph.call_function(operator, (x, dim, False))
    whole.meta.update(last.meta)
    last.replace_all_uses_with(whole)
    return True


def whole_softmax(graph: fx.Graph) -> None:
    """Put the operators in the place of what they were decomposed into."""
    sums = graph.find_nodes(op="call_function", target=aten.sum.dim_IntList)
    if sum(_make_whole(graph, n) for n in sums):
        graph.eliminate_dead_code()
