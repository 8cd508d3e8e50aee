"""torch.compile: requirements on the machine, its caches across processes, its errors."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import script
from torch._inductor.utils import run_and_get_code

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
    code = "import sys, torch; print([m for m in sys.modules if m.startswith('torch._inductor')])"
    assert script.out(code) == "[]"


@pytest.mark.slow
def test_without_a_compiler_then_from_the_cache(tmp_path: Path) -> None:
    """PATH is empty, and so are the system's include folders where a mount namespace can be made: the kernels compile.
    A second process finds them."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "graph.py").write_text(GRAPH)
    command = [sys.executable, str(tmp_path / "graph.py")]
    env = {
        **os.environ,
        "PATH": str(tmp_path / "empty"),
        "XPU_OPS_CACHE_DIR": str(tmp_path / "kernels"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs"),
    }
    env = {k: v for k, v in env.items() if k not in ("CC", "CXX")}
    unshare, mount, sh = map(shutil.which, ("unshare", "mount", "sh"))
    if unshare and mount and sh and subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode == 0:
        hidden = [d for d in ("/usr/include", "/usr/local/include", "/usr/lib/gcc") if Path(d).is_dir()]
        mounts = [f"{mount} --bind {tmp_path / 'empty'} {d}" for d in hidden]
        command = [unshare, "-rm", sh, "-c", " && ".join([*mounts, "exec " + shlex.join(command)])]

    def modules() -> tuple[int, int, bool]:
        """Compiled modules, modules from the cache, whether the compiler ran."""
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        compiled, cached, worker = done.stdout.split()
        return int(compiled), int(cached), worker == "True"

    first, second = modules(), modules()
    assert first[0] > 0 and first[2]
    assert second[0] == 0 and second[1] > 0 and not second[2]


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
    with pytest.raises(Exception, match=r"index is out of bounds for dimension with size 0"):
        f(torch.randn(0, 4, device="xpu"), torch.tensor([0, 1], device="xpu"))


def test_a_store_out_of_range_writes_nothing() -> None:
    def f(a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        a[i] = 5.0
        return a + 1

    a = torch.zeros(10, device="xpu")
    torch.compile(f)(a, torch.tensor([3, 10], device="xpu"))
    with pytest.raises(RuntimeError, match="index out of bounds"):
        torch.xpu.synchronize()
    assert a.tolist() == [0, 0, 0, 5, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("option", ["cpp_wrapper", "fx_wrapper"])
def test_other_wrappers_are_refused(option: str) -> None:
    x = torch.randn(2, 4, device="xpu")
    with (
        torch._inductor.config.patch({option: True}),
        pytest.raises(Exception, match=f"config.{option} is not available on xpu"),
    ):
        torch.compile(lambda x: x.sin() + 1)(x)


def test_cpu_graphs_keep_their_backend() -> None:
    from torch._inductor.codegen import common

    common.init_backend_registration()
    assert common.get_scheduling_for_device("cpu") is not None
    if shutil.which("g++") is None:
        pytest.skip("torch.compile on the CPU needs g++")
    x = torch.randn(40, 50)
    torch.testing.assert_close(torch.compile(lambda a: (a * 2).sum(1).tanh())(x), (x * 2).sum(1).tanh())


def test_is_compile_supported() -> None:
    from torch._dynamo.utils import is_compile_supported
    from torch.utils._triton import has_triton

    assert is_compile_supported("xpu")
    # torch asks whether Triton serves any device, and xpu is one where Triton is installed.
    assert is_compile_supported("cuda") == has_triton()


def test_streams_are_guarded() -> None:
    """A compiled function runs on the stream that is current at its call, and the guard's question gets torch's answer."""
    from torch._dynamo.utils import get_current_stream

    f = torch.compile(lambda a: (a * 2 + 1).relu().sum(0))
    a = torch.randn(512, 64, device="xpu")
    expected = f(a)
    stream = torch.xpu.Stream()
    with torch.xpu.stream(stream):
        for device in (torch.device("xpu", 0), torch.device("xpu")):
            assert get_current_stream(device) == torch.accelerator.current_stream(device)
            assert get_current_stream(device).stream_id == stream.stream_id
        before = stream.query()
        got = f(a)
        stream.synchronize()
    assert before and torch.equal(got, expected)


def test_streams_in_a_graph() -> None:
    """A graph that names streams gets them at each call: the current one, one that is given, one behind an event."""

    def on_current(a: torch.Tensor) -> tuple[torch.Tensor, torch.Stream]:
        return a * 2, torch.accelerator.current_stream()

    def behind(a: torch.Tensor, s: torch.Stream) -> torch.Tensor:
        s.wait_stream(torch.xpu.current_stream())
        with torch.xpu.stream(s):
            b = a + 1
        torch.xpu.current_stream().wait_stream(s)
        return b * 3

    a = torch.randn(64, device="xpu")
    side = torch.xpu.Stream()
    current, given = torch.compile(on_current, backend="eager"), torch.compile(behind, backend="eager")
    for _ in range(2):
        assert current(a)[1] == torch.accelerator.current_stream()
        torch.testing.assert_close(given(a, side), (a + 1) * 3)
        with torch.xpu.stream(side):
            assert current(a)[1] == torch.accelerator.current_stream()
            assert current(a)[1].stream_id == side.stream_id


def test_a_graph_that_names_no_stream_asks_for_none() -> None:
    from torch._dynamo import graph_bytecode_inputs

    f = torch.compile(lambda a: a * 2 + 1)
    a = torch.randn(64, device="xpu")
    f(a)
    graph_bytecode_inputs.index_to_external_object_weakref.clear()
    torch.testing.assert_close(f(a), a * 2 + 1)
    assert not graph_bytecode_inputs.index_to_external_object_weakref


def test_a_profiler_sees_the_bytecode_of_a_call() -> None:
    """A call that nobody records makes no record; one that a profiler records has torch's three."""
    f = torch.compile(lambda a: a.sin() * 2 + 1)
    a = torch.randn(64, device="xpu")
    expected = f(a)
    with torch.profiler.profile() as p:
        got = f(a)
    assert torch.equal(f(a), got) and torch.equal(expected, got)
    names = [e.name for e in p.events()]
    assert names.count("Pregraph bytecode") == 1
    assert sum(n.startswith("## Call CompiledFxGraph") for n in names) == 1


def test_a_call_of_a_plain_graph() -> None:
    """Results, gradients' mode and writes are eager's at the first call and later ones, with gradients on and off."""

    def plain(a: torch.Tensor) -> torch.Tensor:
        return a.sin() * 2 + 1

    def writes(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * 3

    def views(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b = a * 2
        return b.t(), a[1]

    def turns_off(a: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        return a * 2

    for f in (plain, writes, views, turns_off):
        compiled = torch.compile(f)
        for enabled in (False, False, True, False, True, True):
            a = torch.randn(4, 5, device="xpu")
            b = a.clone()
            with torch.set_grad_enabled(enabled):
                expected = f(a)
                mode = torch.is_grad_enabled()
                torch.set_grad_enabled(enabled)
                got = compiled(b)
                assert torch.is_grad_enabled() == mode
            torch.testing.assert_close((got, b), (expected, a))
    w = torch.randn(4, 5, device="xpu", requires_grad=True)
    compiled = torch.compile(plain)
    for _ in range(3):
        (g,) = torch.autograd.grad(compiled(w).sum(), w)
        torch.testing.assert_close(g, 2 * w.detach().cos())
        with torch.no_grad():
            assert not compiled(w).requires_grad


def test_functions_for_a_profiler_alone() -> None:
    from xpu_ops import _autoload

    seen: list[tuple[object, ...]] = []

    def function(*args: object) -> str:
        seen.append(args)
        return "called"

    f = _autoload.load().while_recorded(function)
    assert f() is None and f(None) is None and not seen
    assert f("context") == "called"
    with torch.profiler.profile():
        assert f() == "called" and f(None) is None
    assert seen == [("context",), ()]
    with pytest.raises(TypeError):
        _autoload.load().while_recorded(len)("a", "b")


def test_a_compiled_call_runs_on_its_device_and_restores_the_current_one() -> None:
    from xpu_ops.inductor.compiler import Module

    scope = Module.scope(0)
    with scope, scope:
        assert torch.xpu.current_device() == 0
    with pytest.raises(ZeroDivisionError), scope:
        _ = 1 / 0
    assert torch.xpu.current_device() == 0
    with pytest.raises(RuntimeError), Module.scope(torch.xpu.device_count() + 7):
        raise AssertionError("there is no such device")
    assert torch.xpu.current_device() == 0


def test_products_are_not_timed() -> None:
    """torch does so for GPUs where Triton is installed, to see whether sizes should be rounded."""
    from torch._dynamo.utils import counters

    counters.clear()
    a, b = torch.randn(255, 255, device="xpu"), torch.randn(255, 255, device="xpu")
    torch.testing.assert_close(torch.compile(lambda x, y: (x @ y).relu())(a, b), (a @ b).relu())
    assert counters["inductor"]["pad_mm_bench"] == 0


def test_checks_of_a_graph_are_torchs() -> None:
    """The check of a tensor's layout at each call accepts and refuses what torch's does, with its words."""
    from xpu_ops.inductor.compiler import Module

    x = torch.randn(4, 5, 1, 6, device="xpu")
    own, torchs = Module.layout_check(), torch._C._dynamo.guards.assert_size_stride
    for check in (own, torchs):
        check(x, (4, 5, 1, 6), (30, 6, 6, 1), "input")
        check(x, (4, 5, 1, 6), (30, 6, 99, 1))  # no stride goes along one element
    for wrong in (((4, 5, 1, 7), (30, 6, 6, 1)), ((4, 5, 1, 6), (30, 7, 6, 1)), ((4, 5, 6), (30, 6, 1)), ([4], (1,))):
        texts = []
        for check in (own, torchs):
            with pytest.raises((AssertionError, TypeError)) as error:
                check(x, *wrong, "op")
            texts.append((error.type, str(error.value)))
        assert texts[0] == texts[1]
    _, (code, *_) = run_and_get_code(torch.compile(torch.sin), x)
    assert "assert_size_stride = sycl_module.layout_check()" in code
