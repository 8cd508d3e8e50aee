"""`vllm_xpu_kernels.fused_moe_interface`: layers of experts."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from xpu_ops.vllm.kernels import moe_formats

FUSEDMOE_AVAILABLE = True
FUSEDMOE_UNAVAILABLE_REASON = None

_EIGHT = (torch.float8_e4m3fn, torch.float8_e5m2)


def _grouped(
    rows: Tensor, weights: Tensor, scales: Tensor | None, bias: Tensor | None, out: Tensor, counts: Tensor
) -> Tensor:
    return torch.ops._xpu_C.cutlass_grouped_gemm_interface(
        rows, None, weights, scales, bias, out, counts, out.size(1), rows.size(1), weights.size(0)
    )


def cutlass_grouped_gemm(
    input_A: Tensor,
    input_B: Tensor,
    bias: Tensor | None,
    output: Tensor,
    expert_token_count: Sequence[int],
    n: int,
    k: int,
    num_experts: int,
) -> None:
    """Write the product of each expert's rows and weight, the rows of an expert after those of the last.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: the operator `_xpu_C::cutlass_grouped_gemm_interface`.
    """
    counts = torch.tensor(expert_token_count, dtype=torch.int32, device=input_A.device)
    _grouped(input_A, input_B, None, bias, output, counts)


def cutlass_grouped_gemm_xe2(
    input_A: Tensor,
    input_B: Tensor,
    scales: Tensor | None,
    bias: Tensor | None,
    output: Tensor,
    num_rows_per_expert: Tensor,
    n: int,
    k: int,
    num_experts: int,
) -> None:
    """As :func:`cutlass_grouped_gemm`, with scales of weights of few bits and the counts on the device.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: the operator `_xpu_C::cutlass_grouped_gemm_interface`.
    """
    _grouped(input_A, input_B, scales, bias, output, num_rows_per_expert)


def _activations(beta: float | None, linear_beta: float | None) -> dict[str, object]:
    ops = torch.ops._C
    return {
        "silu": ops.silu_and_mul,
        "gelu": ops.gelu_and_mul,
        "gelu_tanh": ops.gelu_tanh_and_mul,
        "swigluoai": ops.swigluoai_and_mul,
        "relu2_no_mul": ops.relu2_no_mul,
        "swiglustep": ops.swiglustep_and_mul,
        "situ": functools.partial(
            ops.situ_and_mul, beta=beta, linear_beta=-1.0 if linear_beta is None else linear_beta
        ),
    }


class XpuFusedMoe:
    """A layer of experts: products, activation, products, weighted sum.

    Args:
        w13, w2: (experts, K, 2 * N) and (experts, N, K) in 16 bits or floats of 8 bits; (experts, 2 * N, K / 2) and
            (experts, K, N / 2) in 4 bits, unsigned around 8 (uint8) or floats (e2m1).
        w13_scales, w2_scales: of weights of few bits: per expert, per group of 32, or per block of 128 by 128; of unsigned
            values of 4 bits (experts, rows, groups).
        w13_bias, w2_bias: (experts, 2 * N) and (experts, K).
        n_experts_per_token: experts of a token.
        activation: silu, gelu, gelu_tanh, swigluoai, relu2_no_mul, swiglustep or situ.
        num_experts: of this device.
        ep_rank, ep_size: which part of all experts these are, where `expert_map` does not say it.
        expert_map: the place here of each of all experts; -1 for none.
        gemm1_clamp_limit: bound of the values before the activation.

    Raises:
        ValueError: for an unknown activation, or situ without a finite beta above zero.

    Source: vLLM's fused_experts; the operators of `_moe_C` and `_xpu_C`.
    """

    def __init__(
        self,
        w13: Tensor,
        w13_scales: Tensor | None,
        w13_bias: Tensor | None,
        w2: Tensor,
        w2_scales: Tensor | None,
        w2_bias: Tensor | None,
        n_experts_per_token: int,
        activation: str,
        num_experts: int,
        ep_rank: int = 0,
        ep_size: int = 1,
        expert_map: Tensor | None = None,
        gemm1_clamp_limit: float | None = None,
        activation_situ_beta: float | None = None,
        activation_situ_linear_beta: float | None = None,
    ) -> None:
        name = "swigluoai" if "SWIGLUOAI" in str(activation) else str(activation)
        table = _activations(activation_situ_beta, activation_situ_linear_beta)
        if name not in table:
            raise ValueError(f"XpuFusedMoe: unknown activation {activation!r}")
        if name == "situ" and not (
            activation_situ_beta is not None and math.isfinite(activation_situ_beta) and activation_situ_beta > 0
        ):
            raise ValueError("XpuFusedMoe: situ needs activation_situ_beta, finite and above zero")
        self.activate, self.gated = table[name], name != "relu2_no_mul"
        self.is_int4, self.is_mxfp4 = w13.dtype == torch.uint8, w13.dtype == torch.float4_e2m1fn_x2
        kind, dims = (None, 0) if w13_scales is None else (w13_scales.dtype, w13_scales.dim())
        eight = w13.dtype in _EIGHT and kind is not None
        self.is_mxfp8 = eight and kind in (torch.uint8, torch.float8_e8m0fnu)
        self.is_block_fp8 = eight and kind == torch.float32 and dims == 3
        self.is_fp8 = eight and not self.is_mxfp8 and not self.is_block_fp8
        few = self.is_int4 or self.is_mxfp4
        self._use_ref = self._block_fp8_promoted = False  # names that callers of the distribution read
        self.w13, self.w2 = (w.view(torch.int8) ^ -120 if self.is_int4 else w for w in (w13, w2))
        self.gemm1_wei_scales, self.gemm2_wei_scales = (w13_scales, w2_scales) if few or eight else (None, None)
        self.w13_bias, self.w2_bias = w13_bias, w2_bias
        self.inner = w13.size(-2 if few else -1)
        self.count, self.num_experts, self.bound = n_experts_per_token, num_experts, gemm1_clamp_limit
        if expert_map is None and ep_size > 1:
            expert_map = torch.empty(num_experts * ep_size, dtype=torch.int32, device=w13.device)
            torch.ops._moe_C.init_expert_map(expert_map, num_experts, ep_rank, ep_size)
        self.expert_map = expert_map
        # Of rows that come with scales.
        self.recipe = "mxfp4" if self.is_mxfp4 else "mxfp8" if self.is_mxfp8 else "fp8block"

    def apply(
        self,
        output: Tensor,
        hidden_states: Tensor,
        topk_weights: Tensor,
        topk_ids: Tensor,
        expert_map: Tensor | None = None,
        a1q_scale: Tensor | None = None,
    ) -> None:
        """Write the weighted sum of what the experts make of each token.

        Args:
            output: (tokens, K).
            hidden_states: (tokens, K).
            topk_weights, topk_ids: (tokens, count).
            expert_map: in the place of the layer's.
            a1q_scale: of hidden_states in 8 or 4 bits, per group; the rows are widened before the products.

        Raises:
            RuntimeError: for shapes that do not fit.

        Source: the operators of `_moe_C` and `_xpu_C`.
        """
        device, dtype = hidden_states.device, output.dtype
        rows = hidden_states
        if a1q_scale is not None:
            rows = self._widen(hidden_states, a1q_scale).to(dtype)
        expert_map = self.expert_map if expert_map is None else expert_map
        tokens, width = rows.shape
        every = tokens * self.count
        spread = torch.empty((every, width), dtype=rows.dtype, device=device)
        counts = torch.empty(self.num_experts, dtype=torch.int32, device=device)
        places = torch.empty((tokens, self.count), dtype=torch.int32, device=device)
        total = self.num_experts if expert_map is None else expert_map.numel()
        torch.ops._moe_C.remap_hidden_states(
            rows, None, spread, None, expert_map, counts, places, topk_ids, total, self.num_experts
        )
        first = torch.empty((every, self.inner), dtype=dtype, device=device)
        _grouped(spread, self.w13, self.gemm1_wei_scales, self.w13_bias, first, counts)
        if self.bound is not None and self.bound > 0:
            gate, up = first.chunk(2, -1)
            gate.clamp_(max=self.bound)
            up.clamp_(-self.bound, self.bound)
        middle = torch.empty((every, self.inner // 2 if self.gated else self.inner), dtype=dtype, device=device)
        self.activate(middle, first)  # type: ignore[operator]
        if a1q_scale is not None:
            middle = self._widen(*moe_formats.quant_act_xpu(middle, self.recipe)).to(dtype)
        second = torch.empty((every, width), dtype=dtype, device=device)
        _grouped(middle, self.w2, self.gemm2_wei_scales, self.w2_bias, second, counts)
        torch.ops._moe_C.moe_gather(output, second, topk_weights, places, self.num_experts)

    def _widen(self, rows: Tensor, scale: Tensor) -> Tensor:
        if self.recipe == "mxfp4":
            return moe_formats.dequant_mxfp4(rows, scale)
        return (
            moe_formats.dequant_mxfp8(rows, scale)
            if self.recipe == "mxfp8"
            else moe_formats.dequant_fp8_block_act(rows, scale)
        )
