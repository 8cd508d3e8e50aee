"""Memory, devices and versions, under the names of `_C`, `_C_cache_ops` and `_xpu_C`."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from xpu_ops import _C
from xpu_ops.vllm.kernels.common import require
from xpu_ops.vllm.kernels.registry import operator

_registered: set[int] = set()


def _bytes_at(address: int, size: int, device: torch.device) -> Tensor:
    """Memory as a tensor of bytes that does not own it."""
    if device.type == "cpu":
        room = (ctypes.c_uint8 * size).from_address(address)
        return torch.frombuffer(room, dtype=torch.uint8)
    storage = torch._C._construct_storage_from_data_pointer(address, device, size)
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage)


def _device_of(address: int) -> torch.device:
    """The device whose allocator holds an address, else the CPU."""
    for segment in torch.xpu.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return torch.device("xpu", segment["device"])
    return torch.device("cpu")


@operator("_C", "weak_ref_tensor(Tensor input) -> Tensor")
def weak_ref_tensor(x: Tensor) -> Tensor:
    if x.numel() == 0:
        return torch.empty_like(x)
    span = (sum((s - 1) * t for s, t in zip(x.shape, x.stride(), strict=True)) + 1) * x.element_size()
    return _bytes_at(x.data_ptr(), span, x.device).view(x.dtype).as_strided(x.shape, x.stride())


@operator("_C", "get_xpu_view_from_cpu_tensor(Tensor cpu_tensor) -> Tensor", key="CPU")
def get_xpu_view_from_cpu_tensor(x: Tensor) -> Tensor:
    device = torch.xpu.current_device()
    if x.numel() == 0:
        return x.to(f"xpu:{device}")
    return _C.as_xpu(x if x.is_pinned() else x.clone(), device)


@operator(
    "_C",
    "xpu_memcpy_sync(int dst_ptr, int src_ptr, int n_bytes, int kind, int device=-1) -> ()",
    key="CompositeExplicitAutograd",
)
def xpu_memcpy_sync(target: int, source: int, size: int, kind: int, device: int = -1) -> None:
    require(
        kind in (0, 1, 2), f"xpu_memcpy_sync: Unsupported memcpy kind {kind}; 0 is to the device, 1 from it, 2 on it"
    )
    if size <= 0:
        return
    host, there = torch.device("cpu"), torch.device("xpu", torch.xpu.current_device() if device < 0 else device)
    mask = (1 << 64) - 1
    to = _bytes_at(target & mask, size, host if kind == 1 else there)
    to.copy_(_bytes_at(source & mask, size, host if kind == 0 else there))
    torch.xpu.synchronize(there)


@operator("_C", "xpu_host_register(Tensor ptr, int n_bytes) -> bool", key="CompositeExplicitAutograd")
def xpu_host_register(pointer: Tensor, size: int) -> bool:
    # A device that works on the host's memory needs no registration; others copy without one.
    address = int(pointer.item())
    if address == 0 or size <= 0:
        return False
    if _C.host_accessible(torch.xpu.current_device()):
        _registered.add(address)
        return True
    return False


@operator("_C", "xpu_host_unregister(Tensor ptr) -> bool", key="CompositeExplicitAutograd")
def xpu_host_unregister(pointer: Tensor) -> bool:
    address = int(pointer.item())
    known = address in _registered
    _registered.discard(address)
    return known


@operator("_C_cache_ops", "swap_blocks_batch(Tensor src_ptrs, Tensor dst_ptrs, Tensor sizes) -> ()", key="CPU")
def swap_blocks_batch(sources: Tensor, targets: Tensor, sizes: Tensor) -> None:
    require(
        sources.numel() == targets.numel() == sizes.numel(), "swap_blocks_batch: expected as many pointers as sizes"
    )
    # Copies from the host have ended when this returns: the caller may write to its memory.
    for source, target, size in zip(sources.tolist(), targets.tolist(), sizes.tolist(), strict=True):
        if size > 0:
            _bytes_at(target, size, _device_of(target)).copy_(_bytes_at(source, size, _device_of(source)))


@operator("_C_cache_ops", "getMemoryInfo(int device_index) -> (int, int)", key="CompositeExplicitAutograd")
def get_memory_info(device: int) -> tuple[int, int]:
    return torch.xpu.mem_get_info(device)


# ---- which of Intel's GPUs a device is: the kernels of this package do not depend on it


def _is_none(device: int = -1) -> bool:
    return False


for _name, _default in (
    ("is_bmg_g21", ""), ("is_bmg_g31", ""), ("is_bmg", ""), ("is_pvc", ""), ("is_xe2_arch", "=-1"), ("is_xe3_arch", "=-1"),
):  # fmt: skip
    operator("_xpu_C", f"{_name}(int device_index{_default}) -> bool", key="CompositeExplicitAutograd")(_is_none)


@operator("_xpu_C", "get_onednn_version() -> str", key="CompositeExplicitAutograd")
def get_onednn_version() -> str:
    from xpu_ops import onednn

    return onednn.version()
