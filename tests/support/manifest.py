"""The generated rows that tests are made of."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from xpu_ops import _dtypes
from xpu_ops._paths import manifest
from xpu_ops.upstream import torchvision as _torchvision

TORCH_TYPES = {short: getattr(torch, name) for short, name in _dtypes.names().items()}


_torchvision.make_known()


@cache
def rows() -> list[dict[str, Any]]:
    """Every manifest row of dense tensors, as codegen wrote it."""
    return [r for r in manifest()["rows"] if r["key"] == "XPU"]


def overload(name: str) -> Any:
    """torch.ops.aten.<name>, or that of another namespace: "mkldnn::_linear_pointwise.binary"."""
    namespace, _, rest = name.rpartition("::")
    base, _, over = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), over or "default")
