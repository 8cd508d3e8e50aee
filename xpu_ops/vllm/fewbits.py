"""Weights of 4 and 8 bits as checkpoints of vLLM keep them, and products with them. Needs no vLLM."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

_aten, _onednn = torch.ops.aten, torch.ops.onednn
GROUPS = (256, 128, 64, 32, 16)  # of the kernels with 4 bits
FEW = 8  # rows that the kernel for few rows with 8 bits takes


def group_of(columns: int, group: int) -> int | None:
    """The largest group of a kernel that divides a checkpoint's group, -1 for one of all columns; None where there is none."""
    size = columns if group == -1 else group
    return next((g for g in GROUPS if size % g == 0 and columns % g == 0), None)


def unpack(packed: Tensor, bits: int, dim: int) -> Tensor:
    """The values of an int32 tensor that holds 32 / bits of them along `dim`, the first in the lowest bits; int32.

    Raises:
        IndexError: for a dimension that is not there.

    Source: the packing of GPTQ's qweight (Frantar et al., arXiv:2210.17323), which compressed-tensors shares.
    """
    shifts = torch.arange(0, 32, bits, dtype=torch.int32, device=packed.device)
    values = (packed.movedim(dim, -1).unsqueeze(-1) >> shifts) & ((1 << bits) - 1)
    return values.flatten(-2).movedim(-1, dim)


def centred_bytes(packed: Tensor) -> Tensor:
    """The int8 weight (N, K) of unsigned bytes around 128, packed (N, K / 4) as int32."""
    return packed.contiguous().view(torch.uint8).bitwise_xor(128).view(torch.int8)


@dataclasses.dataclass(frozen=True)
class Nibbles:
    """A weight (N, K) of 4 bits; a value q stands for (q - zero) * scale.

    Args:
        packed: (N, K / 8), int32, of values 0 to 15 as :func:`unpack` reads them.
        scale: (K / group, N).
        zero: the same, int8.
        group: values that share a scale: 16, 32, 64, 128 or 256.
    """

    packed: Tensor
    scale: Tensor
    zero: Tensor
    group: int

    @classmethod
    def of(cls, packed: Tensor, scale: Tensor, zero: Tensor | None) -> Nibbles:
        """The weight with a checkpoint's groups, which may be larger than those of a kernel; `zero` is 8 where None.

        Raises:
            ValueError: for a group that no kernel's group divides.
        """
        columns, count = packed.size(1) * 8, scale.size(0)
        group = group_of(columns, columns // count)
        if columns % count or group is None:
            raise ValueError(f"4 bits: no kernel has {count} groups of {columns} columns")
        zero = torch.full_like(scale, 8, dtype=torch.int8) if zero is None else zero.to(torch.int8)
        times = columns // count // group
        scale, zero = (t.repeat_interleave(times, 0).contiguous() for t in (scale, zero))
        return cls(packed.contiguous(), scale, zero, group)

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (..., K) times the weight, plus `bias`, (..., N).

        Raises:
            RuntimeError: for another K.
        """
        rows = x.reshape(-1, x.shape[-1]).contiguous()
        scale = self.scale if self.scale.dtype == x.dtype else self.scale.to(x.dtype)
        y = _aten._weight_int4pack_mm_with_scales_and_zeros(rows, self.packed, self.group, scale, self.zero)
        return _shaped(y, x, bias)


@dataclasses.dataclass(frozen=True)
class Halves:
    """A weight (N, K) of 8 bits with a scale per group, as two of 4 bits: a value is 16 * high + low."""

    high: Nibbles
    low: Nibbles

    @classmethod
    def of(cls, packed: Tensor, scale: Tensor, zero: Tensor | None) -> Halves:
        """The weight (N, K / 4) of unsigned bytes, with scales (groups, N) and zeros 0 to 255; `zero` is 128 where None.

        Raises:
            ValueError: as :meth:`Nibbles.of`.
        """
        if zero is None:
            zero = torch.full_like(scale, 128, dtype=torch.int32)
        pairs = packed.contiguous().view(torch.uint8).unflatten(1, (-1, 2))
        even, odd = pairs.unbind(-1)
        high, low = (even >> 4) | (odd & 0xF0), (even & 0xF) | (odd << 4)
        parts = ((high, scale * 16, zero >> 4), (low, scale, zero & 0xF))
        return cls(*(Nibbles.of(b.contiguous().view(torch.int32), s, z) for b, s, z in parts))

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (..., K) times the weight, plus `bias`, (..., N).

        Raises:
            RuntimeError: for another K.
        """
        return self.high.product(x, bias).add_(self.low.product(x))


@dataclasses.dataclass(frozen=True)
class Bytes:
    """A weight (N, K) of 8 bits around zero.

    Args:
        packed: (N, K), int8, contiguous.
        scale: (N,), float32.
        rounded: the same in the type of the products.
    """

    packed: Tensor
    scale: Tensor
    rounded: Tensor

    @classmethod
    def of(cls, packed: Tensor, scale: Tensor, dtype: torch.dtype) -> Bytes:
        """The weight whose rows have the scales (N,) or (N, 1)."""
        scale = scale.reshape(-1)
        return cls(packed.contiguous(), scale.float().contiguous(), scale.to(dtype).contiguous())

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (..., K) times the weight, plus `bias`, (..., N).

        Raises:
            RuntimeError: for another K.
        """
        return _shaped(self._weigh(x.reshape(-1, x.shape[-1])), x, bias)

    def _weigh(self, rows: Tensor) -> Tensor:
        scale = self.rounded if self.rounded.dtype == rows.dtype else self.scale.to(rows.dtype)
        return _aten._weight_int8pack_mm(rows, self.packed, scale)


@dataclasses.dataclass(frozen=True)
class Integers:
    """A weight of 8 bits that rows of 8 bits are multiplied with.

    Args:
        weight: of 8 bits.
        sums: (1, N), of each of its rows times its scale, where rows of x have a zero; else None.
        none: (N,), int32, zeros.
        scale, zero: of all rows of x, one element; None where each row has its own.
        symmetric: rows have no zero.
    """

    weight: Bytes
    sums: Tensor | None
    none: Tensor
    scale: Tensor | None
    zero: Tensor | None
    symmetric: bool

    @classmethod
    def of(
        cls, weight: Bytes, symmetric: bool = True, scale: Tensor | None = None, zero: Tensor | None = None
    ) -> Integers:
        """The weight, and what the products need beside it."""
        sums = None if symmetric else (weight.packed.sum(1, dtype=torch.float32) * weight.scale)[None]
        none = torch.zeros_like(weight.scale, dtype=torch.int32)
        return cls(weight, sums, none, scale, None if zero is None else zero.float(), symmetric)

    def product(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x (..., K), rounded to 8 bits, times the weight, plus `bias`, (..., N).

        Raises:
            RuntimeError: for another K.
        """
        w = self.weight
        y = torch.ops.xpu_ops_vllm.integer_product(
            x.reshape(-1, x.shape[-1]), w.packed, w.scale, w.rounded, self.none, self.sums, self.scale, self.zero, self.symmetric
        )  # fmt: skip
        return _shaped(y, x, bias)


def _integer_product(
    rows: Tensor, packed: Tensor, weight_scale: Tensor, rounded: Tensor, none: Tensor, sums: Tensor | None,
    scale: Tensor | None, zero: Tensor | None, symmetric: bool,
) -> Tensor:  # fmt: skip
    q, scale, zero = round_rows(rows, symmetric, scale, zero)
    if len(rows) <= FEW:  # integers of up to 256 are exact in every floating type
        few = (q if zero is None else q - zero).to(rows.dtype)
        return Bytes(packed, weight_scale, rounded)._weigh(few).mul_(scale)
    y = _onednn.qlinear_pointwise(
        q.to(torch.int8), 1.0, 0, packed.t(), weight_scale, none, None, 1.0, 0, torch.float32, "none", [], ""
    )
    if zero is not None and sums is not None:
        y.sub_(zero * sums)
    return y.mul_(scale).to(rows.dtype)


# An operator, so that a compiled model chooses by the number of rows of each step.
_library = torch.library.Library("xpu_ops_vllm", "FRAGMENT")
_library.define(
    "integer_product(Tensor rows, Tensor packed, Tensor weight_scale, Tensor rounded, Tensor none, Tensor? sums, Tensor? scale, "
    "Tensor? zero, bool symmetric) -> Tensor"
)
_library.impl("integer_product", _integer_product, "XPU")
_library.impl("integer_product", lambda rows, packed, *_: rows.new_empty(rows.size(0), packed.size(0)), "Meta")


def round_rows(
    rows: Tensor, symmetric: bool, scale: Tensor | None = None, zero: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows as integers of 8 bits in a floating type, their scales (rows, 1) in float32, and their zeros, None for none.

    Args:
        rows: (rows, K).
        symmetric: -127 to 127 around zero; otherwise -128 to 127 with a zero.
        scale, zero: of all rows; None to take them from each row's range.

    Raises:
        RuntimeError: for shapes that do not fit.

    Source: vLLM's operators static_scaled_int8_quant and dynamic_scaled_int8_quant.
    """
    tiny = torch.finfo(torch.float32).tiny
    if scale is None and symmetric:
        scale = torch.linalg.vector_norm(rows, float("inf"), -1, keepdim=True, dtype=torch.float32)
        scale = scale.div_(127).clamp_(min=tiny)
    elif scale is None:
        low, high = (t.float() for t in rows.aminmax(dim=-1, keepdim=True))
        scale = high.sub(low).div_(255).clamp_(min=tiny)
        zero = torch.sub(-128, low / scale).round_()
    q = torch.div(rows, scale).round_()
    if not symmetric and zero is not None:
        q.add_(zero)
    return q.clamp_(-128, 127), scale, None if symmetric else zero


def _shaped(y: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    if bias is not None:
        y = y.add_(bias)
    return y.view(*x.shape[:-1], y.shape[-1])
