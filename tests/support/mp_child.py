"""The processes of tests/runtime/test_multiprocessing.py run these functions: they import this module, not the test."""

from __future__ import annotations

from typing import Any

import torch


def echo(inbox: Any, outbox: Any) -> None:
    """Describe and double each message of tensors until None comes. The sender then looks at its own."""
    while (message := inbox.get()) is not None:
        seen = [(str(t.device), t.dtype, tuple(t.shape), t.stride(), t.requires_grad, t.tolist()) for t in message]
        storages = len({t.untyped_storage().data_ptr() for t in message})
        with torch.no_grad():
            for t in message:
                t.mul_(2)
        torch.xpu.synchronize()
        outbox.put((seen, storages))
        del message


def produce(outbox: Any, done: Any) -> None:
    """Send a tensor whose kernels may still be running, and end only when it has arrived."""
    x = torch.ones(300, 300, device="xpu")
    for _ in range(5):
        x = x @ x / 300
    outbox.put(x)
    done.wait(60)


def train(model: torch.nn.Module, steps: int) -> None:
    """Hogwild: plain steps on the weights of the parent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.linspace(-1, 1, 32, device="xpu").unsqueeze(1)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), 3 * x + 1).backward()
        optimizer.step()
    torch.xpu.synchronize()
