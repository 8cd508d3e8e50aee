"""Control of the oneMKL layer: whether it is there, and its cache of Fourier transforms.

Environment: XPU_OPS_MKL=0 leaves oneMKL out, so that its operators fall back to the CPU; XPU_OPS_PLAN_CACHE_CAPACITY
(entries, 1024).
"""

from __future__ import annotations

from xpu_ops import _C
from xpu_ops._cache import CountedCache

__all__ = ["available", "missing", "plan_cache", "version"]

_native = _C._onemkl


class _PlanCache(CountedCache):
    """The LRU of committed transforms. Entries: kind ("r2c forward f32"), shape ("batch x lengths"), uses.

    Source: kernels/mkl/plan_cache.cpp, which keeps descriptors of oneMKL's DFT (oneapi::mkl::dft).
    """


plan_cache = _PlanCache(_native.plans)


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
