"""Nodes of torch.fx graphs, as the passes ask for them."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import fx
from torch._ops import OpOverload

CONVERT = torch.ops.prims.convert_element_type.default
Arguments: TypeAlias = tuple[Any, ...]


def value_of(node: object) -> Any:
    """The fake tensor that a node stands for, or nothing."""
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def only_user(node: fx.Node) -> fx.Node | None:
    """The one node that reads it."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def arguments(node: object, target: OpOverload) -> Arguments | None:
    """Of a call of that operator without keywords."""
    return node.args if isinstance(node, fx.Node) and node.target is target and not node.kwargs else None


def in_place_of(node: fx.Node, target: OpOverload, args: Arguments) -> fx.Node:
    """A call of that operator, which all who read the node read instead."""
    graph = node.graph
    with graph.inserting_before(node):
        new = graph.call_function(target, args)
    new.meta.update(node.meta)
    node.replace_all_uses_with(new)
    return new
