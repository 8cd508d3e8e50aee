"""FlopCounterMode of torch.utils: the formulas of operators that only this device runs."""

from __future__ import annotations

import importlib
from math import prod
from typing import Any

import torch

from xpu_ops.upstream.registry import adds

_TABLE = "torch.utils.flop_counter.flop_registry"
_ATTENTION = f"{_TABLE}[torch.ops.aten._scaled_dot_product_fused_attention_overrideable]"
_ATTENTION_BACKWARD = f"{_TABLE}[torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward]"


@adds(
    _ATTENTION,
    _ATTENTION_BACKWARD,
    since="2.13",
    why="torch has formulas for CUDA's attention operators alone",
    test="tests/runtime/test_flop_counter.py::test_attention",
)
def count_attention() -> dict[str, Any]:
    formulas = importlib.import_module("torch.utils.flop_counter").flop_registry
    aten = torch.ops.aten
    return {
        _ATTENTION: formulas[aten._scaled_dot_product_flash_attention],
        _ATTENTION_BACKWARD: formulas[aten._scaled_dot_product_flash_attention_backward],
    }


def _linear(x: Any, weight: Any, *_: Any, **__: Any) -> int:
    return 2 * x.numel() * weight.shape[0]


def _gated_linear(x: Any, gate: Any, up: Any, *_: Any, **__: Any) -> int:
    return _linear(x, gate) + _linear(x, up)


def _matmul(a: Any, b: Any, *_: Any, **__: Any) -> int:
    return 2 * a.numel() * b.shape[-1]


def _conv(x: Any, weight: Any, *args: Any, out_val: Any, **_: Any) -> int:
    transposed = args[5]
    positions = (x if transposed else out_val).shape[2:]
    return 2 * x.shape[0] * prod(positions) * weight.numel()


def _conv_norm(x: Any, weight: Any, *_: Any, out_val: Any, **__: Any) -> int:
    return 2 * x.shape[0] * prod(out_val.shape[2:]) * weight.numel()


_FUSED = {"linear": _linear, "gated_linear": _gated_linear, "matmul": _matmul, "conv": _conv, "conv_norm": _conv_norm}


@adds(
    *(f"{_TABLE}[torch.ops.xpu_ops.{name}]" for name in _FUSED),
    since="2.13",
    why="the operators of torch.ops.xpu_ops are this package's own",
    test="tests/runtime/test_flop_counter.py::test_fused_operators",
)
def count_fused() -> dict[str, Any]:
    return {f"{_TABLE}[torch.ops.xpu_ops.{name}]": formula for name, formula in _FUSED.items()}
