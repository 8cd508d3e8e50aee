"""2:4 sparse tensors (torch.sparse.to_sparse_semi_structured) on xpu, in torch's CUTLASS form.

No processor that xpu_ops knows multiplies compressed operands: these are compositions, which unpack the operand and call the
dense product. They keep half of the weights' memory and give torch's values; they are not faster than a dense layer. What
cuSPARSELt alone has (`_cslt_*`) is left to it.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from xpu_ops.upstream.registry import apply, implement, replaces

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULE = "torch.sparse.semi_structured"
_TEST = "tests/aten/test_semi_structured.py::test_products"
_CUTLASS = f"{_MODULE}.SparseSemiStructuredTensorCUTLASS"


def install(module: ModuleType) -> None:
    """Register the operators and let tensors of xpu into the classes of torch."""
    apply("sparse_semi_structured")
    implement("aten", OPERATORS)


@replaces(
    f"{_CUTLASS}._validate_device_dim_dtype_shape",
    since="2.13",
    why="the check of dims, types and sizes takes tensors of CUDA alone",
    test=_TEST,
)
def checked(upstream: Any) -> Any:
    def _validate_device_dim_dtype_shape(original_tensor: torch.Tensor) -> None:
        if original_tensor.device.type != "xpu":
            return upstream(original_tensor)
        names = ("device", "dim", "is_contiguous", "dtype", "shape")
        return upstream(SimpleNamespace(is_cuda=True, **{n: getattr(original_tensor, n) for n in names}))

    return _validate_device_dim_dtype_shape


@replaces(
    f"{_MODULE}.to_sparse_semi_structured",
    "torch.sparse.to_sparse_semi_structured",
    since="2.13",
    why="without a flag it takes cuSPARSELt's form, which is that library's alone",
    test=_TEST,
)
def in_cutlass_form(upstream: Callable[..., Any]) -> Any:
    from torch.sparse import SparseSemiStructuredTensorCUTLASS

    def to_sparse_semi_structured(original_tensor: torch.Tensor, transposed: bool = False, alg_id: int = 0) -> Any:
        if original_tensor.device.type != "xpu":
            return upstream(original_tensor, transposed=transposed, alg_id=alg_id)
        return SparseSemiStructuredTensorCUTLASS.from_dense(original_tensor)

    return to_sparse_semi_structured


def _dense(packed: torch.Tensor, meta: torch.Tensor) -> torch.Tensor:
    from torch.sparse._semi_structured_conversions import sparse_semi_structured_to_dense_cutlass

    return sparse_semi_structured_to_dense_cutlass(packed, meta)


def _check(packed: torch.Tensor, meta: torch.Tensor, other: torch.Tensor, inner: int, out_dtype: Any) -> None:
    if packed.dim() != 2 or meta.dim() != 2 or other.dim() != 2:
        raise RuntimeError("the compressed operand, its metadata and the dense operand must have two dims")
    if packed.shape[1] * 2 != inner:
        raise RuntimeError(
            f"a compressed operand of {packed.shape[1]} columns takes {packed.shape[1] * 2}, not {inner}"
        )
    if packed.dtype != other.dtype:
        raise RuntimeError(f"operands of two types: {packed.dtype} and {other.dtype}")
    if out_dtype is not None and (other.dtype, out_dtype) != (torch.int8, torch.int32):
        raise RuntimeError(f"out_dtype is for int8 with int32, not for {other.dtype} with {out_dtype}")


def _addmm(
    input: torch.Tensor,
    mat1: torch.Tensor,
    mat1_meta: torch.Tensor,
    mat2: torch.Tensor,
    *,
    alpha: Any = 1,
    beta: Any = 1,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if input.dim() != 1 or input.shape[0] != mat1.shape[0]:
        raise RuntimeError(f"the input must have one element per row, {mat1.shape[0]}, not shape {tuple(input.shape)}")
    _check(mat1, mat1_meta, mat2, mat2.shape[0], out_dtype)
    if mat2.dtype == torch.int8:
        total = torch._int_mm(_dense(mat1, mat1_meta), mat2) * alpha + input.int()[:, None] * beta
        return _narrowed(total, out_dtype)
    return torch.addmm(input[:, None], _dense(mat1, mat1_meta), mat2, alpha=alpha, beta=beta)


def _narrowed(total: torch.Tensor, out_dtype: torch.dtype | None) -> torch.Tensor:
    return total.int() if out_dtype == torch.int32 else total.clamp(-128, 127).to(torch.int8)


def _mm(
    mat1: torch.Tensor, mat1_meta: torch.Tensor, mat2: torch.Tensor, *, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    _check(mat1, mat1_meta, mat2, mat2.shape[0], out_dtype)
    if mat2.dtype == torch.int8:
        return _narrowed(torch._int_mm(_dense(mat1, mat1_meta), mat2), out_dtype)
    return torch.mm(_dense(mat1, mat1_meta), mat2)


_ACTIVATIONS: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    None: lambda x: x,
    "none": lambda x: x,
    "relu": torch.relu,
    "silu": torch.nn.functional.silu,
}


def _linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    meta: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    if activation not in _ACTIVATIONS:
        raise RuntimeError(f"activation must be none, relu or silu, not {activation!r}")
    rows = input.flatten(0, -2)
    columns = rows.t()
    if bias is None:
        result = _mm(weight, meta, columns, out_dtype=out_dtype)
    else:
        result = _addmm(bias, weight, meta, columns, out_dtype=out_dtype)
    return _ACTIVATIONS[activation](result).t().unflatten(0, input.shape[:-1])


def _from_dense(dense: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    from torch.sparse._semi_structured_conversions import sparse_semi_structured_from_dense_cutlass

    packed: tuple[torch.Tensor, torch.Tensor] = sparse_semi_structured_from_dense_cutlass(dense)
    return packed


def _kept_values(dense: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The two of each four that a pattern keeps, in the places that the metadata of the pattern names."""
    m0, m1, _, m3 = kept.view(dense.shape[0], -1, 4).unbind(-1)
    first = (~m0 & m1).long() | (~m0 & ~m1).long() << 1
    second = ((m0 & m1) | (~m0 & ~m1) | m3).long() | ((~m0 & m1) | ~m1).long() << 1
    fours = dense.where(kept, 0).view(dense.shape[0], -1, 4)
    return fours.gather(-1, torch.stack((first, second), -1)).view(dense.shape[0], -1)


def _largest(tiles: torch.Tensor) -> torch.Tensor:
    """Of tiles of 4 x 4, flat: which elements stay, the largest first, two per row and column."""
    order = torch.sort(tiles.float(), dim=-1, descending=True, stable=True).indices
    rows, columns = (torch.zeros(len(tiles), 4, dtype=torch.int64, device=tiles.device) for _ in range(2))
    kept = torch.zeros(tiles.shape, dtype=torch.bool, device=tiles.device)
    for at in order.split(1, -1):
        row, column = at // 4, at % 4
        fits = (rows.gather(1, row) < 2) & (columns.gather(1, column) < 2)
        rows.scatter_add_(1, row, fits.long())
        columns.scatter_add_(1, column, fits.long())
        kept.scatter_(1, at, fits)
    return kept


def _check_tiled(input: torch.Tensor) -> None:
    if input.dim() != 2 or input.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("the input must be a float16 or bfloat16 tensor of two dims")
    if input.shape[0] % 64 or input.shape[1] % 64 or not input.numel():
        raise RuntimeError(f"rows and columns must be multiples of 64, not {tuple(input.shape)}")


def _tile(
    input: torch.Tensor, algorithm: str = "", use_cutlass: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_tiled(input)
    if not use_cutlass:
        raise NotImplementedError("xpu has the CUTLASS form of 2:4 sparse tensors, not cuSPARSELt's")
    if algorithm not in ("", "largest_values_greedy", "largest_abs_values_greedy"):
        raise RuntimeError(f"unknown algorithm {algorithm!r}")
    values = input.abs() if algorithm == "largest_abs_values_greedy" else input
    rows, columns = (n // 4 for n in input.shape)
    tiles = values.reshape(rows, 4, columns, 4).transpose(1, 2).reshape(-1, 16)
    kept = _largest(tiles).view(rows, columns, 4, 4).transpose(1, 2).reshape(input.shape)
    # The metadata is that of the pattern, also where an element that stays is zero.
    metas = [_from_dense(k.to(input.dtype))[1] for k in (kept, kept.t().contiguous())]
    packed, packed_t = _packed(input, kept)
    return packed, metas[0], packed_t, metas[1], _bits(kept)


def _packed(input: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return _kept_values(input.contiguous(), kept), _kept_values(input.t().contiguous(), kept.t().contiguous())


def _bits(kept: torch.Tensor) -> torch.Tensor:
    """A bit per element: of each 8 x 8 the four 4 x 4, two rows of one per byte."""
    rows, columns = (n // 8 for n in kept.shape)
    fours = kept.view(rows, 2, 4, columns, 2, 4).permute(0, 3, 1, 4, 2, 5).reshape(rows, columns, 4, 2, 8)
    powers = 2 ** torch.arange(8, device=kept.device)
    return (fours.long() * powers).sum(-1).to(torch.uint8)


def _pattern(input: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    _check_tiled(input)
    rows, columns = (n // 8 for n in input.shape)
    if masks.dtype != torch.uint8 or masks.numel() != rows * columns * 8:
        raise RuntimeError(f"the masks must be {rows * columns * 8} bytes for an input of {tuple(input.shape)}")
    bits = masks.reshape(rows, columns, 8, 1).long() >> torch.arange(8, device=masks.device) & 1
    fours = bits.bool().view(rows, columns, 2, 2, 4, 4)
    return fours.permute(0, 2, 4, 1, 3, 5).reshape(input.shape)


def _apply(input: torch.Tensor, thread_masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return _packed(input, _pattern(input, thread_masks))


def _apply_dense(input: torch.Tensor, thread_masks: torch.Tensor) -> torch.Tensor:
    return input.where(_pattern(input, thread_masks), 0)


# Composed of other operators: the coverage report does not call them native.
OPERATORS: dict[str, Callable[..., Any]] = {
    "_sparse_semi_structured_addmm": _addmm,
    "_sparse_semi_structured_apply": _apply,
    "_sparse_semi_structured_apply_dense": _apply_dense,
    "_sparse_semi_structured_linear": _linear,
    "_sparse_semi_structured_mm": _mm,
    "_sparse_semi_structured_tile": _tile,
    "_to_sparse_semi_structured": _from_dense,
}
