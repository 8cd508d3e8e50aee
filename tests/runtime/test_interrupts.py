"""Ctrl-C in a chain of kernels, and errors of kernels at the call that made them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from support import script

CHAIN = """
import torch
x = torch.randn(600, 600, device="xpu")
print("ready", flush=True)
try:
    while True:
        x = (x @ x).tanh().softmax(-1)
except KeyboardInterrupt:
    torch.xpu.synchronize()
    print(torch.ones(3, device="xpu").sum().item(), x.isfinite().all().item(), flush=True)
    {then}
"""


@pytest.mark.parametrize(("then", "code"), [("pass", 0), ("raise", -signal.SIGINT)])
def test_an_interrupt_ends_a_chain_of_kernels(then: str, code: int) -> None:
    """The device goes on where the program catches it; where it does not, the process ends as Python's do."""
    program = [sys.executable, "-W", "ignore", "-c", CHAIN.format(then=then)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == "3.0 True\n", err
    assert process.returncode == code, err


@pytest.mark.parametrize("sync", ["1", "0"])
def test_when_an_error_of_a_kernel_is_raised(sync: str) -> None:
    """By the call with XPU_OPS_SYNC_ERRORS=1, else by the next wait; the device goes on."""
    code = """
    import torch
    x, i = torch.ones(1 << 20, device="xpu"), torch.full((1 << 20,), 1 << 21, device="xpu")
    torch.xpu.synchronize()
    for step in (lambda: x[i], torch.xpu.synchronize):
        try:
            step()
            print("returned")
        except Exception as error:
            print(type(error).__name__, str(error)[:200].replace(chr(10), " "))
    print(x.sum().item())
    """
    first, second, rest = script.out(code, XPU_OPS_SYNC_ERRORS=sync).splitlines()
    at, other = (first, second) if sync == "1" else (second, first)
    assert "index" in at and "2097152" in at and "Error" in at.split()[0]
    assert other == "returned" and rest == f"{float(1 << 20)}"
