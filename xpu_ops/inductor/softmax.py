"""A pass over graphs: softmax and its logarithm, which torch decomposes, become whole operators again.

Their kernels keep a row in the caches and take one exponential per element; the loops of five operators read it from memory in
each. The passes that look for attention have run before.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload

from xpu_ops.inductor.nodes import CONVERT, arguments, in_place_of, only_user, value_of

aten = torch.ops.aten
_HALF = (torch.bfloat16, torch.float16)


def _used_by(node: fx.Node, *users: fx.Node) -> bool:
    return set(node.users) == set(users)


def _kept_dimension(node: fx.Node, target: OpOverload) -> int | None:
    """The one dimension of a reduction that keeps it."""
    match arguments(node, target):
        case (_, [int(dim)], True):
            return dim % max(value_of(node).dim(), 1)
    return None


def _result(exp: fx.Node, total: fx.Node, shifted: fx.Node) -> tuple[fx.Node, OpOverload] | None:
    """exp / total, or shifted - log(total), where nobody else asks for what leads there; and the operator that it is."""
    user = only_user(total)
    if user is None:
        return None
    if arguments(user, aten.div.Tensor) == (exp, total) and _used_by(exp, total, user) and _used_by(shifted, exp):
        return user, aten._softmax.default
    last = only_user(user)
    if last is None or user.target is not aten.log.default or not _used_by(exp, total):
        return None
    difference = arguments(last, aten.sub.Tensor) == (shifted, user) and _used_by(shifted, exp, last)
    return (last, aten._log_softmax.default) if difference else None


def _less_most(node: object, dim: int) -> fx.Node | None:
    """x of x - amax(x)."""
    x, most = arguments(node, aten.sub.Tensor) or (None, None)
    if not isinstance(most, fx.Node) or not isinstance(node, fx.Node):
        return None
    fits = most.args[:1] == (x,) and _kept_dimension(most, aten.amax.default) == dim
    return x if fits and _used_by(most, node) else None


def _unconverted(node: Any) -> Any:
    converted = arguments(node, CONVERT)
    return converted[0] if converted else node


def _operand(shifted: fx.Node, dim: int) -> fx.Node | None:
    """The operand of softmax. Of x * c and x / c torch writes (x - amax(x)) * c where the whole row is finite, else plainly;
    the first x is multiplied by the sign of c."""
    choice = arguments(shifted, aten.where.self)
    if choice is None:
        return _less_most(shifted, dim)
    finite, scaled, plain = choice
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


def _make_whole(total: fx.Node) -> bool:
    dim = _kept_dimension(total, aten.sum.dim_IntList)
    value = value_of(total)
    if dim is None or value.device.type != "xpu" or not value.dtype.is_floating_point or value.dim() == 0:
        return False
    exp = total.all_input_nodes[0]
    given = arguments(exp, aten.exp.default)
    if given is None:
        return False
    (shifted,) = given
    x, found = _operand(shifted, dim), _result(exp, total, shifted)
    if x is None or found is None or value_of(x).dtype != value_of(found[0]).dtype:
        return False
    last, operator = found
    narrow, wide = only_user(last), _unconverted(x)
    if narrow is not None and wide is not x and narrow.target is CONVERT:  # 16 bits, which the operator widens itself
        given = value_of(wide).dtype
        if given in _HALF and value_of(narrow).dtype == given:
            x, last = wide, narrow
    in_place_of(last, operator, (x, dim, False))
    return True


def whole_softmax(graph: fx.Graph) -> None:
    """Put the operators in the place of what they were decomposed into."""
    sums = graph.find_nodes(op="call_function", target=aten.sum.dim_IntList)
    if sum(map(_make_whole, sums)):
        graph.eliminate_dead_code()
