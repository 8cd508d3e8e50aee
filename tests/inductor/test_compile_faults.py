"""torch.compile where something goes wrong: a clear message, an exception or eager's result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch._inductor.config as config

from xpu_ops.jit import service, worker

FULL_CACHE = """
import torch
f = torch.compile(lambda a: (a * 2 + {n}).sum(1))
a = torch.ones(4, 5, device="xpu")
assert f(a).tolist() == [5 * (2 + {n})] * 4
print("done")
"""


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Empty caches, so that the compiler is needed."""
    monkeypatch.setenv("XPU_OPS_CACHE_DIR", str(tmp_path / "kernels"))
    with config.patch(force_disable_caches=True):
        yield tmp_path


def crashing(folder: Path) -> Path:
    program = folder / "kernelc"
    program.write_text("#!/bin/sh\nread line\necho 'the compiler fell over' >&2\nkill -SEGV $$\n")
    program.chmod(0o755)
    return program


def test_a_compiler_that_crashes(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.WORKER.stop()
    a = torch.rand(10, device="xpu")
    with monkeypatch.context() as m:
        program = crashing(graphs)
        m.setattr(worker, "_program", lambda: program)
        with pytest.raises(Exception, match=r"crashed twice on this source \(exit code -11: the compiler fell over"):
            torch.compile(lambda a: a * 2 + 41)(a)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(lambda a: a * 2 + 41)(a), a * 2 + 41)


def test_errors_can_be_suppressed(graphs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """suppress_errors gives eager's result, as on other devices."""
    worker.WORKER.stop()
    a, program = torch.rand(10, device="xpu"), crashing(graphs)
    monkeypatch.setattr(worker, "_program", lambda: program)
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.testing.assert_close(torch.compile(lambda a: a * 2 + 42)(a), a * 2 + 42)


def test_a_worker_that_is_killed(graphs: Path) -> None:
    a = torch.rand(10, device="xpu")
    torch.testing.assert_close(torch.compile(lambda a: a * 2 + 43)(a), a * 2 + 43)
    pid = worker.WORKER.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(lambda a: a * 2 + 44)(a), a * 2 + 44)
    assert worker.WORKER.pid not in (None, pid)


@pytest.mark.slow
def test_a_cache_that_is_full(tmp_path: Path) -> None:
    """The kernels' folder takes no more: they are compiled again by the next process."""
    unshare, mount, sh = map(shutil.which, ("unshare", "mount", "sh"))
    if not (unshare and mount and sh) or subprocess.run([unshare, "-rm", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    (tmp_path / "full").mkdir()
    (tmp_path / "graph.py").write_text(FULL_CACHE.format(n=7))
    folder, program = tmp_path / "full", f"{sys.executable} {tmp_path / 'graph.py'}"
    command = f"{mount} -t tmpfs -o size=4k none {folder} && exec {program}"
    env = {**os.environ, "XPU_OPS_CACHE_DIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "graphs")}
    for _ in range(2):
        done = subprocess.run([unshare, "-rm", sh, "-c", command], env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and done.stdout == "done\n", done.stderr


def test_more_shapes_than_the_recompile_limit() -> None:
    f = torch.compile(lambda a: (a * 2 + 45).sum(1), dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=2):
        for n in (2, 3, 4, 5):
            a = torch.rand(n, 3, device="xpu")
            torch.testing.assert_close(f(a), (a * 2 + 45).sum(1))


def test_an_index_out_of_range_in_a_backward() -> None:
    w = torch.rand(10, 4, device="xpu", requires_grad=True)
    f = torch.compile(lambda w, i: (w[i] * 2).sum())
    with pytest.raises(RuntimeError, match="index out of bounds|out of range"):
        f(w, torch.tensor([3, 99], device="xpu")).backward()
        torch.xpu.synchronize()
    w.grad = None
    f(w, torch.tensor([3, 3], device="xpu")).backward()
    assert w.grad is not None and w.grad[3].tolist() == [4.0] * 4 and w.grad.sum().item() == 16


def test_no_process_waits_for_triton() -> None:
    """Upstream starts its compile workers for every graph on a GPU."""
    from torch.utils._triton import has_triton_package

    if has_triton_package():
        pytest.skip("Triton compiles in these processes")
    from torch._inductor.async_compile import AsyncCompile

    torch.compile(lambda a: a * 2 + 46)(torch.rand(10, device="xpu"))
    assert not AsyncCompile.use_process_pool()
    assert AsyncCompile.process_pool.cache_info().currsize == 0


def test_records_tell_what_was_compiled(graphs: Path) -> None:
    before = len(service.records)
    torch.compile(lambda a: a * 2 + 47)(torch.rand(10, device="xpu"))
    assert [r.compiled for r in service.records[before:]] == [True]
