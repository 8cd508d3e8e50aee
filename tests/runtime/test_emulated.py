"""XPU_OPS_EMULATE: what a program sees of a named GPU, and what that GPU refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support import script

REFUSED = "Required aspect fp64 is not supported on the device"
# As torch prints the devices: an A770's in a report, a B580's in Inductor's cache, a Max 1550's in torch-xpu-ops issue 3588.
GPUS = {
    "a770": (1, "Intel(R) Arc(TM) A770 Graphics", 15473 << 20, 512, 32, [8, 16, 32], False, False),
    "b580": (1, "Intel(R) Arc(TM) B580 Graphics", 12168933376, 160, 20, [16, 32], True, True),
    "max1550": (2, "Intel(R) Data Center GPU Max 1550", 65520 << 20, 512, 64, [16, 32], True, True),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "a770" else pytest.mark.slow) for n in GPUS])
def test_a_program_sees_the_gpu(name: str) -> None:
    code = """
        import json, torch
        names = ("name", "total_memory", "max_compute_units", "gpu_subslice_count", "sub_group_sizes", "has_fp64",
                 "has_subgroup_2d_block_io", "type", "max_work_group_size")
        capability = torch.xpu.get_device_capability()
        properties = torch.xpu.get_device_properties()
        assert all(capability[n] == getattr(properties, n) for n in names)
        print(json.dumps([torch.xpu.device_count(), *(capability[n] for n in names), properties.is_integrated_gpu]))
        assert torch.xpu.mem_get_info()[1] == properties.total_memory
        last = torch.device("xpu", torch.xpu.device_count() - 1)
        assert (torch.ones(5, device=last) * 2).sum().item() == 10
    """
    done = script.run(code, XPU_OPS_EMULATE=name, XPU_OPS_CPU_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [*GPUS[name], "gpu", 1024, False]


def test_a_gpu_without_double_refuses_kernels_of_double() -> None:
    """Also where the kernel would be inline, is compiled at run time or is oneMKL's. What runs on the CPU goes on."""
    code = """
        import torch
        x = torch.ones(4, dtype=torch.float64).to("xpu")  # a copy is no kernel
        assert x.cpu().sum() == 4
        small = torch.ones(4, device="xpu")
        calls = {
            "add": lambda: x + x,
            "conversion": lambda: x.float(),
            "widening": lambda: small.double(),
            "sum": lambda: x.sum(),
            "product": lambda: x.view(2, 2) @ x.view(2, 2),
            "one element": lambda: x[:1].exp(),
            "fft": lambda: torch.fft.fft(x),
            "compiled": lambda: torch.compile(lambda t: torch.sin(t) * 2 + 1)(x),
            "cpu": lambda: x.cpu() + 1,
            "float": lambda: small.sum() + torch.fft.fft(small).abs().sum(),
            "softmax": lambda: small.softmax(0),
            "histogram": lambda: small.histc(4) + torch.histogram(small, 4).hist,  # of ends that the host works out
        }
        for name, call in calls.items():
            try:
                call()
                torch.xpu.synchronize()
                print(name, "runs")
            except RuntimeError as e:
                print(name, str(e).strip().splitlines()[0])
    """
    done = script.run(code, XPU_OPS_EMULATE="a770")
    assert done.returncode == 0, done.stderr
    found = dict(
        line.rsplit(" runs", 1) if line.endswith(" runs") else line.split(" Required", 1)
        for line in done.stdout.splitlines()
    )
    runs = {"cpu", "float", "softmax", "histogram"}
    assert {n for n, rest in found.items() if rest == ""} == runs, done.stdout
    assert all(rest == REFUSED.removeprefix("Required") for n, rest in found.items() if n not in runs), done.stdout


def test_it_is_a_discrete_gpu() -> None:
    code = """
        import torch, xpu_ops
        try:
            xpu_ops.as_cpu(torch.ones(3, device="xpu"))
        except RuntimeError as e:
            print("refused")
    """
    assert script.out(code, XPU_OPS_EMULATE="b580").strip() == "refused"


def test_it_has_no_more_memory_than_the_machine() -> None:
    code = """
        import torch
        try:
            torch.empty(60 << 30, dtype=torch.uint8, device="xpu")
        except torch.OutOfMemoryError:
            print("refused")
    """
    assert script.out(code, XPU_OPS_EMULATE="max1550", XPU_OPS_CPU_MEMORY="2G").strip() == "refused"


@pytest.mark.slow
def test_its_name_may_have_blanks_and_its_brand() -> None:
    code = "import torch; print(torch.xpu.get_device_name())"
    assert "A770" in script.out(code, XPU_OPS_EMULATE="Intel Arc A770")
    assert "1550" in script.out(code, XPU_OPS_EMULATE="Max 1550")
    done = script.run("import torch; torch.ones(1, device='xpu')", XPU_OPS_EMULATE="rtx")
    assert "XPU_OPS_EMULATE is 'rtx', expected one of a770, b580, max1550." in done.stderr


@pytest.mark.slow
def test_the_command_runs_a_program_or_prints_the_properties() -> None:
    command = [sys.executable, "-m", "xpu_ops.cli", "emulate"]
    done = subprocess.run([*command, "max1550"], capture_output=True, text=True, check=True)
    shown = json.loads(done.stdout)
    assert list(shown) == ["xpu:0", "xpu:1"]
    assert shown["xpu:1"]["total_memory"] == 65520 << 20
    program = [sys.executable, "-c", "import sys, torch; print(torch.xpu.get_device_name(), sys.argv[1:])", "--flag"]
    done = subprocess.run([*command, "a770", *program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Intel(R) Arc(TM) A770 Graphics ['--flag']"
    done = subprocess.run([*command, "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "xpu-ops emulate: XPU_OPS_EMULATE is 'none', expected one of a770, b580, max1550."
