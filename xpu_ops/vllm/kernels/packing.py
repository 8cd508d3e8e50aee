"""`vllm_xpu_kernels.quantization._quantize_convert`: how GPTQ and AWQ pack weights of 4 bits, and plain rounding of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from xpu_ops.vllm import fewbits

if TYPE_CHECKING:
    from collections.abc import Sequence

_AWQ = (0, 2, 4, 6, 1, 3, 5, 7)  # which value each nibble of AWQ holds, the lowest first


def _pack(values: Tensor, dim: int) -> Tensor:
    """int32 words of eight values of 4 bits along `dim`, the first in the lowest bits."""
    parts = (values.to(torch.int32) & 15).unflatten(dim, (-1, 8))
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=values.device)
    shifts = shifts.view(*([1] * (dim + 1)), 8, *([1] * (values.dim() - dim - 1)))
    return (parts << shifts).sum(dim + 1, dtype=torch.int32)


class GPTQUtils:
    """Weights (K / 8, N) of int32, eight rows of a column in a word."""

    def __init__(self, bits: int = 4, blocksize: int = 128) -> None:
        if bits != 4:
            raise NotImplementedError(f"GPTQUtils: xpu_ops packs 4 bits, got {bits}")
        self.bits, self.blocksize = bits, blocksize

    def convert_idx(self, g_idx: Tensor, k: int) -> Tensor:
        """The rows in the order of their groups, int32."""
        return torch.argsort(g_idx[:k], stable=True).to(torch.int32)

    def unpack_weight(self, qweight: Tensor) -> Tensor:
        """(K / 8, 8, N), int8."""
        return fewbits.unpack(qweight, 4, 0).to(torch.int8).view(-1, 8, qweight.size(1))

    def unpack_zp(self, qzeros: Tensor) -> Tensor:
        """(groups, N / 8, 8), int8."""
        return fewbits.unpack(qzeros, 4, 1).to(torch.int8).view(qzeros.size(0), -1, 8)

    def pack(self, qweight: Tensor) -> Tensor:
        """(K / 8, N) of values (K, N)."""
        return _pack(qweight, 0)

    def shuffle(self, qweight: Tensor, g_idx: Tensor) -> tuple[Tensor, Tensor]:
        """The weight with its rows in the order of their groups, and that order."""
        order = self.convert_idx(g_idx, qweight.size(0) * 8).to(qweight.device)
        rows = fewbits.unpack(qweight, 4, 0)
        return self.pack(rows[order.to(torch.int64)]), order


class AWQUtils:
    """Weights (K, N / 8) of int32, in AWQ's order of nibbles."""

    AWQ_PACK_ORDER = _AWQ
    REVERSE_AWQ_PACK_ORDER = tuple(_AWQ.index(i) for i in range(8))

    @classmethod
    def pack(cls, values: Tensor, direction: str = "column") -> Tensor:
        """Words of eight values along columns, or along rows."""
        return _pack(values, 1 if direction == "column" else 0)

    @classmethod
    def unpack(cls, words: Tensor, direction: str = "column") -> Tensor:
        """The values of words along columns, or along rows, int8."""
        return fewbits.unpack(words, 4, 1 if direction == "column" else 0).to(torch.int8)

    @classmethod
    def apply_order(cls, values: Tensor, direction: str = "column", order: Sequence[int] | None = None) -> Tensor:
        """Values in another order within every eight columns, or rows."""
        dim = 1 if direction == "column" else 0
        index = torch.tensor(cls.AWQ_PACK_ORDER if order is None else order, device=values.device)
        return values.unflatten(dim, (-1, 8)).index_select(dim + 1, index).flatten(dim, dim + 1)

    @classmethod
    def repack(cls, qweight: Tensor, qzeros: Tensor) -> tuple[Tensor, Tensor]:
        """AWQ's weight and zeros in GPTQ's packing."""
        plain = [cls.apply_order(cls.unpack(t), order=cls.REVERSE_AWQ_PACK_ORDER) for t in (qweight, qzeros)]
        return cls.pack(plain[0], "row"), cls.pack(plain[1], "column")


def dequantize(
    qweight: Tensor, scales: Tensor, qzeros: Tensor | None, group_size: int, g_idx: Tensor | None = None
) -> Tensor:
    """The values (K, N) of a weight in GPTQ's packing, in the type of the scales."""
    values = fewbits.unpack(qweight, 4, 0)
    group = (
        torch.arange(values.size(0), device=values.device) // group_size if g_idx is None else g_idx.to(values.device)
    )
    group = group.to(torch.int64)
    zero = 8 if qzeros is None else fewbits.unpack(qzeros, 4, 1)[group]
    return (values - zero).to(scales.dtype) * scales[group]


def dequantize_s8_to_float(quantized: Tensor, scale: Tensor, zero_point: Tensor) -> Tensor:
    """The values of rounded rows."""
    return (quantized - zero_point) * scale


def _rounded(x: Tensor, symmetric: bool, bits: int, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if symmetric else (0, (1 << bits) - 1)
    low, high = low.float(), high.float()
    if symmetric:
        scale = torch.maximum(low.abs(), high.abs()) / most
        zero = torch.zeros_like(scale, dtype=torch.int32)
    else:
        scale = (high - low) / most
        zero = -torch.round(low / scale).to(torch.int32)
    scale = scale.to(x.dtype)
    q = torch.round(x / scale.float() + zero).clamp(least, most)
    return q.to(torch.int8 if symmetric else torch.uint8), scale, zero


def dynamic_per_token_quant_ref(x: Tensor, use_sym_quant: bool, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Rows rounded to integers, with the scale and zero of each row."""
    return _rounded(x, use_sym_quant, bits, *x.aminmax(dim=-1, keepdim=True))


def dynamic_per_tensor_quant_ref(x: Tensor, use_sym_quant: bool, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """Values rounded to integers, with one scale and zero."""
    q, scale, zero = _rounded(x, use_sym_quant, bits, *x.aminmax())
    return q, scale.view(-1), zero.view(-1)
