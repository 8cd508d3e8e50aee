"""Quantised layers of torchao on xpu, with the kernels that read 8-bit and 4-bit weights as they lie.

torchao's own code makes a floating copy of an int8 weight for each product, transposes the weight of an integer product, and
knows packed int4 weights of other devices only. The actions here run after its modules and change what they do with xpu tensors
alone; a program that uses `torchao.quantization.quantize_` stays as it is.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import torch

from xpu_ops.upstream.registry import replaces

_INT8 = "torchao.quantization.quantize_.workflows.int8.int8_tensor.Int8Tensor"
_INT4 = "torchao.quantization.quantize_.workflows.int4.int4_plain_int32_tensor.Int4PlainInt32Tensor"


def _per_row(weight: Any) -> bool:
    """Whether an Int8Tensor is one that `_weight_int8pack_mm` multiplies with: 8 bits by a scale per row, floats beside."""
    q = weight.qdata
    return (
        q.device.type == "xpu"
        and q.dim() == 2
        and q.is_contiguous()
        and weight.act_quant_kwargs is None
        and weight.block_size[-1] == q.shape[-1]
        and weight.scale.numel() == q.shape[0]
    )


@replaces(
    f"{_INT8}._ATEN_OP_TABLE[{_INT8}][torch.ops.aten.linear.default]",
    f"{_INT8}._TORCH_FN_TABLE[{_INT8}][torch.nn.functional.linear]",
    since="0.18",
    why="the product reads 8-bit weights as they lie: 1.3 instead of 7 bytes of memory traffic per weight of bf16",
    test="tests/models/test_torchao.py::test_layers",
)
def int8_linear(upstream: Any) -> Any:
    kind = sys.modules[_INT8.rpartition(".")[0]].Int8Tensor

    def run(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        x, weight = args[0], args[1]
        if not (
            isinstance(weight, kind)
            and _per_row(weight)
            and x.device == weight.qdata.device  # the weight's own asks torchao's table
            and x.dtype in (torch.bfloat16, torch.float16, torch.float32)
            and not (torch.is_grad_enabled() and x.requires_grad)  # the product has no derivative
        ):
            return upstream(func, types, args, kwargs)
        bias = args[2] if len(args) > 2 else None
        if weight.act_pre_scale is not None:
            x = (x * weight.act_pre_scale).to(x.dtype)
        rows = x.reshape(-1, x.shape[-1])
        scale = weight.scale.reshape(-1).to(x.dtype)
        y = torch.ops.aten._weight_int8pack_mm(rows, weight.qdata, scale)
        y = y.reshape(*x.shape[:-1], y.shape[-1])
        return y if bias is None else (y + bias).to(x.dtype)

    return run


@replaces(
    f"{_INT4}._ATEN_OP_TABLE[{_INT4}][torch.ops.aten.linear.default]",
    f"{_INT4}._TORCH_FN_TABLE[{_INT4}][torch.nn.functional.linear]",
    since="0.18",
    why="each shape that it asks of the weight goes through torchao's table: half of the time of a row on the host",
    test="tests/models/test_torchao.py::test_layers",
)
def int4_linear(upstream: Any) -> Any:
    def run(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return upstream(func, types, args, kwargs)

    return run


@replaces(
    "torchao.kernel.intmm.safe_int_mm",
    since="0.18",
    why="torchao prints the operand to see whether it is traced, and copies the weight into the order of cuBLAS",
    test="tests/models/test_torchao.py::test_layers",
)
def integer_products(upstream: Any) -> Any:
    """`_int_mm` takes a transposed weight and any sizes."""

    def safe_int_mm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:  # torchao names the argument so
        if input.device.type == "xpu" and mat2.device == input.device and input.dtype == mat2.dtype == torch.int8:
            return torch._int_mm(input, mat2)
        return upstream(input, mat2)

    return safe_int_mm


@replaces(
    "torchao.quantization.quant_api._int4_weight_only_quantize_tensor",
    since="0.18",
    why="weights on xpu take the packing of this device: the others are layouts of CUDA kernels, for which torchao asks a "
    "CUDA device or the package mslk",
    test="tests/models/test_torchao.py::test_layers",
)
def int4_weights(upstream: Any) -> Any:
    api = sys.modules["torchao.quantization.quant_api"]

    def quantize(weight: torch.Tensor, config: Any) -> torch.Tensor:
        hqq = config.int4_choose_qparams_algorithm == api.Int4ChooseQParamsAlgorithm.HQQ
        if weight.device.type == "xpu" and weight.dim() == 2 and not hqq:
            config = dataclasses.replace(config, int4_packing_format=api.Int4PackingFormat.PLAIN_INT32)
        return upstream(weight, config)

    return quantize
