"""Every collective, dtype and size on XPU tensors against the same call on CPU tensors with gloo, run by support.ranks.

Integers and moved elements have the same bits; sums of floats may differ in the order of the additions. A dtype that gloo
lacks is compared with a wider one, converted. Without XPU_OPS_TEST_LEVEL=full most dtypes have one size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

# Which dtype stands for another on the CPU, where elements are reduced.
WIDER = {
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.int16: torch.int64,
    torch.uint16: torch.int64,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
    torch.bool: torch.uint8,
    torch.complex32: torch.complex64,
}
ENGINE = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
    torch.complex64, torch.complex128,
)  # fmt: skip
DTYPES = (*ENGINE, *WIDER)
FULL = os.environ.get("XPU_OPS_TEST_LEVEL", "fast") == "full"
SIZES = (0, 1, 1023, 1_000_000)
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
TIMEOUT = 300


def values(rank: int, dtype: torch.dtype, size: int, salt: int, op: str) -> Tensor:
    """A rank's operand: normal floats, integers of the whole range. Small ones where a mean must not wrap."""
    g = torch.Generator().manual_seed(100 * salt + rank)
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(size, dtype=torch.complex64 if dtype.is_complex else torch.float32, generator=g).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, (size,), generator=g).bool()
    if op == "AVG":
        return torch.randint(0 if dtype.is_signed is False else -9, 10, (size,), generator=g).to(dtype)
    # MIN and MAX of uint64 have a stand-in with a sign: its values leave out the highest bit.
    high = 2**62 if dtype == torch.uint64 else 2**63 - 1
    return torch.randint(0 if dtype == torch.uint64 else -(2**63), high, (size,), generator=g).to(dtype)


@dataclass
class Side:
    """One device of a comparison."""

    device: str
    dtype: torch.dtype  # of the tensors that the collective gets
    drawn: torch.dtype
    size: int
    op: str = ""

    def mine(self, salt: int = 0, times: int = 1, rank: int | None = None) -> Tensor:
        whose = dist.get_rank() if rank is None else rank
        return values(whose, self.drawn, self.size * times, salt, self.op).to(self.dtype).to(self.device)

    def blank(self, times: int = 1) -> Tensor:
        return torch.zeros(self.size * times, dtype=self.dtype, device=self.device)

    @property
    def reduction(self) -> object:
        return getattr(ReduceOp, self.op)


def all_reduce(s: Side) -> list[Tensor]:
    x = s.mine()
    dist.all_reduce(x, s.reduction)
    return [x]


def reduce(s: Side) -> list[Tensor]:
    x = s.mine()
    dist.reduce(x, 1, s.reduction)
    return [x] if dist.get_rank() == 1 else []


def reduce_scatter_tensor(s: Side) -> list[Tensor]:
    out = s.blank()
    dist.reduce_scatter_tensor(out, s.mine(times=dist.get_world_size()), s.reduction)
    return [out]


def reduce_scatter(s: Side) -> list[Tensor]:
    out = s.blank()
    dist.reduce_scatter(out, [s.mine(r) for r in range(dist.get_world_size())], s.reduction)
    return [out]


def broadcast(s: Side) -> list[Tensor]:
    x = s.mine()
    dist.broadcast(x, 1)
    return [x]


def all_gather(s: Side) -> list[Tensor]:
    outs = [s.blank() for _ in range(dist.get_world_size())]
    dist.all_gather(outs, s.mine())
    return outs


def all_gather_into_tensor(s: Side) -> list[Tensor]:
    out = s.blank(dist.get_world_size())
    dist.all_gather_into_tensor(out, s.mine())
    return [out]


def gather(s: Side) -> list[Tensor]:
    outs = [s.blank() for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    dist.gather(s.mine(), outs, dst=0)
    return outs or []


def scatter(s: Side) -> list[Tensor]:
    out, n = s.blank(), dist.get_world_size()
    dist.scatter(out, [s.mine(r) for r in range(n)] if dist.get_rank() == 1 else None, src=1)
    return [out]


def all_to_all(s: Side) -> list[Tensor]:
    n = dist.get_world_size()
    outs = [s.blank() for _ in range(n)]
    dist.all_to_all(outs, [s.mine(r) for r in range(n)])
    return outs


def all_to_all_single(s: Side) -> list[Tensor]:
    n = dist.get_world_size()
    out = s.blank(n)
    dist.all_to_all_single(out, s.mine(times=n))
    return [out]


def send_and_recv(s: Side) -> list[Tensor]:
    rank, n, got = dist.get_rank(), dist.get_world_size(), s.blank()
    works = [dist.isend(s.mine(), (rank + 1) % n), dist.irecv(got, (rank - 1) % n)]
    for w in works:
        w.wait()
    return [got]


MOVES = (broadcast, all_gather, all_gather_into_tensor, gather, scatter, all_to_all, all_to_all_single, send_and_recv)
REDUCES = (all_reduce, reduce, reduce_scatter_tensor, reduce_scatter)


def allowed(op: str, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return op in ("SUM", "AVG")
    if op.startswith("B"):
        return not dtype.is_floating_point
    return op != "AVG" or dtype not in (torch.bool, torch.uint64)


def cases() -> Iterator[tuple[Callable[[Side], list[Tensor]], torch.dtype, str, int]]:
    for dtype in DTYPES:
        for size in SIZES if FULL else (0, 1, 1023) if dtype in (torch.float32, torch.int16) else (1023,):
            # Parts of the many ranks are as large as the whole of one, and gloo has one way for all reductions.
            part = size // dist.get_world_size() if size > 10_000 else size
            yield from ((f, dtype, "", part) for f in MOVES)
            for op in REDUCTIONS if size < 10_000 else ("SUM", "MAX"):
                if allowed(op, dtype):
                    yield from ((f, dtype, op, part) for f in (REDUCES if op in ("SUM", "AVG") else REDUCES[:1]))


def reference(f: Callable[[Side], list[Tensor]], dtype: torch.dtype, op: str, size: int) -> list[Tensor]:
    """The results of the call on the CPU, in `dtype`."""
    if not op:
        # The bits of elements that are only moved are those of bytes.
        width = dtype.itemsize
        outs = f(_Bytes("cpu", dtype, dtype, size))
        return [o.view(dtype) if width else o for o in outs]
    integer_mean = op == "AVG" and not (dtype.is_floating_point or dtype.is_complex)
    side = Side("cpu", WIDER.get(dtype, dtype), dtype, size, op)
    if integer_mean:
        side = _Mean("cpu", side.dtype, dtype, size, op)
    outs = f(side)
    if integer_mean:
        outs = [o.div(dist.get_world_size(), rounding_mode="trunc") for o in outs]
    return [o.ne(0) if dtype == torch.bool else o.to(dtype) for o in outs]


class _Bytes(Side):
    def mine(self, salt: int = 0, times: int = 1, rank: int | None = None) -> Tensor:
        return super().mine(salt, times, rank).view(torch.uint8)

    def blank(self, times: int = 1) -> Tensor:
        return super().blank(times).view(torch.uint8)


class _Mean(Side):
    """A sum of the operands of a mean: gloo has no mean of integers."""

    @property
    def reduction(self) -> object:
        return ReduceOp.SUM


def limit(dtype: torch.dtype, op: str, size: int) -> float:
    """By how much a sum or product of normal values may differ: some roundings of numbers of about 5 per rank."""
    return 8 * dist.get_world_size() * torch.finfo(dtype).eps


def compare(got: list[Tensor], want: list[Tensor], dtype: torch.dtype, op: str, what: object) -> None:
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        g = g.cpu()
        assert g.dtype == w.dtype == dtype and g.shape == w.shape, f"{what}: {g.dtype}{tuple(g.shape)}"
        if op in ("SUM", "AVG", "PRODUCT") and (dtype.is_floating_point or dtype.is_complex):
            wide = torch.complex128 if dtype.is_complex else torch.float64
            off = (g.to(wide) - w.to(wide)).abs()
            bound = limit(dtype, op, g.numel()) * (1 + w.to(wide).abs())
            # Products of 8-bit floats overflow to the same infinity or NaN.
            good = (off <= bound) | (g.to(wide) == w.to(wide)) | (g.to(wide).isnan() & w.to(wide).isnan())
            assert good.all(), f"{what}: off by {off[~good].max().item()}"
        else:
            assert torch.equal(g.view(torch.uint8), w.view(torch.uint8)), what


def check_all(rank: int) -> None:
    count = 0
    for f, dtype, op, size in cases():
        got = f(Side("xpu", dtype, dtype, size, op))
        want = reference(f, dtype, op, size)
        compare(got, want, dtype, op, (f.__name__, dtype, op, size))
        count += 1
    # Every dtype meets every collective at every size.
    assert count > len(DTYPES) * (len(SIZES) if FULL else 1) * (len(MOVES) + len(REDUCES)), count
