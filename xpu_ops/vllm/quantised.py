"""vLLM's checkpoints with weights of 4 and 8 bits: its kernels for linear layers, and what it asks of a method."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from vllm.model_executor.kernels.linear import MPLinearKernel, MPLinearLayerConfig, register_linear_kernel
from vllm.model_executor.kernels.linear.scaled_mm import Int8ScaledMMLinearKernel, Int8ScaledMMLinearLayerConfig
from vllm.model_executor.layers.fused_moe import RoutedExperts
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.quantization import register_quantization_config
from vllm.model_executor.layers.quantization.auto_awq import AutoAWQConfig, AutoAWQMarlinLinearMethod
from vllm.model_executor.layers.quantization.auto_gptq import AutoGPTQConfig, AutoGPTQLinearMethod
from vllm.model_executor.layers.quantization.compressed_tensors.compressed_tensors import CompressedTensorsConfig
from vllm.model_executor.layers.quantization.compressed_tensors.schemes import (
    CompressedTensorsW8A8Int8,
    CompressedTensorsWNA16,
)
from vllm.model_executor.layers.quantization.utils.gptq_utils import get_linear_quant_method
from vllm.model_executor.layers.quantization.utils.quant_utils import is_layer_skipped
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.platforms.interface import PlatformEnum
from vllm.scalar_type import scalar_types

from xpu_ops.vllm import fewbits

_FLOATS = [torch.bfloat16, torch.float16, torch.float32]


def _refuse(layer: str, reason: str) -> NoReturn:
    raise NotImplementedError(
        f"xpu_ops.vllm does not serve {layer} with {reason}; XPU_OPS_VLLM=0 takes vLLM's own CPU platform"
    )


_KINDS = {
    (scalar_types.uint4b8, False), (scalar_types.uint4, True), (scalar_types.uint8b128, False), (scalar_types.uint8, True),
}  # fmt: skip


class XpuWeights(MPLinearKernel):
    """Weights of 4 or 8 bits, with or without zeros, in groups or with a scale per row, and floating inputs."""

    @classmethod
    def get_min_capability(cls) -> int:
        return -1

    @classmethod
    def can_implement(cls, c: MPLinearLayerConfig) -> tuple[bool, str | None]:
        columns = c.partition_weight_shape[0]
        if (c.weight_type, c.zero_points) not in _KINDS:
            return False, f"weights of {c.weight_type}{' with zeros' if c.zero_points else ''} are not served"
        if _by_row(c):
            return columns % 4 == 0, f"8 bits need columns in multiples of 4, not {columns}"
        if columns % 8 or fewbits.group_of(columns, c.group_size) is None:
            return False, f"groups and columns need to be multiples of 16, not {c.group_size} and {columns}"
        return True, None

    def process_weights_after_loading(self, layer: nn.Module) -> None:
        packed, scale, zero = self._get_weight_params(layer)
        bits = self.config.weight_type.size_bits
        rows = packed.data if packed.input_dim == 1 else packed.data.t()
        scales = scale.data.t() if scale.output_dim == 0 else scale.data
        zeros = None
        if self.config.zero_points and zero is not None:
            zeros = fewbits.unpack(zero.data, bits, zero.packed_dim)
            zeros = zeros.t() if zero.output_dim == 0 else zeros
        if _by_row(self.config):
            self.weight: Any = fewbits.Bytes.of(fewbits.centred_bytes(rows), scales, self.config.act_type)
        else:
            self.weight = (fewbits.Nibbles if bits == 4 else fewbits.Halves).of(rows, scales, zeros)
        for name in (self.w_q_name, self.w_s_name, self.w_zp_name):  # what was loaded is not read again
            if name is not None and hasattr(layer, name):
                delattr(layer, name)

    def apply_weights(self, layer: nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.weight.product(x, bias)


def _by_row(c: MPLinearLayerConfig) -> bool:
    return c.weight_type == scalar_types.uint8b128 and c.group_size in (-1, c.full_weight_shape[0])


class XpuIntegers(Int8ScaledMMLinearKernel):
    """Weights of 8 bits with a scale per row, and inputs that are rounded to 8 bits."""

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        return True, None

    @classmethod
    def can_implement(cls, c: Int8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        return True, None

    def process_weights_after_loading(self, layer: Any) -> None:
        packed, scale, given, zero, _ = self._get_layer_params(layer)
        if not self.config.is_channelwise:  # a scale for each of the layers that became one
            widths = torch.tensor(layer.logical_widths, device=scale.device)
            scale = scale.data.repeat_interleave(widths)
        weight = fewbits.Bytes.of(packed.data, scale.data, layer.params_dtype)
        self.weight = fewbits.Integers.of(
            weight,
            self.config.input_symmetric,
            None if given is None else given.data.float().max().reshape(1),
            None if zero is None or self.config.input_symmetric else zero.data.reshape(-1)[:1],
        )
        for name in self.layer_param_names[:4]:
            if hasattr(layer, name):
                delattr(layer, name)

    def apply_weights(self, layer: nn.Module, x: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.weight.product(x, bias)


class _Linear:
    """A layer without vLLM's question for CUDA's kernels."""

    def __init__(self, quant_config: Any) -> None:
        self.quant_config, self.quant_type, self.input_dtype = quant_config, quant_config.quant_type, None


class XpuGptqLinear(_Linear, AutoGPTQLinearMethod):
    """A layer of GPTQ."""


class XpuAwqLinear(_Linear, AutoAWQMarlinLinearMethod):
    """A layer of AWQ."""


class _Method:
    """A method for linear layers, with every floating type."""

    @classmethod
    def get_supported_act_dtypes(cls) -> list[torch.dtype]:
        return _FLOATS

    def get_quant_method(self, layer: nn.Module, prefix: str) -> Any:
        if isinstance(layer, RoutedExperts):
            _refuse(prefix, "experts of few bits")
        return self.for_linear(layer, prefix)

    def for_linear(self, layer: nn.Module, prefix: str) -> Any:
        raise NotImplementedError


class XpuGptq(_Method, AutoGPTQConfig):
    """GPTQ: symmetric, 4 or 8 bits."""

    def for_linear(self, layer: nn.Module, prefix: str) -> Any:
        return get_linear_quant_method(self, layer, prefix, XpuGptqLinear)


class XpuAwq(_Method, AutoAWQConfig):
    """AWQ: 4 bits in groups, with zeros."""

    def for_linear(self, layer: nn.Module, prefix: str) -> Any:
        if not isinstance(layer, LinearBase) and not (isinstance(layer, ParallelLMHead) and self.lm_head_quantized):
            return None
        if is_layer_skipped(prefix, self.modules_to_not_convert, self.packed_modules_mapping, match_mode="substring"):
            return UnquantizedLinearMethod()
        return XpuAwqLinear(self)


class XpuCompressedTensors(CompressedTensorsConfig):
    """compressed-tensors: weights of 4 and 8 bits beside floating inputs, and inputs of 8 bits."""

    def get_quant_method(self, layer: nn.Module, prefix: str) -> Any:
        if isinstance(layer, RoutedExperts):
            _refuse(prefix, "experts of few bits")
        return super().get_quant_method(layer, prefix)

    def _get_scheme_from_parts(
        self, weight_quant: Any, input_quant: Any, output_quant: Any = None, format: Any = None,
        layer_name: str | None = None,
    ) -> Any:  # fmt: skip
        named = f"the format {format or self.quant_format}, weights of {weight_quant.type} {weight_quant.num_bits}"
        if weight_quant.type != "int":
            _refuse(layer_name or "a layer", named)
        scheme = super()._get_scheme_from_parts(weight_quant, input_quant, output_quant, format, layer_name)
        if not isinstance(scheme, (CompressedTensorsW8A8Int8, CompressedTensorsWNA16)):
            _refuse(layer_name or "a layer", f"{named} by {type(scheme).__name__}")
        return scheme


METHODS = {
    "auto_gptq": XpuGptq,
    "gptq": XpuGptq,
    "gptq_marlin": XpuGptq,
    "auto_awq": XpuAwq,
    "awq": XpuAwq,
    "awq_marlin": XpuAwq,
    "compressed-tensors": XpuCompressedTensors,
}
for _name, _config in METHODS.items():
    register_quantization_config(_name)(_config)
register_linear_kernel(XpuWeights, PlatformEnum.OOT, "mp")
register_linear_kernel(XpuIntegers, PlatformEnum.OOT, "int8")
