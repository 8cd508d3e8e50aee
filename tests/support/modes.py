"""The modes in which the suite can run, from its environment (docs/environment.md)."""

from __future__ import annotations

import os
from pathlib import Path

from xpu_ops import _C

GPU_POLICY = os.environ.get("XPU_OPS_POLICY", "").startswith("gpu")
# The processor multiplies pairs of bf16: kernels/sycl/cpu/dot16.hpp is compiled for it.
DOT16 = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
# And bytes: kernels/sycl/cpu/dots8.hpp serves.
WIDE = not _C.name_driver_target().startswith("core")  # registers of AVX-512, where the processor has them
DOTS8 = DOT16 and WIDE and not GPU_POLICY and "avx512vbmi" in Path("/proc/cpuinfo").read_text()
# And tiles: so is kernels/sycl/cpu/amx.hpp.
AMX = "amx_bf16" in Path("/proc/cpuinfo").read_text()
# Small work is computed on the calling thread.
INLINE = not GPU_POLICY and os.environ.get("XPU_OPS_DISCRETE", "0") in ("", "0")
