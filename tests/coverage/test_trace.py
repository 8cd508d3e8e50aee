"""Tracing a program: how each operator ran, the share of fallbacks, what to add next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

import xpu_ops
from xpu_ops.coverage.trace import Trace

LIB = torch.library.Library("xpu_ops_trace_test", "DEF")
LIB.define("slow(Tensor x) -> Tensor")
LIB.define("quick(Tensor x) -> Tensor")
LIB.define("hidden(Tensor x) -> Tensor")
LIB.impl("slow", lambda x: sum(x @ x for _ in range(40)), "CPU")
LIB.impl("quick", lambda x: x + 1, "CPU")
LIB.impl("hidden", lambda x: x.cpu().exp().to("xpu"), "XPU")
OPS = torch.ops.xpu_ops_trace_test


def operators(trace: Trace) -> dict[str, str]:
    return {o.name: o.how for o in trace.operators}


@pytest.fixture(scope="module")
def square() -> torch.Tensor:
    return torch.rand(256, 256, device="xpu")


def test_native_composite_and_fallback(square: torch.Tensor) -> None:
    OPS.slow(OPS.quick(square))  # first calls import and warn
    with xpu_ops.trace_ops() as trace:
        y = torch.nn.functional.linear(square, square).sinh()
        for _ in range(3):
            y = OPS.quick(y)
        OPS.slow(y)
    how = operators(trace)
    assert how["linear"] == "composite"
    assert how["sinh"] == "native"
    assert how["xpu_ops_trace_test::slow"] == how["xpu_ops_trace_test::quick"] == "fallback"
    quick = next(o for o in trace.operators if o.name.endswith("quick"))
    assert (quick.calls, quick.dtypes, quick.shapes) == (3, ["f32"], {"f32[256, 256]": 3})
    assert [o.name.rpartition(":")[2] for o in trace.fallbacks] == ["slow", "quick"]  # the dearer one first
    assert "add.Tensor" not in how  # what a fallback runs on the CPU is not an operator on xpu


def test_shares_add_up(square: torch.Tensor) -> None:
    with xpu_ops.trace_ops() as trace:
        torch.mm(square, square)
        OPS.slow(square)
    assert trace.load_ms == sum(o.load_ms for o in trace.leaves)
    total = sum(o.host_ms + o.device_ms for o in trace.operators if not o.how.startswith("composite"))
    slow = next(o for o in trace.operators if o.name.endswith("slow"))
    assert trace.fallback_share == pytest.approx((slow.host_ms + slow.device_ms) / total)
    assert 0 < trace.fallback_share < 1
    assert trace.operator_ms <= trace.seconds * 1e3
    counted = [o for o in trace.operators if not o.how.startswith("composite")]
    assert trace.native_share == pytest.approx(1 - 1 / sum(o.calls for o in counted))


def test_a_kernel_on_the_cpu_is_a_fallback(square: torch.Tensor) -> None:
    with xpu_ops.trace_ops() as trace:
        OPS.hidden(square)
    hidden = next(o for o in trace.operators if o.name.endswith("hidden"))
    assert (hidden.how, hidden.below) == ("fallback", ["exp"])


def test_time_is_where_the_work_is(square: torch.Tensor) -> None:
    large = torch.rand(1024, 1024, device="xpu")
    torch.cumsum(large, 0)
    with xpu_ops.trace_ops() as trace:
        torch.cumsum(large, 0)
        square.view(-1)
    times = {o.name: o.total_ms for o in trace.operators}
    assert times["cumsum"] > 10 * times["view"]
    assert next(o for o in trace.operators if o.name == "cumsum").device_ms > 0


def test_loading_kernels_is_not_operator_time() -> None:
    code = """
        import torch, xpu_ops
        x = torch.ones(1 << 20, device="xpu")  # too large to run on the calling thread
        with xpu_ops.trace_ops() as first:
            x.erfc()
        with xpu_ops.trace_ops() as second:
            x.erfc()
        print(first.load_ms > 0, second.load_ms == 0, first.operator_ms < first.load_ms + 1e3 * first.seconds)
    """
    from support import script

    assert script.out(code, XPU_OPS_INLINE="0") == "True True True"


def test_backward_and_other_threads(square: torch.Tensor) -> None:
    x = square.clone().requires_grad_()
    with xpu_ops.trace_ops() as trace:
        torch.sigmoid(x).sum().backward()
        thread = threading.Thread(target=lambda: torch.tan(square))
        thread.start()
        thread.join()
    assert {"sigmoid", "sigmoid_backward", "tan"} <= operators(trace).keys()


def test_untimed(square: torch.Tensor) -> None:
    with xpu_ops.trace_ops(timed=False) as trace:
        torch.mm(square, square)
    assert sum(o.device_ms for o in trace.operators) == 0
    assert trace.as_dict()["timed"] is False


def test_nothing_is_left_behind(square: torch.Tensor) -> None:
    with pytest.raises(ZeroDivisionError), xpu_ops.trace_ops() as trace:
        torch.sin(square)
        _ = 1 / 0
    assert operators(trace)["sin"] == "native"
    with xpu_ops.trace_ops() as trace, pytest.raises(RuntimeError, match="one trace at a time"), xpu_ops.trace_ops():
        pass
    torch.cos(square)
    with xpu_ops.trace_ops() as trace:
        pass
    assert trace.operators == []
    assert (trace.fallback_share, trace.native_share) == (0.0, 1.0)


def test_errors_of_kernels_still_reach_the_program(square: torch.Tensor) -> None:
    with xpu_ops.trace_ops(), pytest.raises(IndexError):
        square.index_select(0, torch.tensor([1000], device="xpu"))
        torch.xpu.synchronize()


def test_command(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch\nfrom helper import size\nx = torch.rand(size, size, device='xpu')\n"
        "torch.linalg.inv(x).exp()\nassert sys.argv[1:] == ['--flag', '3'], sys.argv\nsys.exit(int(sys.argv[2]))\n"
    )
    (tmp_path / "helper.py").write_text("size = 16\n")
    out = tmp_path / "trace.json"
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.coverage", "trace", "--json", str(out)]
    without = {**os.environ, "XPU_OPS_MKL": "0"}  # so that the inverse falls back
    done = subprocess.run([*command, str(program), "--flag", "3"], capture_output=True, text=True, env=without)
    assert done.returncode == 3, done.stderr
    assert "add next, 1: linalg_inv_ex (f32): 1 calls" in done.stderr
    trace = json.loads(out.read_text())
    assert trace["name"] == "program.py"
    assert [n["name"] for n in trace["next"]] == ["linalg_inv_ex"]
    assert trace["next"][0]["share"] == pytest.approx(trace["fallback_share"], abs=1e-3)
    how = {o["name"]: o["how"] for o in trace["operators"]}
    assert (how["exp"], how["linalg_inv"]) == ("native", "composite+fallback")
    assert subprocess.run([*command, str(tmp_path / "none.py")], capture_output=True).returncode == 2


def test_command_after_a_warm_up(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import torch\ntorch.special.ndtri(torch.rand(64, device='xpu')).sum().item()\n")
    out = tmp_path / "trace.json"
    command = [sys.executable, "-W", "ignore", "-m", "xpu_ops.coverage", "trace", "--json", str(out)]
    loaded = {}
    for flags in ([], ["--warmup"]):
        subprocess.run([*command, *flags, str(program)], check=True, capture_output=True)
        loaded[bool(flags)] = json.loads(out.read_text())["load_ms"]
    assert loaded[False] > 0
    assert loaded[True] == 0
