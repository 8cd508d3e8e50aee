"""The modes in which the suite can run, from its environment (docs/environment.md)."""

from __future__ import annotations

import os

GPU_POLICY = os.environ.get("XPU_OPS_POLICY") == "gpu"
# Small work is computed on the calling thread.
INLINE = not GPU_POLICY and os.environ.get("XPU_OPS_DISCRETE", "0") in ("", "0")
