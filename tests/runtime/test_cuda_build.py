"""Beside a CUDA build of torch, as PyPI's is, on a machine without an NVIDIA GPU. Collected only where
XPU_OPS_CUDA_TORCH_PYTHON names the interpreter of such an environment with xpu_ops installed; `make test-cuda-build`
makes one."""

from __future__ import annotations

import json
import os

import pytest
from support import script

PYTHON = os.environ["XPU_OPS_CUDA_TORCH_PYTHON"]


def out(code: str, **env: str) -> str:
    done = script.run(code, python=PYTHON, timeout=300, PYTHONPATH="", PYTHONSAFEPATH="1", **env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_import_says_nothing_and_the_accelerator_is_xpu() -> None:
    code = """
        import torch
        assert torch.version.cuda and torch._C._has_cuda, "not a CUDA build"
        print(torch.accelerator.current_accelerator(), torch.accelerator.is_available(), torch.accelerator.device_count())
        print(torch.xpu.is_available(), torch.cuda.is_available(), torch.backends.cuda.is_built())
        torch.accelerator.synchronize()
        print(torch.Stream().device.type, torch.Event().device.type)
    """
    assert out(code).splitlines() == ["xpu True 1", "True False True", "xpu xpu"]


@pytest.mark.parametrize("autoload", ["1", "0"])
def test_cpu_training_works_as_without_the_package(autoload: str) -> None:
    code = """
        import torch
        from torch.utils.checkpoint import checkpoint
        layer = torch.nn.Linear(4, 4)
        x = torch.ones(2, 4, requires_grad=True)
        layer(x).sum().backward()
        assert torch.allclose(x.grad, layer.weight.sum(0).expand(2, 4))
        checkpoint(layer, x, use_reentrant=False).sum().backward()
        compiled = torch.compile(layer, backend="aot_eager")
        compiled(x).sum().backward()
        assert torch.allclose(x.grad, 3 * layer.weight.sum(0).expand(2, 4))
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, num_workers=2)
        print(sum(batch.sum().item() for batch in loader))
    """
    assert out(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload) == "28.0"


def test_torch_lays_no_kernel_over_ours() -> None:
    code = """
        import torch
        dump = torch._C._dispatch_dump("aten::bmm").splitlines()
        print(sum(line.startswith("XPU") for line in dump), [line for line in dump if line.startswith("XPU") and "_native" in line])
    """
    assert out(code) == "1 []"


def test_xpu_works_as_beside_the_cpu_build() -> None:
    code = """
        import torch
        from torch.utils.checkpoint import checkpoint
        def grads(device, run=lambda m, x: m(x)):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(288, 5))
            x = torch.randn(2, 3, 8, 8, requires_grad=True)
            model, x = model.to(device), x.detach().to(device).requires_grad_()
            run(model, x).square().sum().backward()
            return [t.grad.cpu() for t in (x, *model.parameters())]
        expected = grads("cpu")
        runs = {
            "eager": lambda m, x: m(x),
            "checkpoint": lambda m, x: checkpoint(m, x, use_reentrant=False),
            "compile": lambda m, x: torch.compile(m, backend="aot_eager")(x),
        }
        for name, run in runs.items():
            torch.testing.assert_close(grads("xpu", run), expected, atol=1e-4, rtol=1e-4)
            print(name)
        pinned = torch.ones(3).pin_memory()
        print(pinned.is_pinned(), pinned.to("xpu", non_blocking=True).sum().item())
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=4, pin_memory=True)
        print([batch.is_pinned() for batch in loader])
        a, graph = torch.zeros(3, device="xpu"), torch.xpu.XPUGraph()
        a.add_(1)
        with torch.xpu.graph(graph):
            a.add_(1)
        graph.replay()
        print(a.tolist())
    """
    assert out(code).splitlines() == ["eager", "checkpoint", "compile", "True 3.0", "[True, True]", "[2.0, 2.0, 2.0]"]


def test_doctor_finds_no_problem() -> None:
    report = json.loads(out("import sys; sys.argv = ['', 'doctor', '--json']; from xpu_ops.cli import main; main()"))
    assert [f for f in report["findings"] if f["state"] == "problem"] == []
    found = {f["name"]: f["value"] for f in report["findings"]}
    assert "CUDA build and sees no NVIDIA GPU" in found["cuda"]
    assert "agrees with the CPU" in found["training step"]


def test_an_nvidia_gpu_is_left_to_torch() -> None:
    """One sentence, and torch as it was: a GPU is simulated where torch counts them."""
    code = """
        import sys, torch, warnings
        torch.cuda.device_count = lambda: 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from xpu_ops import _autoload
            _autoload._autoload()
        print(sorted({str(w.message).split(": ", 1)[1][:42] for w in caught}))
        print(torch.accelerator.current_accelerator(check_available=False), torch.xpu.is_available(), "xpu_ops._C" in sys.modules)
    """
    expected = ["['xpu_ops found a second accelerator, cuda, ']", "cuda False False"]
    assert out(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").splitlines() == expected
