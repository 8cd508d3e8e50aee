"""Values of nodes in torch.fx graphs."""

from __future__ import annotations

from typing import Any

from torch import fx


def value_of(node: object) -> Any:
    """The fake tensor that a node stands for, or nothing."""
    return node.meta.get("val") if isinstance(node, fx.Node) else None
