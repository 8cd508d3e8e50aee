"""flex_attention in compiled graphs: products by oneDNN, and between them the score and mask functions in the kernels of a
softmax. Scores are a whole matrix: memory grows with the square of the length, and masked blocks are computed too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor.virtualized import V
from torch.utils._pytree import tree_flatten, tree_unflatten

from xpu_ops.inductor.passes import is_xpu


def _traced(dense: Callable[..., Any], args: Any) -> tuple[fx.GraphModule, list[fx.Node]]:
    """`dense` on the arguments of a node of the graph, as a graph of operators, and the nodes that are its inputs."""
    from torch._inductor.pattern_matcher import fwd_only

    flat, spec = tree_flatten(args)
    inputs = [a for a in flat if isinstance(a, fx.Node) and a.op != "get_attr"]
    functions = {a: getattr(V.graph.module, a.target) for a in flat if isinstance(a, fx.Node) and a.op == "get_attr"}

    def run(*values: Any) -> Any:
        known = {**functions, **dict(zip(inputs, values, strict=True))}
        return dense(*tree_unflatten([known.get(a, a) if isinstance(a, fx.Node) else a for a in flat], spec))

    with V.fake_mode, torch.no_grad():
        return fwd_only(torch.func.functionalize(run), [n.meta["val"] for n in inputs]), inputs


def _by_operators(upstream: Callable[..., Any], dense: Callable[..., Any]) -> Callable[..., Any]:
    def lower(query: Any, *rest: Any, **kwargs: Any) -> Any:
        if not is_xpu(query):
            return upstream(query, *rest, **kwargs)
        from torch._inductor.lowering import process_subgraph_nodes

        node = V.graph.current_node
        graph, inputs = _traced(dense, node.args)
        for constant in graph.graph.find_nodes(op="get_attr"):
            name = f"{node.name}_{constant.target}"
            setattr(V.graph.module, name, getattr(graph, constant.target))
            constant.target = name
        return process_subgraph_nodes(graph, [V.graph.env[n] for n in inputs])

    return lower


def install() -> None:
    """Replace the lowerings, upstream's are Triton templates."""
    from torch._higher_order_ops.flex_attention import (
        flex_attention,
        flex_attention_backward,
        sdpa_dense,
        sdpa_dense_backward,
    )
    from torch._inductor import lowering
    from torch._inductor.kernel import flex  # noqa: F401  registers upstream's

    for op, dense in ((flex_attention, sdpa_dense), (flex_attention_backward, sdpa_dense_backward)):
        lowering.lowerings[op] = _by_operators(lowering.lowerings[op], dense)
