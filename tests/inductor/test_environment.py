"""What torch.compile needs of the machine, its caches across processes, its errors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import script

GRAPH = """
import torch
from torch.nn import functional as F
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)).to("xpu")
x = torch.randn(8, 16, device="xpu")
compiled = torch.compile(model)
y = compiled(x)
y.square().mean().backward()
torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-5)
from xpu_ops.jit import service, worker
print(sum(r.compiled for r in service.records), sum(not r.compiled for r in service.records), worker.WORKER.pid is not None)
"""


def test_import_torch_leaves_inductor_alone() -> None:
    assert (
        script.out("import sys, torch; print([m for m in sys.modules if 'inductor' in m and m.startswith('torch')])")
        == "[]"
    )


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    env = {"XPU_OPS_CACHE_DIR": str(tmp_path / "kernels"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs")}
    first = script.out(GRAPH, timeout=600, **env).split()
    assert int(first[0]) > 0 and first[2] == "True"
    compiled, cached, worker = script.out(GRAPH, timeout=600, **env).split()
    assert (compiled, worker) == ("0", "False") and int(cached) > 0


def test_no_compiler_on_the_path(tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    code = "import shutil\nassert not any(map(shutil.which, ('g++', 'gcc', 'c++', 'cc', 'clang++', 'icpx')))\n" + GRAPH
    env = {"XPU_OPS_CACHE_DIR": str(tmp_path / "kernels"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs")}
    assert int(script.out(code, timeout=600, PATH=str(empty), CXX="", CC="", **env).split()[0]) > 0


def test_no_system_headers(tmp_path: Path) -> None:
    """In a mount namespace where /usr/include and the compiler's own folders are empty."""
    unshare = shutil.which("unshare")
    allowed = unshare and subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode == 0
    if not allowed:
        pytest.skip("no user namespaces here")
    (tmp_path / "empty").mkdir()
    hidden = [d for d in ("/usr/include", "/usr/local/include", "/usr/lib/gcc") if Path(d).is_dir()]
    mounts = " && ".join(f"mount --bind {tmp_path / 'empty'} {d}" for d in hidden)
    (tmp_path / "graph.py").write_text(GRAPH)
    import os

    env = {**os.environ, "XPU_OPS_CACHE_DIR": str(tmp_path / "k"), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "g")}
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", f"{mounts} && exec {sys.executable} {tmp_path / 'graph.py'}"],
        env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 0


def test_index_out_of_range() -> None:
    f = torch.compile(lambda w, i: w[i] * 2)
    w = torch.randn(10, 4, device="xpu")
    torch.testing.assert_close(f(w, torch.tensor([3, -10], device="xpu")), w[[3, 0]] * 2)
    f(w, torch.tensor([3, 12], device="xpu"))
    with pytest.raises(RuntimeError, match=r"index out of bounds: 0 <= tmp\d+ < 10"):
        torch.xpu.synchronize()
    torch.testing.assert_close(f(w, torch.tensor([3, 4], device="xpu")), w[[3, 4]] * 2)


def test_index_out_of_range_of_nothing() -> None:
    f = torch.compile(lambda w, i: w[i] * 2)
    f(torch.randn(0, 4, device="xpu"), torch.tensor([0, 1], device="xpu"))
    with pytest.raises(RuntimeError, match=r"index out of bounds"):
        torch.xpu.synchronize()


def test_a_store_out_of_range_writes_nothing() -> None:
    def f(a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        a[i] = 5.0
        return a + 1

    a = torch.zeros(10, device="xpu")
    torch.compile(f)(a, torch.tensor([3, 10], device="xpu"))
    with pytest.raises(RuntimeError, match="index out of bounds"):
        torch.xpu.synchronize()
    assert a.tolist() == [0, 0, 0, 5, 0, 0, 0, 0, 0, 0]


def test_aot_inductor_is_refused(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 4).to("xpu")
    program = torch.export.export(model, (torch.randn(2, 4, device="xpu"),))
    with pytest.raises(Exception, match="AOTInductor and cpp_wrapper are not available on xpu"):
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))


def test_cpu_graphs_keep_their_backend() -> None:
    assert torch._inductor.codegen.common.get_scheduling_for_device("cpu") is not None
    if shutil.which("g++") is None:
        pytest.skip("torch.compile on the CPU needs g++")
    x = torch.randn(40, 50)
    torch.testing.assert_close(torch.compile(lambda a: (a * 2).sum(1).tanh())(x), (x * 2).sum(1).tanh())


def test_is_compile_supported() -> None:
    from torch._dynamo.utils import is_compile_supported

    assert is_compile_supported("xpu")
    assert not is_compile_supported("cuda")
