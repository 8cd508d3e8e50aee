"""Control of the oneDNN layer: its primitive cache, its cache of packed weights, its verbose lines, its post-op names.

Environment: XPU_OPS_PRIMITIVE_CACHE_CAPACITY (entries, 1024), XPU_OPS_WEIGHT_CACHE_BYTES (4 GiB, at most a quarter of
the device), XPU_OPS_VERBOSE=1 (a line on stderr for each primitive: operation, implementation, shapes, hit or miss,
time).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpu_ops import _C
from xpu_ops._cache import CacheView, CountedCache, Entry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = [
    "binary_names",
    "convolution",
    "eltwise_names",
    "matmul",
    "primitive_cache",
    "set_verbose",
    "version",
    "weight_cache",
]

_native = _C._onednn


class _PrimitiveCache(CountedCache):
    """The LRU of created primitives. Entries: op, impl, shapes, scratchpad_bytes, uses.

    impl is "refused: ..." where oneDNN has none worth running.

    Source: kernels/onednn/primitive_cache.cpp, after oneDNN's own cache of primitives.
    """


class _WeightCache(CacheView):
    """Weights in the layout that a primitive wants. An in-place write to a weight drops its entries, freeing it too.

    Entries: device, bytes, version, offset, uses.

    Source: kernels/onednn/weight_cache.cpp; the layouts are those that oneDNN's primitives ask for.
    """

    @property
    def budget(self) -> int:
        """Bytes that packed weights may take; the least recently used go first. 0 packs at every call."""
        return self.stats()["budget"]

    @budget.setter
    def budget(self, size: int) -> None:
        self._set_limit("budget", size)

    @property
    def bytes(self) -> int:
        """Bytes held now, outside torch.xpu.memory_allocated()."""
        return self.stats()["bytes"]

    @property
    def packs(self) -> int:
        """Weights packed since the last clear()."""
        return self.stats()["packs"]

    def stats(self) -> dict[str, int]:
        """Return budget, bytes, size, hits, misses, packs, evictions and invalidations of one moment."""
        _native.weights.sweep()
        return super().stats()

    def entries(self) -> list[Entry]:
        """Return what is held, most recently used first."""
        _native.weights.sweep()
        return super().entries()


primitive_cache = _PrimitiveCache(_native.primitives)
weight_cache = _WeightCache(_native.weights)


def version() -> str:
    """Return the version of the oneDNN library in use.

    Source: dnnl_version.
    """
    return _native.version()


def set_verbose(enabled: bool) -> None:
    """Print a line for each primitive that runs, as XPU_OPS_VERBOSE=1 does. Waits for the device around each.

    Source: kernels/onednn/engine.cpp; the fields are those of oneDNN's own verbose mode.
    """
    _native.set_verbose(enabled)


def eltwise_names() -> dict[str, tuple[float, float]]:
    """Return every eltwise post-op by name, with the default alpha and beta that "name:alpha=..,beta=.." overrides.

    Source: the algorithms `dnnl_eltwise_*` of oneDNN's primitive `eltwise`.
    """
    return _native.eltwise_names()


def binary_names() -> list[str]:
    """Return the names of the binary post-ops.

    Source: the algorithms `dnnl_binary_*` of oneDNN's primitive `binary`.
    """
    return _native.binary_names()


def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    post_ops: Sequence[str | tuple[str, Tensor]] = (),
    out: Tensor | None = None,
) -> Tensor:
    """Return a @ b + bias with a chain of post-ops in one primitive.

    Args:
        a, b: (M, K) and (K, N), or (B, M, K) and (B, K, N), float32, bfloat16 or float16.
        bias: (N,), same dtype.
        post_ops: applied in order. A string is an eltwise ("relu", "clip:0,6") or "sum" / "sum:scale", which adds what
            `out` holds; a pair is a binary or "prelu" with its operand, of out's dims or broadcast to them.
        out: contiguous result; required by "sum".

    Raises:
        ValueError: for an unknown post-op.
        NotImplementedError: when oneDNN has no fast implementation of this combination on this device.

    Source: oneDNN's primitive `matmul`.
    """
    return _native.matmul(a, b, bias, list(post_ops), out)


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    transposed: bool = False,
    output_padding: Sequence[int] = (0, 0),
    post_ops: Sequence[str | tuple[str, Tensor]] = (),
    out: Tensor | None = None,
) -> Tensor:
    """Return a (transposed) convolution with a chain of post-ops in one primitive. Post-ops as in :func:`matmul`.

    Args:
        x: (N, C, spatial...), 1 to 3 spatial dims, any of the contiguous and channels-last layouts.
        weight: as torch's convolutions take it.

    Raises:
        ValueError: for an unknown post-op.
        NotImplementedError: when oneDNN has no fast implementation of this combination on this device.

    Source: oneDNN's primitives `convolution` and `deconvolution`.
    """
    return _native.convolution(
        x, weight, bias, list(stride), list(padding), list(dilation), groups, transposed, list(output_padding),
        list(post_ops), out,
    )  # fmt: skip
