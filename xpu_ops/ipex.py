"""IPEX's names on xpu_ops: `import xpu_ops.ipex as ipex` in place of `import intel_extension_for_pytorch as ipex`.

A thin mapping to :func:`xpu_ops.optimize`; docs/ipex.md has the table. Arguments that name an engine of IPEX are taken and
have no effect; the ones that would change results raise.
"""

from __future__ import annotations

import copy
import enum
import warnings
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from xpu_ops import _optimize

__all__ = ["enable_onednn_fusion", "llm", "optimize", "quantization"]


class WoqWeightDtype(enum.IntEnum):
    """Types of quantised weights; NF4 has no kernel here.

    Source: intel_extension_for_pytorch.quantization.WoqWeightDtype, its names and numbers.
    """

    INT8 = 1
    INT4 = 2
    NF4 = 3


class WoqWeightQScheme(enum.IntEnum):
    """How weights are quantised.

    Source: intel_extension_for_pytorch.quantization.WoqWeightQScheme.
    """

    UNDEFINED = 0
    ASYMMETRIC = 1
    SYMMETRIC = 2


class WoqConfig:
    """IPEX calls it a QConfig mapping for weight-only quantisation."""

    def __init__(self, weights: _optimize.WeightFormat) -> None:
        self.weights = weights


def get_weight_only_quant_qconfig_mapping(
    *,
    weight_dtype: int = WoqWeightDtype.INT8,
    lowp_mode: int = 0,
    act_quant_mode: int = 0,
    group_size: int = -1,
    weight_qscheme: int = WoqWeightQScheme.UNDEFINED,
) -> WoqConfig:
    """Return the configuration for `llm.optimize(quantization_config=...)`.

    Args:
        weight_dtype: INT8 or INT4.
        lowp_mode, act_quant_mode: taken; products run in the type of the activations.
        group_size: for INT4: 16, 32, 64, 128 or 256; -1 is 128. INT8 has a scale per row.
        weight_qscheme: UNDEFINED is symmetric for INT8 and asymmetric for INT4.

    Raises:
        NotImplementedError: for NF4, asymmetric INT8, or INT8 in groups.
        ValueError: for another group.

    Source: intel_extension_for_pytorch.quantization.get_weight_only_quant_qconfig_mapping; xpu_ops/_optimize/weights.py.
    """
    if weight_dtype == WoqWeightDtype.INT4:
        symmetric = weight_qscheme == WoqWeightQScheme.SYMMETRIC
        return WoqConfig(_optimize.WeightFormat(4, 128 if group_size == -1 else group_size, symmetric))
    if weight_dtype != WoqWeightDtype.INT8:
        raise NotImplementedError(f"weight_dtype={weight_dtype!r}: xpu_ops has weights of INT8 and INT4")
    if weight_qscheme == WoqWeightQScheme.ASYMMETRIC or group_size != -1:
        raise NotImplementedError(
            "weights of INT8 are symmetric, with a scale per row: leave weight_qscheme and group_size out"
        )
    return WoqConfig(_optimize.WeightFormat(8))


def _target(model: nn.Module, inplace: bool) -> nn.Module:
    return model if inplace else copy.deepcopy(model)


def _example(sample: Any) -> Any:
    if sample is None or hasattr(sample, "keys"):
        return sample
    return tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)


def optimize(
    model: nn.Module,
    dtype: torch.dtype | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    level: str = "O1",
    inplace: bool = False,
    conv_bn_folding: bool | None = None,
    linear_bn_folding: bool | None = None,
    weights_prepack: bool | None = None,
    replace_dropout_with_identity: bool | None = None,
    optimize_lstm: bool | None = None,
    split_master_weight_for_bf16: bool | None = None,
    fuse_update_step: bool | None = None,
    auto_kernel_selection: bool | None = None,
    sample_input: Any = None,
    graph_mode: bool | None = None,
    concat_linear: bool | None = None,
) -> Any:
    """Return the optimized model, and with an optimizer the pair of both, as intel_extension_for_pytorch.optimize.

    Args:
        dtype: of the parameters, in eval mode. In training parameters keep float32, and autocast computes in bfloat16.
        level: "O0" changes nothing, "O1" everything.
        inplace: whether the model itself changes; not in training, where the optimizer holds its parameters.
        sample_input: runs once before and after, to pack weights and load kernels.
        The others choose engines of IPEX and have no effect.

    Raises:
        ValueError: for another level.

    Source: intel_extension_for_pytorch.optimize; :func:`xpu_ops.optimize` does the work.
    """
    if level not in ("O0", "O1"):
        raise ValueError(f"ipex.optimize: level must be 'O0' or 'O1', got {level!r}")
    if model.training and dtype is not None:
        if dtype != torch.float32:
            warnings.warn("ipex.optimize: in training parameters stay float32; use autocast", stacklevel=2)
        dtype = None
    # An optimizer updates the parameters that it was given: a copy would never learn.
    target = _target(model, inplace or optimizer is not None)
    if level == "O1":
        _optimize.optimize(target, dtype, example=_example(sample_input))
    return target if optimizer is None else (target, optimizer)


def _optimize_llm(
    model: nn.Module,
    optimizer: Any = None,
    dtype: torch.dtype = torch.float32,
    inplace: bool = False,
    device: str = "cpu",
    quantization_config: WoqConfig | None = None,
    qconfig_summary_file: Any = None,
    low_precision_checkpoint: Any = None,
    sample_inputs: Any = None,
    deployment_mode: bool = True,
    cache_weight_for_large_batch: bool = False,
) -> nn.Module:
    """Return the optimized model, as intel_extension_for_pytorch.llm.optimize.

    Args:
        dtype: of the parameters.
        inplace: whether the model itself changes.
        device: "cpu" or "xpu": where the model lies and tensors come from; the model is served on xpu either way.
        quantization_config: of :func:`get_weight_only_quant_qconfig_mapping`; static quantisation is not there.
        sample_inputs: run before and after, to pack weights and load kernels.
        deployment_mode, cache_weight_for_large_batch: taken, without effect; use torch.compile for graphs.

    Raises:
        NotImplementedError: for an optimizer, a static quantisation or a low-precision checkpoint.

    Source: intel_extension_for_pytorch.llm.optimize; :func:`xpu_ops.optimize` does the work.
    """
    for name, value in {
        "optimizer": optimizer,
        "qconfig_summary_file": qconfig_summary_file,
        "low_precision_checkpoint": low_precision_checkpoint,
    }.items():
        if value is not None:
            raise NotImplementedError(f"ipex.llm.optimize: {name} has no counterpart in xpu_ops")
    if quantization_config is not None and not isinstance(quantization_config, WoqConfig):
        raise NotImplementedError(
            "ipex.llm.optimize: quantization_config must come from quantization.get_weight_only_quant_qconfig_mapping"
        )
    target = _target(model, inplace).eval()
    if device == "xpu":
        target.to("xpu")
    weights = None if quantization_config is None else quantization_config.weights
    return _optimize.optimize(target, dtype, weights, _example(sample_inputs))


def enable_onednn_fusion(enabled: bool) -> None:
    """Taken, without effect: operators are fused by :func:`optimize` or by torch.compile, not in TorchScript.

    Args:
        enabled: either value.

    Source: intel_extension_for_pytorch.enable_onednn_fusion.
    """


llm = SimpleNamespace(optimize=_optimize_llm)
quantization = SimpleNamespace(
    WoqWeightDtype=WoqWeightDtype,
    WoqWeightQScheme=WoqWeightQScheme,
    get_weight_only_quant_qconfig_mapping=get_weight_only_quant_qconfig_mapping,
)
