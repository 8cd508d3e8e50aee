"""The generated rows that tests are made of."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import torch

from xpu_ops._paths import package_dir

TORCH_TYPES = {
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c32": torch.complex32,
    "c64": torch.complex64, "c128": torch.complex128, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16,
    "i32": torch.int32, "i64": torch.int64, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "b8": torch.bool, "f8e5m2": torch.float8_e5m2, "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2fnuz": torch.float8_e5m2fnuz, "f8e4m3fnuz": torch.float8_e4m3fnuz, "f8e8m0fnu": torch.float8_e8m0fnu,
}  # fmt: skip


@cache
def rows() -> list[dict[str, Any]]:
    """Every manifest row of dense tensors, as codegen wrote it."""
    return [r for r in json.loads((package_dir() / "manifest.json").read_text())["rows"] if r["key"] == "XPU"]


def overload(name: str) -> Any:
    """torch.ops.aten.<name>, or that of another namespace: "mkldnn::_linear_pointwise.binary"."""
    namespace, _, rest = name.rpartition("::")
    base, _, over = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), over or "default")
