"""Checks of every collective on XPU tensors, run by support.ranks: exact results, for values that every dtype holds."""

from __future__ import annotations

import itertools
from functools import reduce as fold

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import ReduceOp

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
COMPLEX = (torch.complex64, torch.complex128, torch.complex32)
DTYPES = (*FLOATS, *FP8, *SIGNED, *UNSIGNED, *COMPLEX, torch.bool)
SOME = (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint64)


def value(rank: int, dtype: torch.dtype, *shape: int, salt: int = 0) -> torch.Tensor:
    """The operand of a rank: 0, 1 or 2, on the CPU."""
    g = torch.Generator().manual_seed(1000 * salt + 10 * rank + len(shape))
    return torch.randint(0, 3, shape, generator=g).to(dtype)


def put(rank: int, dtype: torch.dtype, *shape: int, salt: int = 0) -> torch.Tensor:
    return value(rank, dtype, *shape, salt=salt).to("xpu")


def blank(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="xpu")


def same(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    got = got.cpu()
    assert got.dtype == want.dtype and got.shape == want.shape, f"{what}: {got.dtype}{got.shape}"
    a, b = (t.contiguous().reshape(-1).view(torch.uint8) for t in (got, want))
    assert torch.equal(a, b), f"{what}: got {got.flatten()[:8].tolist()}, want {want.flatten()[:8].tolist()}"


def wide(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.complex128 if t.is_complex() else torch.float64 if t.is_floating_point() else torch.int64)


def reduced(op: object, parts: list[torch.Tensor]) -> torch.Tensor:
    dtype, many = parts[0].dtype, [wide(p) for p in parts]
    if op == ReduceOp.SUM:
        out = sum(many[1:], many[0])
    elif op == ReduceOp.AVG:
        out = sum(many[1:], many[0])
        out = (
            out / len(many)
            if out.is_floating_point() or out.is_complex()
            else out.div(len(many), rounding_mode="trunc")
        )
    else:
        functions = {
            ReduceOp.PRODUCT: torch.mul, ReduceOp.MIN: torch.minimum, ReduceOp.MAX: torch.maximum,
            ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor,
        }  # fmt: skip
        out = next(fold(f, many) for o, f in functions.items() if op == o)
    return out.ne(0) if dtype == torch.bool else out.to(dtype)


def allowed(op: object, dtype: torch.dtype) -> bool:
    if dtype.is_complex:
        return op in (ReduceOp.SUM, ReduceOp.AVG)
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        return not dtype.is_floating_point
    return op != ReduceOp.AVG or dtype not in (torch.bool, torch.uint64)


OPS = tuple(getattr(ReduceOp, o) for o in ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"))


def check_available(rank: int) -> None:
    assert dist.is_xccl_available()
    group = dist.group.WORLD._get_backend(torch.device("xpu"))
    assert isinstance(group, dist.ProcessGroupXCCL) and group.name() == "xccl"
    assert dist.get_backend_config() == "cpu:gloo,xpu:xccl"


def check_all_reduce(rank: int) -> None:
    n = dist.get_world_size()
    for dtype, op in itertools.product(DTYPES, OPS):
        for shape in ((5,), (2, 3)) if dtype == torch.float32 else ((7,),):
            x = put(rank, dtype, *shape)
            if not allowed(op, dtype):
                try:
                    dist.all_reduce(x, op)
                except (TypeError, ValueError, RuntimeError):
                    continue
                raise AssertionError(f"all_reduce {op} of {dtype} did not raise")
            dist.all_reduce(x, op)
            same(x, reduced(op, [value(r, dtype, *shape) for r in range(n)]), ("all_reduce", op, dtype))


def check_sizes(rank: int) -> None:
    n = dist.get_world_size()
    for shape in ((), (0,), (1,), (3, 0), (1, 1, 1), (1023,), (100003,)):
        x = put(rank, torch.float32, *shape)
        dist.all_reduce(x)
        same(x, reduced(ReduceOp.SUM, [value(r, torch.float32, *shape) for r in range(n)]), shape)
        dist.broadcast(x, 1)
        out = blank(torch.float32, n * x.numel())
        dist.all_gather_into_tensor(out, x.flatten())


def check_uint64_extremes(rank: int) -> None:
    big = torch.tensor([2**63 + 5, 3, 2**64 - 1], dtype=torch.uint64)
    x = (big if rank == 0 else torch.tensor([7, 2**63, 1], dtype=torch.uint64)).to("xpu")
    dist.all_reduce(x, ReduceOp.MAX)
    same(x, torch.tensor([2**63 + 5, 2**63, 2**64 - 1], dtype=torch.uint64), "uint64 max")


def check_premul_sum(rank: int) -> None:
    """Every rank's part is multiplied before the sum; inputs that are no results stay as they are."""
    n = dist.get_world_size()
    for dtype, factor in itertools.product((*FLOATS, torch.float8_e5m2), (0.5, torch.tensor([2.0]), "device")):
        times = torch.tensor([4.0], device="xpu") if factor == "device" else factor
        op = ReduceOp.PREMUL_SUM(times)
        want = reduced(ReduceOp.SUM, [(wide(value(r, dtype, 6 * n)) * float(times)).to(dtype) for r in range(n)])
        x = put(rank, dtype, 6 * n)
        out, part = blank(dtype, 6), want.view(torch.uint8).chunk(n)[rank].view(dtype)
        dist.reduce_scatter_tensor(out, x, op)
        same(out, part, ("reduce_scatter_tensor", dtype))
        dist.reduce_scatter(out, list(x.view(torch.uint8).view(n, -1).view(dtype).unbind()), op)
        same(out, part, ("reduce_scatter", dtype))
        dist.reduce(x, dst=0, op=op)
        same(x, value(rank, dtype, 6 * n) if rank else want, ("reduce", dtype))
        x = put(rank, dtype, 6 * n)
        dist.all_reduce(x, op)
        same(x, want, ("all_reduce", dtype))
    for dtype in (torch.int32, torch.bool):
        try:
            dist.all_reduce(put(rank, dtype, 3), ReduceOp.PREMUL_SUM(2.0))
        except TypeError as e:
            assert "PREMUL_SUM" in str(e)
        else:
            raise AssertionError(dtype)


def check_strides(rank: int) -> None:
    x = torch.ones(4, 4, device="xpu")
    try:
        dist.all_reduce(x[:, ::2])
    except ValueError as e:
        assert "contiguous" in str(e), e
    else:
        raise AssertionError("a tensor with gaps was reduced")
    # A transposed tensor is dense: its memory is what is reduced, as in ProcessGroupNCCL.
    y = torch.arange(6.0, device="xpu").view(2, 3).t()
    dist.all_reduce(y)
    same(y.contiguous(), (torch.arange(6.0).view(2, 3).t() * dist.get_world_size()).contiguous(), "transposed")
    # Parts of a list are by index: columns of a larger tensor will do, and layouts may differ from rank to rank.
    n = dist.get_world_size()
    for dtype in (torch.float32, torch.bool, torch.int16):
        whole = torch.stack([value(r, dtype, 3, 4) for r in range(n)], -1).flatten(1)
        mine = put(rank, dtype, 3, 4)
        mine = mine.t().contiguous().t() if rank else mine
        columns = torch.zeros(3, 4 * n, dtype=dtype, device="xpu")
        turned = [blank(dtype, 4, 3).t() for _ in range(n)]
        dist.all_gather([columns[:, r::n] for r in range(n)], mine)
        same(columns, whole, ("all_gather to columns", dtype))
        dist.all_gather(turned, mine)
        same(torch.stack(turned, -1).flatten(1), whole, ("all_gather to transposed tensors", dtype))
        total = blank(dtype, 4, 3).t()
        dist.reduce_scatter(total, [columns[:, r::n] for r in range(n)], ReduceOp.MAX)
        same(total, value(rank, dtype, 3, 4), ("reduce_scatter of columns", dtype))
    try:
        dist.all_gather([torch.ones(1, device="xpu").expand(4) for _ in range(n)], torch.ones(4, device="xpu"))
    except RuntimeError as e:
        assert "single memory location" in str(e), e
    else:
        raise AssertionError("elements were gathered into one")


def check_moves(rank: int) -> None:
    n = dist.get_world_size()
    for dtype in DTYPES:
        all_in = [value(r, dtype, 2, 3) for r in range(n)]
        x = put(rank, dtype, 2, 3)
        dist.broadcast(x, n - 1)
        same(x, all_in[n - 1], ("broadcast", dtype))
        x = put(rank, dtype, 2, 3)
        outs = [blank(dtype, 2, 3) for _ in range(n)]
        dist.all_gather(outs, x)
        for r in range(n):
            same(outs[r], all_in[r], ("all_gather", dtype))
        out = blank(dtype, 2 * n, 3)
        dist.all_gather_into_tensor(out, x)
        same(out, torch.cat([a.view(torch.uint8) for a in all_in]).view(dtype), ("all_gather_into_tensor", dtype))
        dist.gather(x, outs if rank == 0 else None, dst=0)
        if rank == 0:
            for r in range(n):
                same(outs[r], all_in[r], ("gather", dtype))
        one = blank(dtype, 2, 3)
        dist.scatter(one, [put(0, dtype, 2, 3, salt=r) for r in range(n)] if rank == 0 else None, src=0)
        same(one, value(0, dtype, 2, 3, salt=rank), ("scatter", dtype))
        dist.all_to_all(outs, [put(rank, dtype, 2, 3, salt=r) for r in range(n)])
        for r in range(n):
            same(outs[r], value(r, dtype, 2, 3, salt=rank), ("all_to_all", dtype))
        single = blank(dtype, n, 2)
        dist.all_to_all_single(single, put(rank, dtype, n, 2))
        for r in range(n):
            same(single[r], value(r, dtype, n, 2)[rank], ("all_to_all_single", dtype))


def check_reduce_and_reduce_scatter(rank: int) -> None:
    n = dist.get_world_size()
    for dtype in DTYPES:
        parts = [value(r, dtype, 2 * n, 3) for r in range(n)]
        total = reduced(ReduceOp.SUM, parts)
        x = put(rank, dtype, 2 * n, 3)
        dist.reduce(x, dst=0)
        same(x, parts[rank] if rank else total, ("reduce", dtype))
        x = put(rank, dtype, 2 * n, 3)
        dist.reduce(x, dst=n - 1)
        same(x, total if rank == n - 1 else parts[rank], ("reduce to the last", dtype))
        x, mine = put(rank, dtype, 2 * n, 3), total.view(torch.uint8)[2 * rank : 2 * rank + 2].view(dtype)
        out = blank(dtype, 2, 3)
        dist.reduce_scatter_tensor(out, x)
        same(out, mine, ("reduce_scatter_tensor", dtype))
        same(x, parts[rank], ("reduce_scatter_tensor keeps its input", dtype))
        out = blank(dtype, 2, 3)
        dist.reduce_scatter(
            out, list(x.view(torch.uint8).chunk(n)) if False else [put(rank, dtype, 2, 3, salt=r) for r in range(n)]
        )
        same(
            out, reduced(ReduceOp.SUM, [value(r, dtype, 2, 3, salt=rank) for r in range(n)]), ("reduce_scatter", dtype)
        )
    x = torch.full((n,), 3.0 + rank, device="xpu")
    out = torch.empty(1, device="xpu")
    dist.reduce_scatter_tensor(out, x, ReduceOp.AVG)
    same(out, torch.tensor([3.0 + (n - 1) / 2]), "average")


def check_uneven(rank: int) -> None:
    n = dist.get_world_size()
    for dtype in SOME:
        outs = [blank(dtype, r + 1) for r in range(n)]
        dist.all_gather(outs, put(rank, dtype, rank + 1))
        for r in range(n):
            same(outs[r], value(r, dtype, r + 1), ("uneven all_gather", dtype))
        out = blank(dtype, rank + 1)
        dist.reduce_scatter(out, [put(rank, dtype, r + 1, salt=r) for r in range(n)])
        same(
            out,
            reduced(ReduceOp.SUM, [value(r, dtype, rank + 1, salt=rank) for r in range(n)]),
            ("uneven reduce_scatter", dtype),
        )
        outs = [blank(dtype, r + 1, 2) for r in range(n)]
        dist.all_to_all(outs, [put(rank, dtype, rank + 1, 2, salt=r) for r in range(n)])
        for r in range(n):
            same(outs[r], value(r, dtype, r + 1, 2, salt=rank), ("uneven all_to_all", dtype))
        sends = [r + 1 for r in range(n)]
        out = blank(dtype, n * (rank + 1), 2)
        dist.all_to_all_single(out, put(rank, dtype, sum(sends), 2), [rank + 1] * n, sends)
        want = [
            value(r, dtype, sum(sends), 2).view(torch.uint8)[sum(sends[:rank]) : sum(sends[: rank + 1])]
            for r in range(n)
        ]
        same(out, torch.cat(want).view(dtype), ("uneven all_to_all_single", dtype))


def check_coalesced(rank: int) -> None:
    n = dist.get_world_size()
    x, y = put(rank, torch.float32, 4), put(rank, torch.float32, 2, 2)
    with dist.distributed_c10d._coalescing_manager(device=torch.device("xpu"), async_ops=True) as many:
        dist.all_reduce(x)
        dist.all_reduce(y)
    many.wait()
    same(x, reduced(ReduceOp.SUM, [value(r, torch.float32, 4) for r in range(n)]), "coalesced")
    same(y, reduced(ReduceOp.SUM, [value(r, torch.float32, 2, 2) for r in range(n)]), "coalesced")
    outs = [blank(torch.int16, n * 3), blank(torch.float32, n * 2)]
    with dist.distributed_c10d._coalescing_manager():
        dist.all_gather_into_tensor(outs[0], put(rank, torch.int16, 3))
        dist.all_gather_into_tensor(outs[1], put(rank, torch.float32, 2))
    same(outs[0], torch.cat([value(r, torch.int16, 3) for r in range(n)]), "coalesced all_gather")
    ins = [put(rank, torch.float32, 2 * n), put(rank, torch.float32, n)]
    outs = [blank(torch.float32, 2), blank(torch.float32, 1)]
    with dist.distributed_c10d._coalescing_manager():
        for o, i in zip(outs, ins, strict=True):
            dist.reduce_scatter_tensor(o, i)
    want = reduced(ReduceOp.SUM, [value(r, torch.float32, 2 * n) for r in range(n)])
    same(outs[0], want[2 * rank : 2 * rank + 2], "coalesced reduce_scatter")
    dist.all_reduce_coalesced([x, y])
    lists = [[blank(torch.float32, 4), blank(torch.float32, 2, 2)] for _ in range(n)]
    dist.all_gather_coalesced(lists, [x, y])
    same(lists[0][1], y.cpu(), "all_gather_coalesced")


def check_point_to_point(rank: int) -> None:
    n = dist.get_world_size()
    right, left = (rank + 1) % n, (rank - 1) % n
    for dtype in SOME:
        x, got = put(rank, dtype, 5), blank(dtype, 5)
        for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, got, left)]):
            w.wait()
        same(got, value(left, dtype, 5), ("batch_isend_irecv", dtype))
        if rank == 0:
            dist.send(x, 1, tag=3)
        elif rank == 1:
            dist.recv(got, 0, tag=3)
            same(got, value(0, dtype, 5), ("recv", dtype))
    if rank == 0:
        dist.send(put(0, torch.float32, 3), 1)
    elif rank == 1:
        got = blank(torch.float32, 3)
        assert dist.recv(got) == 0
        same(got, value(0, torch.float32, 3), "recv from any")
    works = [dist.isend(put(rank, torch.float32, 0), right), dist.irecv(blank(torch.float32, 0), left)]
    for w in works:
        w.wait()


def check_after_kernels(rank: int) -> None:
    """The collective comes behind what its stream still has to do, and what follows wait() sees the result."""
    n = dist.get_world_size()
    stream = torch.xpu.Stream()
    with torch.xpu.stream(stream):
        a = torch.full((384, 384), 1.0 / 384, device="xpu")
        for _ in range(4):
            a = a @ a * 1.0
        x = a * (rank + 1.0) * 384
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        y = x * 2
    stream.synchronize()
    torch.testing.assert_close(y.cpu(), torch.full((384, 384), n * (n + 1.0)), rtol=1e-4, atol=1e-4)
    works = []
    xs = [torch.full((1000,), float(i), device="xpu") for i in range(20)]
    for x in xs:
        works.append(dist.all_reduce(x.mul_(rank + 1), async_op=True))
    for i, (x, w) in enumerate(zip(xs, works, strict=True)):
        w.wait()
        assert w.is_completed() and w.is_success() and x[0].item() == i * n * (n + 1) / 2


def check_futures(rank: int) -> None:
    n = dist.get_world_size()
    x = torch.full((4096,), rank + 1.0, device="xpu")
    future = dist.all_reduce(x, async_op=True).get_future()
    half = future.then(lambda f: f.value()[0] / 2)
    assert half.wait().device.type == "xpu" and half.wait()[0].item() == n * (n + 1) / 4
    out, full = torch.empty(2, device="xpu"), torch.ones(2 * n, device="xpu")
    assert dist.reduce_scatter_tensor(out, full, async_op=True).get_future().wait()[0][0].item() == n
    work = dist.barrier(async_op=True)
    work.wait()


def check_callbacks_that_wait(rank: int) -> None:
    """More callbacks at once than the engine has threads, each of which waits for a collective of its own."""
    n = dist.get_world_size()
    busy = torch.ones(1 << 20, device="xpu")

    def again(future: torch.futures.Future) -> torch.Tensor:
        return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]

    for _ in range(20):
        # Every rank issues the first ones before a callback can issue a second. All values are one, so that the order
        # of the second ones does not count.
        ones = [busy.sin().mul_(0)[:1].add_(1) for _ in range(5)]
        firsts = [dist.all_reduce(x, async_op=True).get_future() for x in ones]
        works = [first.then(again) for first in firsts]
        assert [future.wait().item() for future in works] == [n * n] * 5


def check_functional(rank: int) -> None:
    n = dist.get_world_size()
    group = dist.group.WORLD
    x = torch.full((4,), 1.0 + rank, device="xpu")
    total = n * (n + 1) / 2
    assert (functional.all_reduce(x, "sum", group) + 0).tolist() == [total] * 4
    assert (functional.all_gather_tensor(x, 0, group) + 0).tolist() == [1.0 + r for r in range(n) for _ in range(4)]
    assert (functional.reduce_scatter_tensor(torch.ones(2 * n, device="xpu"), "sum", 0, group) + 0).tolist() == [n, n]
    y = x.clone().requires_grad_()
    functional.all_reduce(y, "sum", group)
    from torch.distributed.nn.functional import all_reduce

    all_reduce(y).sum().backward()
    assert y.grad is not None and y.grad.tolist() == [float(n)] * 4


def check_objects_and_barriers(rank: int) -> None:
    n = dist.get_world_size()
    objects: list[object] = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)]
    dist.barrier()
    dist.barrier(device_ids=[0])
    only = dist.new_group(backend="xccl")
    dist.barrier(group=only)
    many: list[object] = [rank, "a"] if rank == 0 else [None, None]
    dist.broadcast_object_list(many, 0, group=only, device=torch.device("xpu"))
    assert many == [0, "a"]
    gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(gloo)
    x = torch.ones(3, device="xpu")
    dist.all_reduce(x, group=gloo)
    dist.broadcast(x, 0, group=gloo)
    assert x.tolist() == [float(n)] * 3
    for group in (only, gloo):
        dist.destroy_process_group(group)


def check_groups(rank: int) -> None:
    alone = [dist.new_group([r]) for r in range(dist.get_world_size())]
    x = torch.full((2,), rank + 1.0, device="xpu")
    dist.all_reduce(x, group=alone[rank])
    assert x.tolist() == [rank + 1.0] * 2
    mine, _ = dist.new_subgroups(1)
    dist.all_reduce(x, group=mine)
    assert x.tolist() == [rank + 1.0] * 2


def check_sparse(rank: int) -> None:
    n = dist.get_world_size()
    x = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (5,), device="xpu").coalesce()
    dist.all_reduce(x)
    want = torch.zeros(5)
    for r in range(n):
        want[r] += 1
        want[3] += 2
    assert x.to_dense().cpu().tolist() == want.tolist()


def check_dtypes_must_agree(rank: int) -> None:
    n = dist.get_world_size()
    for call in (
        lambda: dist.all_gather_into_tensor(torch.empty(2 * n, device="xpu"), torch.ones(3, device="xpu")),
        lambda: dist.reduce_scatter_tensor(torch.empty(2, device="xpu"), torch.ones(3 * n, device="xpu")),
        lambda: dist.all_gather([torch.empty(2, device="xpu").double()] * n, torch.ones(2, device="xpu")),
    ):
        try:
            call()
        except (TypeError, ValueError, RuntimeError):
            continue
        raise AssertionError("no error")


def check_fallback_was_not_used(rank: int) -> None:
    import xpu_ops

    assert not [name for name in xpu_ops.fallback.counts() if name.startswith("c10d")]
