"""Recipes of operators that make quantized tensors of dense ones."""

from __future__ import annotations

from typing import Any

import torch

from support.recipe import UNDRAWN, recipe

Args = dict[str, Any]


def integers(result: Any) -> Any:
    """The integers alone; aten/test_quantized.py compares the scheme, too."""
    return [q.int_repr() for q in result] if isinstance(result, (list, tuple)) else result.int_repr()


def grid(d: Any) -> tuple[float, int]:
    return d.pick(0.5, 0.1, 3.0), d.int(0, 90)


DTYPES = (torch.quint8, torch.qint8, torch.qint32)


@recipe("quantize_per_tensor", types=("f32",), view=integers,
        bad={"dtype": [torch.uint8], "zero_point": [999999999999], "self": [torch.ones(2).double()]})  # fmt: skip
def per_tensor(d: Any) -> Args:
    x, (scale, zero), dtype = d.tensor(d.any_shape(), domain=(-99, 99)), grid(d), d.pick(*DTYPES)
    if d.name.endswith(".tensors"):
        return {"tensors": [x, x[..., :1]] if x.dim() else [x, x], "scales": torch.tensor([scale, 1.0]),
                "zero_points": torch.tensor([zero, 0]), "dtype": dtype}  # fmt: skip
    if d.name.endswith(".tensor_qparams"):
        return {"self": x, "scale": torch.tensor(scale), "zero_point": torch.tensor(zero), "dtype": dtype}
    return {"self": x, "scale": scale, "zero_point": zero, "dtype": dtype}


@recipe("quantize_per_tensor_dynamic", types=("f32",), view=integers, bad={"dtype": [torch.qint32]})
def dynamic(d: Any) -> Args:
    return {"self": d.tensor(d.any_shape(), domain=(-99, 99)), "dtype": d.pick(*DTYPES[:2]), "reduce_range": d.flag()}


@recipe("quantize_per_channel", types=("f32",), view=integers,
        bad={"axis": [9, -1], "scales": [torch.ones(77), torch.ones(2, 2)], "zero_points": [torch.ones(77).long()]})  # fmt: skip
def per_channel(d: Any) -> Args:
    x = d.tensor((*d.ints(d.int(0, 2), 0, 4), d.int(1, 4), *d.ints(d.int(0, 2), 0, 4)), domain=(-99, 99))
    axis = d.int(0, x.dim() - 1)
    scales, zeros = torch.arange(x.shape[axis]) / 8 + 0.25, torch.arange(x.shape[axis])
    return {"self": x, "scales": scales, "zero_points": zeros, "axis": axis, "dtype": d.pick(*DTYPES)}


@recipe("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor", types=("u8", "i32"), view=integers)
def of_integers(d: Any) -> Args:
    x = d.tensor(d.ints(d.int(1, 3), 0, 4))
    axis = d.int(0, x.dim() - 1)
    if "channel" in d.name:
        n = x.shape[axis]
        return {"self": x, "scale": torch.ones(n), "zero_point": torch.zeros(n).long(), "axis": axis}
    return {"self": x, "scale": 0.5, "zero_point": 3}


UNDRAWN.update({r"_empty_(affine|per_channel_affine)_quantized": "of dense types it raises: aten/test_quantized.py"})
