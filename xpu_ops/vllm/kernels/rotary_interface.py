"""`vllm_xpu_kernels.rotary`: a rotary embedding with tables of cosines and sines."""

from __future__ import annotations

import torch
from torch import Tensor

from xpu_ops.vllm import kernels

kernels.register("_xpu_C")


def apply_rotary_emb(x: Tensor, cos: Tensor, sin: Tensor, is_neox: bool = False) -> Tensor:
    """Return x with the first dimensions of each head rotated.

    Args:
        x: (..., heads, size).
        cos, sin: (..., half), a row per token, or per token of each of several equal sequences.
        is_neox: pairs are the halves of the rotated dimensions, not neighbours.

    Raises:
        RuntimeError: for tables that do not divide the tokens.

    Source: the operator `_xpu_C::apply_rotary_emb`.
    """
    rows = x.reshape(-1, *x.shape[-2:])
    cos, sin = (t.reshape(-1, t.size(-1)) for t in (cos, sin))
    if cos.size(0) != rows.size(0):
        if cos.size(0) == 0 or rows.size(0) % cos.size(0):
            raise RuntimeError(f"apply_rotary_emb: {cos.size(0)} rows of tables do not divide {rows.size(0)} tokens")
        cos, sin = (t.repeat(rows.size(0) // t.size(0), 1) for t in (cos, sin))
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    torch.ops._xpu_C.apply_rotary_emb(out, rows, cos, sin, is_neox)
    return out.view(x.shape)
