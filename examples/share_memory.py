"""Shares memory between xpu tensors, CPU tensors, NumPy arrays and DLPack, without a copy.

That works where the host reads device memory, as on the CPU device. On a GPU with memory of its own `as_cpu` raises; use
`.cpu()` and `.to("xpu")` there, which copy.
"""

from __future__ import annotations

import numpy as np
import torch

import xpu_ops


def main() -> None:
    # A CPU tensor on the memory of an xpu tensor: a write through one is seen through the other.
    x = torch.arange(6.0, device="xpu")
    host = xpu_ops.as_cpu(x)
    x.mul_(10)
    torch.xpu.synchronize()  # the device works asynchronously
    print("through the CPU tensor:", host.tolist())

    # NumPy: the CPU tensor lends its memory to an array, and an array lends its to an xpu tensor.
    host.numpy()[0] = -1
    print("after a write by NumPy:", x.tolist())
    array = np.linspace(0, 1, 5, dtype=np.float32)
    lent = xpu_ops.as_xpu(torch.from_numpy(array))
    lent.add_(1)
    torch.xpu.synchronize()
    print("through the array:", array.tolist())

    # DLPack: any library that speaks the protocol takes the CPU tensor.
    capsule = np.from_dlpack(xpu_ops.as_cpu(lent))
    print("through DLPack:", capsule.tolist())

    # Pinned staging memory, for devices with memory of their own: the copy runs beside other work.
    staged = torch.ones(1000).pin_memory()
    on_device = staged.to("xpu", non_blocking=True)
    print("copied:", on_device.sum().item())
    assert host[0] == -1 and array[0] == 1 and capsule[0] == 1


if __name__ == "__main__":
    main()
