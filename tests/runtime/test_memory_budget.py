"""The memory of the CPU device: what it says it has, what it refuses, and blocks as large as the budget."""

from __future__ import annotations

import pytest
import torch
from support import script


def out(code: str, **env: str) -> list[str]:
    return script.out(code, **env).split()


def test_all_who_are_asked_agree() -> None:
    code = """
        import torch
        total = torch.xpu.get_device_properties().total_memory
        free, whole = torch.xpu.mem_get_info()
        x = torch.empty(256 << 20, dtype=torch.uint8, device="xpu")
        print(total, whole, free <= total, free - torch.xpu.mem_get_info()[0] >= 0)
        try:
            torch.empty(3 << 30, dtype=torch.uint8, device="xpu")
        except torch.OutOfMemoryError as e:
            print("total capacity of 2.00 GiB" in str(e))
        torch.xpu.set_per_process_memory_fraction(0.25)
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="xpu")
        except torch.OutOfMemoryError:
            print("fraction")
    """
    total = str(2 << 30)
    assert out(code, XPU_OPS_CPU_MEMORY="2G") == [total, total, "True", "True", "True", "fraction"]


def test_several_indices_share_it() -> None:
    code = "import torch; print(*(torch.xpu.get_device_properties(i).total_memory for i in range(2)))"
    assert out(code, XPU_OPS_CPU_MEMORY="4G", XPU_OPS_CPU_DEVICES="2") == [str(2 << 30)] * 2


@pytest.mark.parametrize(
    "wrong", ["much", "0", *(pytest.param(w, marks=pytest.mark.slow) for w in ("-1", "8Q", "8GB", "1000T"))]
)
def test_wrong_settings(wrong: str) -> None:
    done = script.run("import torch; torch.ones(1, device='xpu')", XPU_OPS_CPU_MEMORY=wrong)
    assert done.returncode != 0 and f"XPU_OPS_CPU_MEMORY is '{wrong}'" in done.stderr


@pytest.mark.skipif(torch.xpu.get_device_properties().type != "cpu", reason="the budget is the CPU device's")
def test_the_host_keeps_some_and_one_block_takes_the_budget() -> None:
    """The driver alone refuses a block of more than half of the machine's memory."""
    code = """
        import os, torch
        total = torch.xpu.get_device_properties().total_memory
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = torch.xpu.mem_get_info()[0]
        size = min(free, total) - (64 << 20)
        x = torch.empty(size, dtype=torch.uint8, device="xpu")
        x[-1] = 7
        print(total < machine, x[-1].item(), size > machine // 2 or free < machine * 0.55)
    """
    assert out(code) == ["True", "7", "True"]
