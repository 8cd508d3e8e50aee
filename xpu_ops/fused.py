"""Fused operators: `torch.ops.xpu_ops.*` as functions, with their documentation and their fake functions for tracing.

Each is one operator of the dispatcher: it works with autograd, autocast and torch.compile, and on CPU tensors, where it
is composed of torch's operators. Calls that want gradients of a chain of post-ops are composed too, because the gradient
needs the values in between; the norms and the rotation have gradients of their own.

Post-ops are applied in order. A name alone is an activation of :func:`xpu_ops.onednn.eltwise_names`, with parameters as
in "clip:0,6" or "swish:alpha=1.7"; a name of :func:`xpu_ops.onednn.binary_names` or "prelu" takes the next of `operands`,
which has to broadcast to the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "conv",
    "gated_linear",
    "linear",
    "matmul",
    "rms_norm",
    "rotary_embedding",
]

_ops = torch.ops.xpu_ops


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, post_ops: Sequence[str] = (), operands: Sequence[Tensor] = ()
) -> Tensor:
    """Return x @ weight.T + bias, followed by a chain of post-ops, in one primitive where oneDNN has one.

    Args:
        x: (..., K), float32, bfloat16 or float16; other types are composed.
        weight: (N, K), of x's type.
        bias: (N,), of x's type.
        post_ops, operands: the chain, see the module's documentation; the result has shape (..., N).

    Raises:
        ValueError: for an unknown post-op, or where operands are left over or missing.
        RuntimeError: for shapes that do not fit.

    Source: at::linear with the post-ops of oneDNN's primitive `matmul` (dnnl::matmul, dnnl::post_ops).
    """
    return _ops.linear(x, weight, bias, list(post_ops), list(operands))


def matmul(
    a: Tensor, b: Tensor, bias: Tensor | None = None, post_ops: Sequence[str] = (), operands: Sequence[Tensor] = ()
) -> Tensor:
    """Return a @ b + bias, followed by a chain of post-ops.

    Args:
        a, b: (..., M, K) and (K, N), or (B, M, K) and (B, K, N); other shapes that torch.matmul takes are composed.
        bias: (N,).
        post_ops, operands: as in :func:`linear`.

    Raises:
        ValueError: for an unknown post-op, or where operands are left over or missing.
        RuntimeError: for shapes that do not fit.

    Source: at::matmul with the post-ops of oneDNN's primitive `matmul`.
    """
    return _ops.matmul(a, b, bias, list(post_ops), list(operands))


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: int | Sequence[int] = 0,
    post_ops: Sequence[str] = (),
    operands: Sequence[Tensor] = (),
) -> Tensor:
    """Return a (transposed) convolution in 1 to 3 dimensions, followed by a chain of post-ops.

    Args:
        x: (N, C, spatial...), contiguous or channels-last; the result has the layout that torch.convolution gives.
        weight: (O, C / groups, k...), transposed (C, O / groups, k...).
        bias: (O,).
        stride, padding, dilation, output_padding: one number, or one per spatial dimension.
        post_ops, operands: as in :func:`linear`.

    Raises:
        ValueError: for an unknown post-op, operands left over or missing, or shapes that do not fit.

    Source: at::convolution with the post-ops of oneDNN's primitives `convolution` and `deconvolution`.
    """
    lists = [[v] if isinstance(v, int) else list(v) for v in (stride, padding, dilation, output_padding)]
    return _ops.conv(x, weight, bias, *lists[:3], groups, transposed, lists[3], list(post_ops), list(operands))


def gated_linear(
    x: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    gate_bias: Tensor | None = None,
    up_bias: Tensor | None = None,
    activation: str = "silu",
) -> Tensor:
    """Return activation(x @ gate_weight.T + gate_bias) * (x @ up_weight.T + up_bias), in two primitives.

    Args:
        x: (..., K).
        gate_weight, up_weight: (N, K).
        gate_bias, up_bias: (N,).
        activation: a name of :func:`xpu_ops.onednn.eltwise_names`: "silu" is SwiGLU, "gelu" GeGLU.

    Raises:
        ValueError: for an unknown activation.
        RuntimeError: for shapes that do not fit.

    Source: Shazeer, GLU Variants Improve Transformer, arXiv:2002.05202.
    """
    return _ops.gated_linear(x, gate_weight, up_weight, gate_bias, up_bias, activation)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Return x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32 (float64 for float64).

    Args:
        x: (..., C), any floating type.
        weight: (C,), of x's type or float32.
        eps: None for the epsilon of the type that it is computed in.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467; at::rms_norm.
    """
    return _ops.rms_norm(x, weight, eps)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return (rms_norm(s), s) with s = x + residual rounded to their type, in one pass over memory.

    Args:
        x, residual: (..., C), of one shape and floating type.
        weight, eps: as in :func:`rms_norm`.

    Raises:
        RuntimeError: for shapes or types that do not fit.

    Source: as :func:`rms_norm`, with the residual sum of pre-norm transformers (Xiong et al., arXiv:2002.04745).
    """
    y, total, _ = _ops.add_rms_norm(x, residual, weight, eps)
    return y, total


def add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor]:
    """Return (layer_norm(s), s) with s = x + residual rounded to their type, in one pass over memory.

    Args:
        x, residual: (..., C), of one shape and floating type.
        weight, bias: (C,), of x's type or float32.

    Raises:
        RuntimeError: for shapes or types that do not fit.

    Source: Ba, Kiros and Hinton, Layer Normalization, arXiv:1607.06450; at::layer_norm of a residual sum.
    """
    y, total, _, _ = _ops.add_layer_norm(x, residual, weight, bias, eps)
    return y, total


def rotary_embedding(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, inverse: bool = False) -> Tensor:
    """Rotate pairs of the last dimension: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), in one pass over memory.

    Args:
        x: (..., D) with an even D, up to four dimensions (more are composed), any floating type.
        cos, sin: broadcast to x in all but the last dimension, which is D, or D / 2 where both of a pair share an entry.
        interleaved: pairs are neighbours, as in GPT-J; otherwise the halves of the dimension, as in GPT-NeoX and Llama.
        inverse: the transposed rotation, which is what the gradient is.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv:2104.09864.
    """
    return _ops.rotary_embedding(x, cos, sin, interleaved, inverse)


# ---- fake functions: shapes, strides and types without values, for torch.compile and torch.export


def _fake_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, post_ops: Sequence[str] = (), operands: Sequence[Tensor] = ()
) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _fake_matmul(
    a: Tensor, b: Tensor, bias: Tensor | None = None, post_ops: Sequence[str] = (), operands: Sequence[Tensor] = ()
) -> Tensor:
    return torch.matmul(a, b)


def _fake_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (),
    padding: Sequence[int] = (),
    dilation: Sequence[int] = (),
    groups: int = 1,
    transposed: bool = False,
    output_padding: Sequence[int] = (),
    post_ops: Sequence[str] = (),
    operands: Sequence[Tensor] = (),
) -> Tensor:
    def each(values: Sequence[int], none: int) -> list[int]:
        count = x.dim() - 2
        return [none] * count if not values else list(values) * count if len(values) == 1 else list(values)

    s, p, d, o = each(stride, 1), each(padding, 0), each(dilation, 1), each(output_padding, 0)
    sizes = [x.shape[0], weight.shape[1] * groups if transposed else weight.shape[0]]
    for i, (size, kernel) in enumerate(zip(x.shape[2:], weight.shape[2:], strict=True)):
        reach = d[i] * (kernel - 1) + 1
        if transposed:
            sizes.append((size - 1) * s[i] - 2 * p[i] + reach + o[i])
        else:
            sizes.append((size + 2 * p[i] - reach) // s[i] + 1)
    from torch._prims_common import suggest_memory_format

    last = (torch.channels_last, torch.channels_last_3d)
    formats = [f for f in (suggest_memory_format(x), suggest_memory_format(weight)) if f in last and x.dim() > 3]
    return x.new_empty(sizes).to(memory_format=formats[0]) if formats else x.new_empty(sizes)


def _fake_conv_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    bounds: Sequence[float],
    post_ops: Sequence[str],
    operands: Sequence[Tensor],
) -> Tensor:
    return _fake_conv(x, weight, bias, stride, padding, dilation, groups)


def _fake_gated_linear(
    x: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    gate_bias: Tensor | None = None,
    up_bias: Tensor | None = None,
    activation: str = "silu",
) -> Tensor:
    return x.new_empty((*x.shape[:-1], gate_weight.shape[0]))


def _fake_rms_norm(x: Tensor, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    return x.new_empty(x.shape)


def _statistics(x: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:-1], 1), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def _fake_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), _statistics(x)


def _fake_add_layer_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), _statistics(x), _statistics(x)


def _fake_rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, inverse: bool = False
) -> Tensor:
    return torch.empty_like(x if x.stride(-1) == 1 else x.contiguous())


def _fake__gated_unit(
    out: Tensor, gate: Tensor, up: Tensor, activation: str, first: float = 0.0, second: float = 0.0
) -> None:
    return None


def _fake__place_rows(keys: Tensor, values: Tensor, key: Tensor, value: Tensor, slots: Tensor) -> None:
    return None


def _fake__choose_experts(
    weights: Tensor, ids: Tensor, sources: Tensor, scores: Tensor, scoring: str, renormalize: bool, bias: Tensor | None = None,
    factor: float = 1.0, padding: Tensor | None = None, groups: int = 1, kept: int = 1,
) -> None:  # fmt: skip
    return None


def _fake__align_experts(
    sorted: Tensor, expert_ids: Tensor, total: Tensor, ids: Tensor, experts: int, block: int, map: Tensor | None = None,
    empty: int = 0,
) -> None:  # fmt: skip
    return None


def _fake__spread_rows(
    out: Tensor, out_scales: Tensor, counts: Tensor, places: Tensor, x: Tensor, scales: Tensor | None, ids: Tensor,
    map: Tensor | None = None,
) -> None:  # fmt: skip
    return None


def _fake__sum_experts(
    out: Tensor, rows: Tensor, places: Tensor | None = None, weights: Tensor | None = None, ids: Tensor | None = None,
    map: Tensor | None = None,
) -> None:  # fmt: skip
    return None


def _fake__swiglu_pairs(out: Tensor, x: Tensor, alpha: float, limit: float) -> None:
    return None


def _fake__round_rows(
    out: Tensor, scales: Tensor, x: Tensor, group: int, bound: Tensor | None = None, least_value: float = 0.0,
    least_scale: float = 0.0, one: bool = False, exponents: bool = False, inverse: bool = False,
) -> None:  # fmt: skip
    return None


def _fake__round_by(out: Tensor, x: Tensor, scale: Tensor, safe: bool = False) -> None:
    return None


def _register(fake: Callable[..., object]) -> None:
    torch.library.register_fake(f"xpu_ops::{fake.__name__.removeprefix('_fake_')}", fake)


for _fake in (
    _fake_linear, _fake_matmul, _fake_conv, _fake_conv_norm, _fake_gated_linear, _fake_rms_norm, _fake_add_rms_norm,
    _fake_add_layer_norm, _fake_rotary_embedding, _fake__gated_unit, _fake__place_rows,
    _fake__choose_experts, _fake__align_experts, _fake__spread_rows, _fake__sum_experts, _fake__swiglu_pairs,
    _fake__round_rows, _fake__round_by,
):  # fmt: skip
    _register(_fake)
