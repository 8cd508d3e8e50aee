"""torch.nn.DataParallel and torch.nn.parallel.comm: old programs wrap a model whatever the number of devices is."""

from __future__ import annotations

import pytest
import torch
from torch.nn.parallel import comm


def test_a_model_trains() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    want = [p.detach().clone() for p in model.parameters()]
    wrapped = torch.nn.DataParallel(model)
    x = torch.randn(6, 3)
    wrapped(x).square().mean().backward()
    assert {p.device.type for p in wrapped.parameters()} == {"xpu"}
    grads = [p.grad for p in model.parameters()]

    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    plain.load_state_dict(dict(zip(plain.state_dict(), want, strict=True)))
    plain(x).square().mean().backward()
    for got, p in zip(grads, plain.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad, check_device=False)


def test_arguments_of_all_kinds() -> None:
    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, more: dict[str, torch.Tensor], *, scale: float) -> dict[str, torch.Tensor]:
            return {"sum": a.sum() * scale, "b": more["b"][::2]}

    got = torch.nn.DataParallel(Model(), device_ids=[0])(torch.ones(4), {"b": torch.arange(6)}, scale=2.0)
    assert got["sum"].item() == 8.0
    assert got["b"].tolist() == [0, 2, 4]
    assert got["b"].device.type == "xpu"


def test_pieces() -> None:
    x = torch.arange(12.0).view(6, 2)
    first, second = comm.scatter(x, [0, 0], chunk_sizes=[2, 4])
    assert torch.equal(first.cpu(), x[:2])
    assert torch.equal(second.cpu(), x[2:])
    assert [t.size(1) for t in comm.scatter(x.to("xpu"), [0, 0], dim=1)] == [1, 1]
    assert torch.equal(comm.gather([first, second], destination=0).cpu(), x)
    assert torch.equal(comm.gather([first, second], destination="cpu"), x)
    out = torch.empty(6, 2, device="xpu")
    assert comm.gather([first, second], out=out) is out
    assert torch.equal(out.cpu(), x)
    parts = comm.scatter(x, out=[torch.empty(5, 2, device="xpu"), torch.empty(1, 2, device="xpu")])
    assert torch.equal(torch.cat([p.cpu() for p in parts]), x)


@pytest.mark.filterwarnings("ignore:PyTorch is not compiled with NCCL")
def test_copies() -> None:
    x = torch.ones(3, device="xpu")
    same, other = comm.broadcast(x, [0, 0])
    x += 1
    assert same.tolist() == [2, 2, 2]
    assert other.tolist() == [1, 1, 1]
    (group,) = comm.broadcast_coalesced([x, x[:2]], [0])
    assert [t.tolist() for t in group] == [[2, 2, 2], [2, 2]]
    assert comm.broadcast(x, out=[torch.zeros(3, device="xpu")])[0].tolist() == [2, 2, 2]
    assert comm.reduce_add([x, x], destination=0).tolist() == [4, 4, 4]


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="at least one device to scatter"):
        comm.scatter(torch.ones(2), [])
    with pytest.raises(RuntimeError, match="Expected all input tensors to be XPU tensors, but tensor at index 0"):
        comm.gather([torch.ones(2)], destination=0)
