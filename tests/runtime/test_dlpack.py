"""DLPack where torch reads the device off a pointer: a device that is asked for, and tensors without elements."""

from __future__ import annotations

import pytest
import torch
from torch.utils import dlpack


@pytest.mark.parametrize("device", ["xpu", "xpu:0", torch.device("xpu", 0)])
def test_a_device_is_asked_for(device: str | torch.device) -> None:
    t = torch.arange(6.0, device="xpu").reshape(2, 3)
    taken = torch.from_dlpack(t, device=device)
    assert taken.device == t.device and taken.data_ptr() == t.data_ptr()
    copied = torch.from_dlpack(t, device=device, copy=True)
    assert copied.data_ptr() != t.data_ptr() and torch.equal(copied, t)


def test_between_devices() -> None:
    t = torch.arange(3.0)
    assert torch.from_dlpack(t, device="xpu").device.type == "xpu"
    assert torch.equal(torch.from_dlpack(t.to("xpu"), device="cpu"), t)
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(t, device="xpu", copy=False)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_no_elements(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    t = torch.empty(shape, dtype=dtype, device="xpu")
    for taken in (torch.from_dlpack(t), torch.from_dlpack(t, device="xpu"), dlpack.from_dlpack(dlpack.to_dlpack(t))):
        assert (taken.shape, taken.dtype, taken.device, taken.stride()) == (t.shape, dtype, t.device, t.stride())


def test_a_capsule_is_taken_once() -> None:
    capsule = dlpack.to_dlpack(torch.empty(0, device="xpu"))
    dlpack.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        dlpack.from_dlpack(capsule)


def test_the_exporting_tensor_stays() -> None:
    t = torch.empty(0, device="xpu")
    del t
    taken = torch.from_dlpack(torch.zeros(4, 0, device="xpu"))
    assert taken.shape == (4, 0)
