"""Control of the oneMKL layer: whether it is there, and its cache of Fourier transforms.

Environment: XPU_OPS_MKL=0 leaves oneMKL out, so that its operators fall back to the CPU; XPU_OPS_PLAN_CACHE_CAPACITY
(entries, 1024).
"""

from __future__ import annotations

from xpu_ops import _C

__all__ = ["available", "missing", "plan_cache", "version"]

_native = _C._onemkl


class _PlanCache:
    """The LRU of committed transforms, shared by all devices and threads of the process."""

    @property
    def capacity(self) -> int:
        """Entries kept; the least recently used one goes first. 0 keeps none."""
        return _native.plan_stats()["capacity"]

    @capacity.setter
    def capacity(self, entries: int) -> None:
        if entries < 0:
            raise ValueError(f"capacity must not be negative, got {entries}")
        _native.plan_set_capacity(entries)

    @property
    def size(self) -> int:
        """Entries held now."""
        return _native.plan_stats()["size"]

    @property
    def hits(self) -> int:
        """Transforms that found their plan since the last clear()."""
        return _native.plan_stats()["hits"]

    @property
    def misses(self) -> int:
        """Transforms that had to make one."""
        return _native.plan_stats()["misses"]

    @property
    def evictions(self) -> int:
        """Entries dropped because of the capacity."""
        return _native.plan_stats()["evictions"]

    def stats(self) -> dict[str, int]:
        """Return capacity, size, hits, misses and evictions of one moment."""
        return _native.plan_stats()

    def entries(self) -> list[dict[str, str | int]]:
        """Return what is held, most recently used first: kind ("r2c forward f32"), shape ("batch x lengths"), uses."""
        return _native.plan_entries()

    def clear(self) -> None:
        """Drop all entries and set the counters to zero."""
        _native.plan_clear()


plan_cache = _PlanCache()


def available() -> bool:
    """Return whether FFT and factorisations run on oneMKL; without it they fall back to the CPU.

    Source: kernels/mkl/library.cpp, which loads oneMKL at its first use.
    """
    return not _native.missing()


def missing() -> str:
    """Return the reason why oneMKL is not used, or "" where it is.

    Source: kernels/mkl/library.cpp.
    """
    return _native.missing()


def version() -> str:
    """Return the version of the oneMKL library in use, loading it.

    Raises:
        NotImplementedError: where it is not there.

    Source: mkl_get_version_string.
    """
    return _native.version()
