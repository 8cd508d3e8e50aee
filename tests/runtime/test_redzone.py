"""XPU_OPS_REDZONE: a write outside of a block is reported; everything else works as without."""

from __future__ import annotations

import pytest
from support import script


def test_writes_outside_are_reported_once() -> None:
    code = """
        import ctypes, gc, torch, xpu_ops
        def report():
            try:
                torch.xpu.synchronize()
                print("nothing")
            except RuntimeError as e:
                print(e)
        x = torch.ones(10, device="xpu")
        host = xpu_ops.as_cpu(x).data_ptr()
        report()
        ctypes.memset(host + 42, 7, 3)
        report()
        report()
        ctypes.memset(host - 8, 7, 8)
        del x
        gc.collect()
        report()
        report()
    """
    done = script.run(code, XPU_OPS_REDZONE="1", XPU_OPS_DISCRETE="", XPU_OPS_POLICY="")
    assert done.returncode == 0, done.stderr
    freed = "XPU_OPS_REDZONE: bytes 504 to 511 of the 512 in front of a block of 40 bytes were written to."
    assert done.stdout.splitlines() == [
        "nothing",
        "XPU_OPS_REDZONE: bytes 2 to 4 behind the end of a block of 40 bytes were written to.",
        "nothing",
        freed,
        "nothing",
    ]
    assert f"xpu_ops: {freed}" in done.stderr


@pytest.mark.parametrize(
    "mode",
    [
        {},
        {"XPU_OPS_DISCRETE": "1"},
        *(
            pytest.param({f"XPU_OPS_{name}": value}, marks=pytest.mark.slow)
            for name, value in (("INLINE", "0"), ("POISON", "1"))
        ),
    ],
)
def test_a_training_step_under_it(mode: dict[str, str]) -> None:
    """Graphs, streams, pools and the allocator's statistics go on; no kernel of the step writes outside."""
    code = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 7, 3), nn.BatchNorm2d(7), nn.ReLU(), nn.Flatten(), nn.Linear(7 * 121, 5)).to("xpu")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            x, y = torch.randn(5, 3, 13, 13).to("xpu"), torch.tensor([0, 1, 2, 3, 4]).to("xpu")
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        stream = torch.xpu.Stream()
        with torch.xpu.stream(stream):
            z = x * 2
            x.record_stream(stream)
        del x
        graph = torch.xpu.XPUGraph()
        a = torch.ones(33, device="xpu")
        torch.xpu.synchronize()
        with torch.xpu.graph(graph):
            b = a * 3 + 1
        graph.replay()
        torch.xpu.synchronize()
        assert b.tolist() == [4.0] * 33
        assert torch.xpu.memory_allocated() > 0
        assert model[0].weight.data_ptr() % 512 == 0
        torch.xpu.empty_cache()
        torch.xpu.synchronize()
        try:
            torch.empty(2**62, device="xpu")
        except RuntimeError:
            print("done")
    """
    assert script.out(code, XPU_OPS_REDZONE="1", **mode) == "done"
