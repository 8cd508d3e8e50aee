"""XPU_OPS_CPU_DEVICES: several indices of the CPU device, each with streams, memory and statistics of its own."""

from __future__ import annotations

import torch
import torch.distributed as dist
from support import script


def test_indices_are_devices() -> None:
    code = """
        import torch, xpu_ops
        from torch import nn
        assert torch.xpu.device_count() == 3
        a, b = torch.arange(12.0, device="xpu:0").view(3, 4), torch.ones(3, 4, device="xpu:2")
        try:
            a + b
        except RuntimeError as e:
            assert "same device" in str(e), e
        else:
            raise AssertionError("operands of two devices were added")
        with xpu_ops.fallback.forbid():
            c = a.to("xpu:2")
            assert c.device == torch.device("xpu:2") and torch.equal((c + b).cpu(), a.cpu() + 1)
            assert torch.equal(a.t()[::2].to("xpu:1").cpu(), a.cpu().t()[::2])
            d = torch.empty(4, 3, dtype=torch.float64, device="xpu:1").t()
            d.copy_(a, non_blocking=True)
            assert torch.equal(d.cpu(), a.cpu().double())
        torch.xpu.set_device(1)
        assert torch.xpu.current_device() == 1 and torch.ones(1, device="xpu").device.index == 1
        before = [torch.xpu.memory_allocated(i) for i in range(3)]
        keep = torch.empty(1 << 20, device="xpu:1")
        after = [torch.xpu.memory_allocated(i) for i in range(3)]
        assert [y - x for x, y in zip(before, after)] == [0, 4 << 20, 0], (before, after)
        assert torch.xpu.current_stream(0) != torch.xpu.current_stream(1)
        assert torch.xpu.can_device_access_peer(0, 1) if hasattr(torch.xpu, "can_device_access_peer") else True
        assert len({str(torch.xpu.get_device_properties(i).uuid) for i in range(3)}) == 3
        # A model in two halves, as pipelines are written.
        one, two = nn.Linear(8, 8).to("xpu:0"), nn.Linear(8, 2).to("xpu:1")
        x = torch.randn(5, 8, device="xpu:0", requires_grad=True)
        two(one(x).to("xpu:1")).sum().backward()
        assert x.grad.device.index == 0 and two.weight.grad.device.index == 1
        want = torch.autograd.grad(nn.Sequential(one, two.to("xpu:0"))(x).sum(), x)[0]
        torch.testing.assert_close(x.grad, want)
        torch.manual_seed(3)
        first = [torch.rand(4, device=f"xpu:{i}").cpu() for i in range(2)]
        assert torch.equal(*first)
        for i in range(3):
            torch.xpu.synchronize(i)
        print("done")
    """
    assert script.out(code, XPU_OPS_CPU_DEVICES="3", XPU_OPS_DEVICE_MAPPING="cpu") == "done"


def test_a_wrong_number_is_named() -> None:
    code = "import torch; print(torch.xpu.is_available()); from xpu_ops import _C; print(_C.unavailable_reason())"
    out = script.out(code, XPU_OPS_CPU_DEVICES="many")
    assert out.startswith("False") and "XPU_OPS_CPU_DEVICES is 'many'" in out


def test_the_backend_is_listed() -> None:
    assert dist.is_xccl_available()
    assert "ProcessGroupXCCL" in dist.distributed_c10d.__all__
    assert dist.Backend.backend_capability["gloo"].count("xpu") == 1
    assert dist.get_default_backend_for_device(torch.device("xpu")) == "xccl"
