"""Results into memory of the operands: what the CPU refuses is refused, and nothing outside of a result is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Call = Callable[[torch.Tensor, torch.Tensor], object]
C = torch._C._nn


def places(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.shape, dtype=torch.long, device=x.device)


REFUSED: dict[str, Call] = {
    "sort": lambda x, o: torch.sort(x, out=(o, places(x))),
    "stable_sort": lambda x, o: torch.sort(x, stable=True, dim=0, out=(o, places(x))),
    "msort": lambda x, o: torch.msort(x, out=o),
    "topk": lambda x, o: torch.topk(x, 3, out=(o, places(x))),
    "cumsum": lambda x, o: torch.cumsum(x, 0, out=o),
    "cumprod": lambda x, o: torch.cumprod(x, 1, out=o),
    "logcumsumexp": lambda x, o: torch.logcumsumexp(x, 0, out=o),
    "kthvalue": lambda x, o: torch.kthvalue(x, 1, 0, out=(o[0], places(x[0]))),
    "mode": lambda x, o: torch.mode(x, 0, out=(o[0], places(x[0]))),
    "max": lambda x, o: torch.max(x, 0, out=(o[0], places(x[0]))),
    "min": lambda x, o: torch.min(x, 0, out=(o[0], places(x[0]))),
    "aminmax": lambda x, o: torch.aminmax(x, dim=0, out=(o[0], o[1])),
    "addmm": lambda x, o: torch.addmm(x, x, x, out=o),
    "cross": lambda x, o: torch.linalg.cross(x, x, out=o),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "xpu"])
@pytest.mark.parametrize("name", REFUSED)
def test_partly_the_operand(name: str, device: str) -> None:
    memory = torch.arange(1, 14, dtype=torch.float32).to(device)
    before = memory.clone()
    with pytest.raises(
        RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single"
    ):
        REFUSED[name](memory[:9].view(3, 3), memory[2:11].view(3, 3))
    assert torch.equal(memory, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_the_operand_itself(dtype: torch.dtype) -> None:
    x = torch.tensor([[3, 1, 2], [9, 7, 8]]).to(dtype)
    for call in (REFUSED["sort"], REFUSED["topk"], REFUSED["cumsum"], REFUSED["cumprod"]):
        want, got = x.clone(), x.to("xpu")
        call(want, want)
        call(got, got)
        assert torch.equal(got.cpu(), want)


ONE: dict[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]] = {
    "mm": lambda x, row, square: torch.mm(x, x, out=square),
    "addmm": lambda x, row, square: torch.addmm(x, x, x, out=square),
    "addmv": lambda x, row, square: torch.addmv(x[0], x, x[0], out=row),
    "logsumexp": lambda x, row, square: torch.logsumexp(x, 0, out=row),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "xpu"])
@pytest.mark.parametrize("name", ONE)
def test_elements_that_are_one(name: str, device: str) -> None:
    memory = torch.zeros(1, 3, device=device)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
        ONE[name](torch.ones(3, 3, device=device), memory[0, :1].expand(3), memory.expand(3, 3))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_medians_over_the_operand(name: str) -> None:
    """Each is read off the whole row before one takes the place of an element."""
    want = getattr(torch, name)(torch.arange(9.0).flip(0).view(3, 3), 0)
    x = torch.arange(9.0).flip(0).view(3, 3).to("xpu")
    got = getattr(torch, name)(x, 0, out=(x[0], torch.empty(3, dtype=torch.long, device="xpu")))
    assert all(torch.equal(g.cpu(), w) for g, w in zip(got, want, strict=True))


OUTSIDE: dict[str, tuple[tuple[int, ...], Callable[[torch.Tensor, torch.Tensor], object]]] = {
    "reflection_pad1d": ((3, 3), lambda x, o: C.reflection_pad1d(x, [0, 0], out=o)),
    "replication_pad1d": ((3, 3), lambda x, o: C.replication_pad1d(x, [0, 0], out=o)),
    "reflection_pad2d": ((2, 3, 3), lambda x, o: C.reflection_pad2d(x, [0, 0, 0, 0], out=o)),
    "replication_pad2d": ((1, 2, 3, 3), lambda x, o: C.replication_pad2d(x, [0, 0, 0, 0], out=o)),
    "replication_pad3d": ((1, 2, 2, 3, 3), lambda x, o: C.replication_pad3d(x, [0, 0, 0, 0, 0, 0], out=o)),
    "reflection_pad2d_backward": (
        (1, 2, 3, 3), lambda x, o: torch.ops.aten.reflection_pad2d_backward.grad_input(x, x, [0, 0, 0, 0], grad_input=o),
    ),
    "max_unpool2d": (
        (1, 2, 3, 3),
        lambda x, o: C.max_unpool2d(
            x.contiguous(memory_format=torch.channels_last),
            torch.arange(9, device=x.device).view(1, 1, 3, 3).expand(1, 2, 3, 3),
            [3, 3],
            out=o,
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_elements_between_those_of_a_result(name: str) -> None:
    sizes, call = OUTSIDE[name]
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(0)).to("xpu")
    memory = torch.full((*sizes, 4), 77.0, device="xpu")
    out = memory[..., 1]
    call(x, out)
    assert torch.equal(out, x)
    assert (memory[..., [0, 2, 3]] == 77).all()
