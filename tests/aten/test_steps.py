"""Operands that step through memory, launched: what lies between the elements stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import xpu_ops

VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "column": lambda t: t.view(-1, 4)[:, 1],
    "every second": lambda t: t[:, ::2],
    "rows and columns": lambda t: t[1::3, 3::5],
    "few columns": lambda t: t.view(-1, 4)[:, :3],
    "middle": lambda t: t.view(30, 8, 160)[:, 2, ::4],
    "last": lambda t: t.view(20, 4, 6, 80)[:, ::2, ::3, 7],
    "deep": lambda t: t.view(2, 3, 2, 2, 2, 2, 20, 20)[:, :, :, ::2, 0, :, ::3, ::2],
    "transposed": lambda t: t.t()[::2],
    "repeated": lambda t: t[:, 3:4].expand(-1, 40),
}
OPS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x.add_(y, alpha=2),
    "sub number": lambda x, y: x.sub_(3),
    "mul": lambda x, y: x.mul_(y),
    "mul number": lambda x, y: x.mul_(2),
    "div": lambda x, y: x.div_(y) if x.is_floating_point() else x.sub_(y),
    "clamp": lambda x, y: x.clamp_(2, 5),
    "clamp_min": lambda x, y: x.clamp_min_(3),
    "clamp_max": lambda x, y: x.clamp_(max=3),
    "neg": lambda x, y: x.neg_(),
    "copy": lambda x, y: x.copy_(y),
    "copy of int32": lambda x, y: x.copy_(y.to(torch.int32)),
    "fill": lambda x, y: x.fill_(7),
    "zero": lambda x, y: x.zero_(),
}


@pytest.fixture(autouse=True)
def launched() -> Iterator[None]:
    before = xpu_ops.inline_enabled()
    xpu_ops.set_inline(False)
    with xpu_ops.fallback.forbid():
        yield
    xpu_ops.set_inline(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16, torch.uint8], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_in_place(view: str, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    base = torch.randint(1, 9, (120, 320), generator=g).to(dtype)
    other = torch.randint(1, 9, (120, 320), generator=g).to(dtype)
    take, xother = VIEWS[view], other.to("xpu")
    operands = (
        take,
        lambda t: take(t).contiguous(),
        lambda t: take(t)[:1],
        lambda t: take(t).select(-1, -1)[..., None],
    )
    for name, op in OPS.items():
        if view == "repeated" and name not in ("fill", "zero"):
            continue
        for operand in operands:
            cpu, xpu = base.clone(), base.to("xpu")
            op(take(cpu), operand(other))
            op(take(xpu), operand(xother))
            assert torch.equal(xpu.cpu(), cpu), name
            if name in ("fill", "zero", "sub number", "clamp", "neg"):
                break


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_operands(view: str, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    base = torch.randint(1, 9, (120, 320), generator=g).to(dtype)
    take, x = VIEWS[view], base.to("xpu")
    for f in (
        lambda t: take(t) + 1,
        lambda t: take(t) * take(t),
        lambda t: take(t).clone(),
        lambda t: take(t) * take(t)[:1],
        lambda t: take(t).contiguous() - take(t),
        lambda t: take(t).clamp(2, 6),
        lambda t: torch.mul(take(t), 3, out=torch.empty_like(take(t), memory_format=torch.contiguous_format)),
    ):
        actual, expected = f(x), f(base)
        assert actual.stride() == expected.stride()
        assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("last", [1, 50])
def test_nine_dimensions_that_do_not_merge(last: int) -> None:
    """A launch covers five dimensions of a broadcast sum; the others are a loop of launches."""
    gen = torch.Generator().manual_seed(0)
    a = torch.randn(3, 1, 4, 1, 3, 1, 4, 1, last, generator=gen)
    b = torch.randn(1, 3, 1, 4, 1, 3, 1, 4, last, generator=gen)
    for x, y in ((a, b), (a.transpose(0, 6), b.transpose(1, 5))):
        assert torch.equal((x.to("xpu") + y.to("xpu")).cpu(), x + y)
        assert torch.equal(torch.add(x.to("xpu"), y.to("xpu"), alpha=2).cpu(), torch.add(x, y, alpha=2))
