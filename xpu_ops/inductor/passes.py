"""Passes over graphs: linear layers that oneDNN fuses with what follows, softmax as a whole."""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from xpu_ops import upstream
from xpu_ops.inductor.compiler import generator_digest
from xpu_ops.inductor.nodes import CONVERT, in_place_of, only_user, value_of
from xpu_ops.inductor.softmax import whole_softmax
from xpu_ops.upstream.aot_autograd import may_overlap

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
    CONVERT,
)
_MOST_USERS = 5  # of gelu, decomposed


def is_xpu(x: object) -> bool:
    """Whether an IR node lies on an XPU device."""
    device = x.get_device() if hasattr(x, "get_device") else None
    return device is not None and device.type == "xpu"


class Rewrite(CustomGraphPass):
    """Softmax becomes one operator; operands of complex operators get their type; addmm and mm with a transposed weight
    become mkldnn::_linear_pointwise where an activation or a sum follows.

    Upstream's patterns then put that into oneDNN's post-ops. Upstream itself writes this operator only for CPU tensors of
    frozen graphs, to pack the weights; here nothing is packed ahead.
    """

    def uuid(self) -> str:
        return generator_digest()

    def __call__(self, graph: fx.Graph) -> None:
        whole_softmax(graph)
        _promote_overlapping(graph)
        nodes = [n for target in _PRODUCTS for n in graph.find_nodes(op="call_function", target=target)]
        fused = [n for n in nodes if _fuse_linear(graph, n)]
        if fused:
            from torch._inductor.fx_passes import post_grad

            post_grad.lazy_init()
            upstream.install_once("inductor_linear")
            graph.eliminate_dead_code()


def _promote_overlapping(graph: fx.Graph) -> None:
    """Converts expanded operands of complex operators, which ATen serves, before the call.

    torch's meta functions convert operands first, as its CPU does, so that a copy without gaps counts for the strides of
    the result; on a device the kernel converts, and the expanded operand does not count.
    """
    for node in list(graph.nodes):
        if node.op != "call_function" or torch.Tag.pointwise not in getattr(node.target, "tags", ()):
            continue
        out = value_of(node)
        if out is None or out.device.type != "xpu" or not out.is_complex():
            continue
        for arg in node.all_input_nodes:
            value = value_of(arg)
            if value is None or value.dim() == 0 or value.dtype == out.dtype or not may_overlap(value):
                continue
            with graph.inserting_before(node):
                converted = graph.call_function(CONVERT, (arg, out.dtype))
            converted.meta["val"] = CONVERT(value, out.dtype)
            node.replace_input_with(arg, converted)


def _fuse_linear(graph: fx.Graph, node: fx.Node) -> bool:
    if node.kwargs:
        return False
    bias, a, w = node.args if node.target is aten.addmm.default else (None, *node.args)
    out = value_of(node)
    if out is None or out.device.type != "xpu" or out.dtype not in (torch.float32, torch.bfloat16):
        return False
    weight = value_of(w.args[0]) if w.target is aten.permute.default else None
    if weight is None or not weight.is_contiguous() or weight.dim() != 2 or (bias and value_of(bias).dim() != 1):
        return False
    last, a = _through_views(node, a)
    if not 0 < len(last.users) <= _MOST_USERS or not any(u.target in _FUSED_USERS for u in last.users):
        return False
    in_place_of(last, torch.ops.mkldnn._linear_pointwise.default, (a, w.args[0], bias, "none", [], ""))
    graph.erase_node(last)
    if last is not node:
        graph.erase_node(node)
    return True


def _through_views(node: fx.Node, a: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The last node and the input of a linear layer over more than two dimensions, which views surround."""
    user = only_user(node)
    if a.target not in _VIEWS or user is None:
        return node, a
    x, rows, out = value_of(a.args[0]), value_of(a), value_of(user)
    if user.target not in _VIEWS or x.dim() < 2 or not x.is_contiguous() or x.dim() != out.dim():
        return node, a
    same = [x.shape[-1] == rows.shape[-1], out.shape[-1] == value_of(node).shape[-1]]
    same += [m == n for m, n in zip(x.shape[:-1], out.shape[:-1], strict=True)]
    return (user, a.args[0]) if all(s is True for s in same) else (node, a)
