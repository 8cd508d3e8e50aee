"""Valid values for the arguments of traced operators: indices in range, variances above zero, pooled positions that exist."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tools.scorecard.traces import Row, Spec, mapped

POOL = 1 << 21
Bounds = dict[int, tuple[int, int]]  # position among the row's tensors to the range of its integers


@functools.cache
def normal() -> torch.Tensor:
    return torch.randn(POOL, generator=torch.Generator().manual_seed(0))


class Fill:
    """Values of a row, the same each time."""

    def __init__(self, row: Row) -> None:
        self.generator = torch.Generator().manual_seed(zlib.crc32(str(row).encode()))

    def __call__(self, spec: Spec, low: int = 1, high: int = 8) -> torch.Tensor:
        """A tensor over a storage that holds no more than its strides reach."""
        reach = 1 + sum((n - 1) * s for n, s in zip(spec.shape, spec.stride, strict=True)) if spec.numel() else 0
        return self.flat(reach, spec.dtype, low, high).as_strided(spec.shape, spec.stride)

    def flat(self, count: int, dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
        if dtype.is_complex:
            parts = self.flat(2 * count, dtype.to_real(), low, high)
            return torch.view_as_complex(parts.view(-1, 2))
        if dtype == torch.bool:
            return torch.randint(0, 2, (count,), generator=self.generator, dtype=dtype)
        if not dtype.is_floating_point:
            return torch.randint(low, max(high, low + 1), (count,), generator=self.generator, dtype=dtype)
        begin = int(torch.randint(0, POOL // 2, (1,), generator=self.generator))
        values = normal()[begin:]
        return values.repeat(1 + count // len(values))[:count].to(dtype, copy=True)


def positive(t: torch.Tensor) -> None:
    t.abs_().add_(0.5)


def size(of: Any, dim: int) -> int:
    return int(of.shape[dim]) if of.shape else 1


def bounds(row: Row) -> Callable[[int, Spec], tuple[int, int] | None]:
    """The range of the integers of an operand, by its place among the arguments."""
    name, a = row.operator.partition(".")[0], row.args
    ranges: dict[int, int] = {}
    match name:
        case "embedding":
            ranges = {1: size(a[0], 0)}
        case "embedding_dense_backward":
            ranges = {1: a[2]}
        case "gather" | "scatter" | "scatter_add" | "scatter_add_":
            ranges = {2: size(a[0], a[1])}
        case "index_select" | "index_add" | "index_add_":
            ranges = {2: size(a[0], a[1])}
        case "nll_loss_forward":
            ranges = {1: size(a[0], 1 if len(a[0].shape) > 1 else 0)}
        case "nll_loss_backward":
            ranges = {2: size(a[1], 1 if len(a[1].shape) > 1 else 0)}
        case "_embedding_bag":
            ranges = {1: size(a[0], 0)}
        case "_embedding_bag_per_sample_weights_backward":
            ranges = {2: size(a[1], 0)}
        case "_sparse_coo_tensor_with_dims_and_tensors":
            ranges = {3: a[2][0]}
    return lambda place, _: (0, ranges[place]) if place in ranges else None


def indices(of: Spec, listed: list[Any], fill: Fill) -> list[Any]:
    """The index tensors of index and index_put: each in the range of its dimension."""
    found: list[Any] = []
    dim = 0
    for spec in listed:
        if not isinstance(spec, Spec):
            found.append(None)
            dim += 1
            continue
        found.append(fill(spec, 0, size(of, dim)))
        dim += len(spec.shape) if spec.dtype == torch.bool else 1
    return found


def filled(fill: Fill, range_of: Callable[[int, Spec], tuple[int, int] | None], place: int, of: Any) -> Any:
    return fill(of, *(range_of(place, of) or (1, 8))) if isinstance(of, Spec) else of


def arguments(row: Row) -> tuple[list[Any], dict[str, Any]]:
    """Tensors of the CPU for a row."""
    fill = Fill(row)
    range_of = bounds(row)
    name = row.operator.partition(".")[0]
    args: list[Any] = []
    for place, of in enumerate(row.args):
        if name in ("index", "index_put", "index_put_", "_index_put_impl_") and place == 1:
            args.append(indices(row.args[0], of, fill))
            continue
        args.append(mapped(of, partial(filled, fill, range_of, place)))
    kwargs = mapped(row.kwargs, lambda v: fill(v) if isinstance(v, Spec) else v)
    adjust(name, args)
    return args, kwargs


def adjust(name: str, args: list[Any]) -> None:
    """Values that an operator asks for beside ranges of indices."""
    match name:
        case "native_batch_norm":
            for t in args[4:5]:
                if t is not None:
                    positive(t)
        case "native_batch_norm_backward":
            for t in (args[4], args[6]):
                if t is not None:
                    positive(t)
        case "native_layer_norm_backward":
            positive(args[4])
        case "native_group_norm_backward":
            positive(args[3])
        case "sqrt" | "rsqrt" | "log2" | "pow" | "reciprocal" | "log":
            for t in args:
                if isinstance(t, torch.Tensor) and t.is_floating_point():
                    positive(t)
        case "max_pool2d_with_indices_backward":
            grad, x, kernel, stride, padding, dilation, ceil, _ = args
            pooled = torch.ops.aten.max_pool2d_with_indices(x.float(), kernel, stride, padding, dilation, ceil)[1]
            args[7].copy_(pooled.view(grad.shape))
        case "_embedding_bag" | "_embedding_bag_per_sample_weights_backward":
            at, bags = (2, args[1]) if name == "_embedding_bag" else (3, args[2])
            offsets = args[at]
            offsets.copy_(torch.linspace(0, len(bags), len(offsets) + 1).long()[:-1])
            if name != "_embedding_bag":
                owner = torch.bucketize(torch.arange(len(bags)), offsets, right=True) - 1
                args[4].copy_(owner)
        case "_softmax_backward_data" | "_log_softmax_backward_data":
            values = torch.softmax(args[1].float(), args[2])
            args[1].copy_(values.log() if name.startswith("_log") else values)
        case "tanh_backward" | "sigmoid_backward":
            args[1].copy_(torch.sigmoid(args[1].float()))
        case "nll_loss_backward":
            args[6].fill_(max(1.0, float(args[2].numel())))
        case "grid_sampler_2d":
            args[1].clamp_(-1.1, 1.1)
        case "grid_sampler_2d_backward":
            args[2].clamp_(-1.1, 1.1)
