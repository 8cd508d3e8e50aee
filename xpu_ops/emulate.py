"""`xpu-ops emulate`: a program with the properties and refusals of a GPU, on the CPU device.

Kernels run as on any CPU device with XPU_OPS_POLICY=gpu and XPU_OPS_DISCRETE=1. Time, the driver, the sub-group size
that kernels run with and their rounding are not the GPU's.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SHOW = "from xpu_ops import emulate; emulate.show()"


def main(name: str, program: list[str]) -> None:
    """Replace this process by `program`, or by one that prints the devices, with XPU_OPS_EMULATE set to `name`."""
    os.environ["XPU_OPS_EMULATE"] = name
    sys.stdout.flush()
    command = program or [sys.executable, "-c", SHOW]
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"xpu-ops emulate: cannot start {command[0]}: {error.strerror}")


def show() -> None:
    """Print the capability dictionary of each device as JSON, as torch.xpu.get_device_capability returns it."""
    import torch

    try:
        found: list[dict[str, Any]] = [torch.xpu.get_device_capability(i) for i in range(torch.xpu.device_count())]
        if not found:
            torch.xpu.init()  # raises, saying why there is no device
    except (RuntimeError, ValueError) as error:
        sys.exit(f"xpu-ops emulate: {error}")
    print(json.dumps({f"xpu:{i}": capability for i, capability in enumerate(found)}, indent=1, default=str))
