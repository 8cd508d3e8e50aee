"""torch.multiprocessing with xpu tensors: on one memory where the host reads that of the device, else copied."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from support import mp_child, script

import xpu_ops
from xpu_ops import _C

SHARED = _C.host_accessible(-1)
SECONDS = 120


class Echo:
    """A process that runs mp_child.echo."""

    def __init__(self, method: str) -> None:
        context = mp.get_context(method)
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.process = context.Process(target=mp_child.echo, args=(self.inbox, self.outbox), daemon=True)
        self.process.start()

    def send(self, *tensors: torch.Tensor) -> tuple[Any, int]:
        self.inbox.put(tensors)
        return self.outbox.get(timeout=SECONDS)


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    e = Echo("spawn")
    yield e
    e.inbox.put(None)
    e.process.join(SECONDS)
    assert e.process.exitcode == 0


def check(echo: Echo, *tensors: torch.Tensor, shared: bool = SHARED) -> int:
    """Tensors arrive as they are, and the writes of the other process come back where memory is shared."""
    before = [t.detach().cpu().clone() for t in tensors]
    want = [
        (str(t.device), t.dtype, tuple(t.shape), t.stride(), t.requires_grad, b.tolist())
        for t, b in zip(tensors, before, strict=True)
    ]
    seen, storages = echo.send(*tensors)
    assert seen == want
    for t, b in zip(tensors, before, strict=True):
        assert torch.equal(t.detach().cpu(), b * 2 if shared else b)
    return storages


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.complex64])
def test_dtypes(echo: Echo, dtype: torch.dtype) -> None:
    check(echo, torch.arange(6).to(dtype).view(2, 3).to("xpu"))


def test_views_parameters_and_nothing(echo: Echo) -> None:
    base = torch.arange(24.0).view(4, 6).to("xpu")
    assert check(echo, base[1:3, ::2], torch.zeros(2, 2, device="xpu")) == 2
    if SHARED:
        assert base[0].tolist() == list(range(6)) and base[1, :2].tolist() == [12.0, 7.0]
    check(echo, torch.nn.Parameter(torch.tensor([1.0, 2.0]).to("xpu")))
    check(echo, torch.empty(0, 3, device="xpu"))
    # Two views of one storage arrive as that.
    x = torch.ones(4, device="xpu")
    _, storages = echo.send(x[:2], x[2:])
    assert storages == 1 and x.tolist() == ([2.0] * 4 if SHARED else [1.0] * 4)
    _, storages = echo.send(x, x)
    assert storages == 1


def test_what_was_sent_can_be_sent_and_used_again(echo: Echo) -> None:
    x = torch.full((1000,), 1.0, device="xpu")
    view = x[10:20]
    for _ in range(3):
        check(echo, x)
    assert view.tolist() == [8.0 if SHARED else 1.0] * 10
    x.add_(1)
    assert view.sum().item() == (90.0 if SHARED else 20.0)
    y = (x * 2).cpu()
    del x, view
    gc.collect()
    assert y[0] == (18.0 if SHARED else 4.0)


@pytest.mark.skipif(not SHARED, reason="the host cannot read device memory here")
def test_memory_that_the_host_has_too_is_copied(echo: Echo) -> None:
    """A CPU tensor on the memory must not be left behind: the other process gets a copy."""
    x = torch.ones(5, device="xpu")
    host = xpu_ops.as_cpu(x)
    check(echo, x, shared=False)
    x.add_(1)
    torch.xpu.synchronize()
    assert host.tolist() == [2.0] * 5
    y = xpu_ops.as_xpu(torch.ones(3))
    check(echo, y, shared=False)


@pytest.mark.skipif(not SHARED, reason="the host cannot read device memory here")
def test_weights_that_were_sent_are_not_packed(echo: Echo) -> None:
    """Packed weights would miss what the other process writes."""
    layer = torch.nn.Linear(256, 256, bias=False).to("xpu").requires_grad_(False)
    x = torch.ones(64, 256, device="xpu")
    for _ in range(4):
        before = layer(x)
    echo.send(layer.weight)
    torch.testing.assert_close(layer(x), 2 * before)
    echo.send(layer.weight)
    torch.testing.assert_close(layer(x), 4 * before)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_tensors_of_another_process(method: str) -> None:
    context = mp.get_context(method)
    box, done = context.Queue(), context.Event()
    process = context.Process(target=mp_child.produce, args=(box, done))
    process.start()
    x = box.get(timeout=SECONDS)
    torch.testing.assert_close(x.cpu(), torch.ones(300, 300))
    done.set()
    process.join(SECONDS)
    assert process.exitcode == 0
    # Its memory lives as long as somebody has it.
    torch.testing.assert_close((x + 1).cpu(), torch.full((300, 300), 2.0))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED, reason="the host cannot read device memory here")
def test_two_processes_train_one_model() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1).to("xpu")
    mp.spawn(_train, args=(model,), nprocs=2)
    assert abs(model.weight.item() - 3) < 0.1 and abs(model.bias.item() - 1) < 0.1


def _train(_: int, model: torch.nn.Module) -> None:
    mp_child.train(model, 150)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED, reason="the host cannot read device memory here")
def test_nothing_is_left_behind(echo: Echo) -> None:
    """Two hundred tensors sent and freed: no file descriptor and no block stays."""

    def state() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), torch.xpu.memory_allocated()

    for _ in range(20):
        echo.send(torch.ones(1000, device="xpu"))
    before = state()
    for _ in range(200):
        echo.send(torch.ones(1000, device="xpu"))
    after = state()
    assert after[0] <= before[0] + 2 and after[1] <= before[1] + 4096, (before, after)


@pytest.mark.parametrize("discrete", ["0", "1"])
def test_a_forked_child_ends_while_the_device_works(discrete: str) -> None:
    """The driver would wait in it for threads that the child has not."""
    body = """
        import os, sys, torch
        x = torch.randn(2000, 2000, device="xpu")
        for _ in range(6):
            x = (x @ x).tanh().cumsum(0)
        if (child := os.fork()) == 0:
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bool(x.isfinite().all()))
    """
    done = script.run(body, XPU_OPS_DISCRETE=discrete)
    assert (done.returncode, done.stdout) == (0, "7 True\n"), done.stderr
