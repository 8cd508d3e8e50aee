"""vLLM on xpu: `platform` is the entry point of the group `vllm.platform_plugins`, through which vLLM finds the device.

Files: `paging` keeps keys and values in pages and needs no vLLM; `platform`, `worker`, `attention` and `layers` are what vLLM
loads. `XPU_OPS_VLLM=0` leaves vLLM as it is without this package.
"""

from __future__ import annotations

import os

__all__ = ["platform"]


def platform() -> str | None:
    """Return the path of the platform's class, or None where XPU_OPS_VLLM=0 turns it off or there is no device.

    Source: vllm.platforms, which calls it for its plugins; the class is that of xpu_ops/vllm/platform.py.
    """
    if os.environ.get("XPU_OPS_VLLM", "1") == "0":
        return None
    import torch

    return "xpu_ops.vllm.platform.XpuPlatform" if torch.xpu.is_available() else None
