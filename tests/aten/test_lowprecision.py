"""Scaled float8 products, int8 and int4 weights: against exact arithmetic and the CPU's kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.compare import assert_near

import xpu_ops

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    with xpu_ops.fallback.forbid():
        yield


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def close(actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert (actual.device.type, actual.dtype) == ("xpu", dtype)
    tol = TOLERANCE.get(dtype, 0.13)  # float8: one step
    assert_near(actual, expected, rtol=tol, atol=tol * expected.abs().max().item())


# ---- _scaled_mm


def scaled(
    rowwise: bool, a_type: torch.dtype, b_type: torch.dtype, m: int = 17, k: int = 32, n: int = 48
) -> list[torch.Tensor]:
    a, b = values(m, k).to(a_type), values(n, k, seed=1).to(b_type).t()
    sa = values(m, 1, seed=2).abs() + 0.1 if rowwise else torch.tensor(0.7)
    sb = values(1, n, seed=3).abs() + 0.1 if rowwise else torch.tensor(1.3)
    return [a, b, sa, sb]


@pytest.mark.parametrize("rowwise", [False, True], ids=["tensor", "row"])
@pytest.mark.parametrize("a_type", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
@pytest.mark.parametrize("out", [*FLOATS, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_scaled_mm(rowwise: bool, a_type: torch.dtype, out: torch.dtype, bias: bool) -> None:
    args = scaled(rowwise, a_type, torch.float8_e4m3fn)
    b = values(48, seed=4).to(torch.bfloat16 if out.itemsize < 4 else out) if bias else None
    exact = args[0].double() @ args[1].double() * args[2].double() * args[3].double()
    if b is not None:
        exact = exact + b.double()
    moved = [t.to("xpu") for t in args]
    moved_bias = None if b is None else b.to("xpu")
    actual = torch._scaled_mm(*moved, bias=moved_bias, out_dtype=out)
    close(actual, exact, out)
    target = torch.empty(0, dtype=out, device="xpu")
    torch._scaled_mm(*moved, bias=moved_bias, out_dtype=out, out=target)
    assert torch.equal(target.view(torch.uint8), actual.view(torch.uint8))
    recipe = [1 if rowwise else 0]
    second = torch.ops.aten._scaled_mm_v2(
        *moved[:2], [moved[2]], recipe, [0], [moved[3]], recipe, [0], moved_bias, out, [], False
    )
    assert torch.equal(second.view(torch.uint8), actual.view(torch.uint8))
    if b is None or b.dtype == out:
        close(actual, torch._scaled_mm(*args, bias=b, out_dtype=out).double(), out)


def test_scaled_mm_default_type_and_empty() -> None:
    args = [t.to("xpu") for t in scaled(False, torch.float8_e4m3fn, torch.float8_e4m3fn)]
    assert torch._scaled_mm(*args).dtype == torch.float8_e4m3fn
    assert torch._scaled_mm(args[0][:0], *args[1:], out_dtype=torch.bfloat16).shape == (0, 48)
    zero = torch._scaled_mm(args[0][:, :0], args[1][:0], *args[2:], out_dtype=torch.float32)
    assert torch.equal(zero.cpu(), torch.zeros(17, 48))


def test_scaled_mm_errors() -> None:
    a, b, sa, sb = (t.to("xpu") for t in scaled(False, torch.float8_e4m3fn, torch.float8_e4m3fn))
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a.float(), b, sa, sb)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a, b, sa.double(), sb)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(a, b, torch.ones(3, 1, device="xpu"), torch.ones(1, 48, device="xpu"))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch._scaled_mm(a, b[:16], sa, sb)
    with pytest.raises(RuntimeError, match="must be a matrix"):
        torch._scaled_mm(a[0], b, sa, sb)
    with pytest.raises(RuntimeError, match="Bias must be size 48"):
        torch._scaled_mm(a, b, sa, sb, bias=torch.ones(3, device="xpu"))
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch.ops.aten._scaled_mm_v2(a, b, [sa], [3], [0], [sb], [3], [0], None, torch.float32, [], False)


FORMS = ["2d-3d", "3d-3d", "2d-2d", "3d-2d"]


def group_parts(
    form: str, a: torch.Tensor, b: torch.Tensor, ends: list[int]
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    left, right = form.split("-")
    parts = []
    for g in range(3):
        part = slice(ends[g - 1] if g else 0, ends[g])
        x = a[g] if left == "3d" else a[:, part] if right == "2d" else a[part]
        y = b[g] if right == "3d" else b[part] if left == "2d" else b[:, part]
        parts.append((x, y))
    return parts


def joined(form: str, products: list[torch.Tensor], size: int) -> torch.Tensor:
    """Zero where no group reaches."""
    if form in ("3d-3d", "2d-2d"):
        return torch.stack(products)
    dim = 0 if form == "2d-3d" else 1
    out = torch.cat(products, dim)
    shape = list(out.shape)
    shape[dim] = size - shape[dim]
    return torch.cat([out, out.new_zeros(shape)], dim)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("ends", [[16, 32, 64], [0, 16, 64], [16, 16, 48], [8, 40, 40], [0, 0, 0]], ids=str)
def test_grouped_mm(form: str, dtype: torch.dtype, ends: list[int]) -> None:
    left, right = form.split("-")
    a = values(*((3, 32, 48) if left == "3d" else (32, 64) if form == "2d-2d" else (64, 48))).to(dtype)
    b = values(*((3, 48, 32) if right == "3d" else (64, 32) if form == "2d-2d" else (48, 64)), seed=1).to(dtype)
    offs = None if form == "3d-3d" else torch.tensor(ends, dtype=torch.int32, device="xpu")
    for turned in (False, True):
        x, y = a.to("xpu"), b.to("xpu")
        if turned:
            x, y = x.mT.contiguous().mT, y.mT.contiguous().mT
        moved = [t.requires_grad_() for t in (x, y)]
        exact = [t.double().requires_grad_() for t in (a, b)]
        expected = joined(form, [p @ q for p, q in group_parts(form, *exact, ends)], 64)
        torch.empty(64 * 64, device="xpu").fill_(torch.nan)  # what a result must not keep
        actual = torch._grouped_mm(*moved, offs)
        close(actual.detach(), expected.detach(), dtype)
        grad = values(*actual.shape, seed=2).to(dtype)
        actual.backward(grad.to("xpu"))
        expected.backward(grad.double())
        for m, e in zip(moved, exact, strict=True):
            assert m.grad is not None and e.grad is not None
            close(m.grad, e.grad, dtype)


def test_grouped_mm_errors() -> None:
    a, b = torch.ones(32, 64, device="xpu"), torch.ones(2, 64, 32, device="xpu")
    offs = torch.tensor([16, 32], dtype=torch.int32, device="xpu")
    for args, text in (
        ((a.bfloat16(), b, offs), "same dtype"),
        ((a, b), "Have to provide offsets"),
        ((b, b.mT, offs), "Have to provide offsets"),
        ((a.double(), b.double(), offs), "Expected mat_a to be Float32, BFloat16 or Float16"),
        ((a, b[:, :32], offs), "contraction dimension"),
        ((a, b, offs[:1]), "matrix batch sizes have to match"),
        ((b, b[:1].mT), "batched dimension has to match"),
        ((a, b, offs.long()), "Offsets have to be int32"),
        ((a, b, offs[None]), "offs has to be 1D"),
        ((a, b, offs + 8), "Offsets must not decrease or exceed 32"),
        ((a, b, offs.flip(0)), "Offsets must not decrease or exceed 32"),
        ((a[0], b, offs), "mat_a has to be 2 or 3d"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch._grouped_mm(*args)


@pytest.mark.parametrize("form", ["2d-3d", "3d-3d", "2d-2d", "3d-2d"])
def test_scaled_grouped_mm(form: str) -> None:
    """torch CPU has no kernel: against products of the scaled operands in float64."""
    left, right = form.split("-")
    ends = [16, 16, 48]  # one group is empty, and rows or columns are left over
    offs = None if form == "3d-3d" else torch.tensor(ends, dtype=torch.int32)
    a = values(*((3, 32, 48) if left == "3d" else (32, 48) if form == "2d-2d" else (64, 48)))
    b = values(*((3, 64, 48) if right == "3d" else (64, 48)), seed=1).transpose(-2, -1)
    a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
    times = (3,) if form == "2d-2d" else ()
    sa = torch.rand(*((3, 32) if left == "3d" else (*times, a.shape[0]))) + 0.5
    sb = torch.rand(*((3, 64) if right == "3d" else (*times, b.shape[1]))) + 0.5
    out = torch.zeros(a.shape[-2], b.shape[-1]).double() if left != right else torch.zeros(3, a.shape[-2], 64).double()
    for g, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        part = slice(begin, end)
        ga = a[g] if left == "3d" else a[:, part] if form == "2d-2d" else a[part]
        gb = b[g] if right == "3d" else b[part] if form == "2d-2d" else b[:, part]
        gsa = sa[g] if left == "3d" or form == "2d-2d" else sa[part]
        gsb = sb[g] if right == "3d" or form == "2d-2d" else sb[part]
        product = (ga.double() @ gb.double()) * gsa.double()[:, None] * gsb.double()
        out[g if left == right else part if left == "2d" else (slice(None), part)] = product
    args = [a, b, *(s.flatten() if form == "2d-2d" else s for s in (sa, sb)), offs]
    moved = [t if t is None else t.to("xpu") for t in args]
    actual = torch._scaled_grouped_mm(*moved, out_dtype=torch.bfloat16)
    assert actual.dtype == torch.bfloat16
    close(actual, out, torch.bfloat16)


def test_scaled_grouped_mm_checks_its_arguments() -> None:
    a = torch.ones(8, 16, device="xpu").to(torch.float8_e4m3fn)
    b, sa, sb = a.new_ones(2, 16, 16).transpose(1, 2), torch.ones(8, device="xpu"), torch.ones(2, 16, device="xpu")
    for args, text in (
        ((a, b, sa, sb), "Offsets tensor not provided"),
        ((a, b, sa, sb, torch.tensor([4, 9], dtype=torch.int32, device="xpu")), "must not decrease or exceed 8"),
        ((a, b, sa, sb, torch.tensor([5, 4], dtype=torch.int32, device="xpu")), "must not decrease or exceed 8"),
        ((a, b, sa, sb, torch.tensor([4, 8], device="xpu")), "must be integer"),
        ((a, b, sa[:4], sb, torch.tensor([4, 8], dtype=torch.int32, device="xpu")), "to have 8 elements"),
        ((a.float(), b, sa, sb, torch.tensor([4, 8], dtype=torch.int32, device="xpu")), "E4M3"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch._scaled_grouped_mm(*args)


# ---- _int_mm, int8 and int4 weights

# Products of few rows: one, two and three of them, rows of the weight that sixteen does not divide, more than one tile.
FEW_ROWS = [
    (1, 1152, 48),
    (1, 16768, 80),
    (2, 128, 161),
    (3, 1152, 16),
    (4, 2048, 600),
    (7, 4224, 200),
    (13, 256, 330),
    (29, 256, 330),
]


@pytest.mark.parametrize("shape", [(17, 32, 48), (1, 64, 16), (5, 7, 3)], ids=str)
def test_int_mm_is_exact(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    gen = torch.Generator().manual_seed(0)
    a = torch.randint(-128, 128, (m, k), generator=gen).to(torch.int8)
    b = torch.randint(-128, 128, (k, n), generator=gen).to(torch.int8)
    assert torch.equal(torch._int_mm(a.to("xpu"), b.to("xpu")).cpu().double(), a.double() @ b.double())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(1, 64, 32), (9, 33, 17), (64, 256, 128), (0, 8, 8), (3, 0, 8), *FEW_ROWS], ids=str)
def test_weight_int8pack_mm(dtype: torch.dtype, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, scale = values(m, k).to(dtype), (values(n, seed=1).abs() * 0.01 + 0.01).to(dtype)
    w = torch.randint(-128, 128, (n, k), generator=torch.Generator().manual_seed(2)).to(torch.int8)
    exact = a.double() @ w.double().t() * scale.double()
    actual = torch._weight_int8pack_mm(a.to("xpu"), w.to("xpu"), scale.to("xpu"))
    if exact.numel():
        close(actual, exact, dtype)
    else:
        assert actual.shape == exact.shape


def test_weight_int8pack_mm_errors() -> None:
    a, w, s = (
        torch.ones(2, 8, device="xpu"),
        torch.ones(4, 8, dtype=torch.int8, device="xpu"),
        torch.ones(4, device="xpu"),
    )
    mm = torch._weight_int8pack_mm
    for given, text in (
        ((a.double(), w, s), "32-bit or 16-bit float"), ((a[None], w, s), "A to be 2D"), ((a, w.int(), s), "B to be int8"),
        ((a, w[:, ::2], s), "B to be contiguous"), ((a, w, s[:3]), "1d tensor with size 4"),
        ((a, w, s.bfloat16()), "expected scalar type Float but found BFloat16"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            mm(*given)


def int4(n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values 0..15 of shape (n, k), and the same, two per byte, with the even one low."""
    q = torch.randint(0, 16, (n, k), generator=torch.Generator().manual_seed(1))
    return q, (q[:, 1::2] << 4 | q[:, ::2]).to(torch.uint8)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(5, 128, 48), (64, 256, 48), *FEW_ROWS], ids=str)
@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("layout", ["documented", "upstream kernels"])
def test_weight_int4pack_mm(dtype: torch.dtype, shape: tuple[int, int, int], group: int, layout: str) -> None:
    m, k, n = shape
    q, packed = int4(n, k)
    a = values(m, k).to(dtype)
    scale, zero = (values(k // group, n, seed=2).abs() * 0.1 + 0.01).to(dtype), values(k // group, n, seed=3).to(dtype)
    both = torch.stack((scale, zero), -1)
    if layout != "documented":
        both = both.transpose(0, 1).contiguous()
    w = (q.double() - 8) * scale.double().t().repeat_interleave(group, 1) + zero.double().t().repeat_interleave(
        group, 1
    )
    converted = torch._convert_weight_to_int4pack(packed.to("xpu"), 2)
    assert converted.dtype == torch.int32 and converted.shape == (n, k // 8)
    close(torch._weight_int4pack_mm(a.to("xpu"), converted, group, both.to("xpu")), a.double() @ w.t(), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(5, 128, 48), (64, 256, 48), *FEW_ROWS], ids=str)
@pytest.mark.parametrize("group", [32, 128])
def test_weight_int4pack_mm_with_scales_and_zeros(dtype: torch.dtype, shape: tuple[int, int, int], group: int) -> None:
    m, k, n = shape
    q, packed = int4(n, k)
    a, scale = values(m, k).to(dtype), (values(k // group, n, seed=2).abs() * 0.1 + 0.01).to(dtype)
    zero = torch.randint(0, 16, (k // group, n), generator=torch.Generator().manual_seed(4)).to(torch.int8)
    w = (q.double() - zero.double().t().repeat_interleave(group, 1)) * scale.double().t().repeat_interleave(group, 1)
    converted = torch._convert_weight_to_int4pack(packed.to("xpu"), 8)
    actual = torch.ops.aten._weight_int4pack_mm_with_scales_and_zeros(
        a.to("xpu"), converted, group, scale.to("xpu"), zero.to("xpu")
    )
    close(actual, a.double() @ w.t(), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_weight_int4pack_mm_one_row(dtype: torch.dtype) -> None:
    """One element far above the others of its chunk, tiny chunks, and values that are not finite."""
    q, packed = int4(48, 512)
    a, both = values(1, 512).to(dtype), torch.tensor([0.1, 0.03]).to(dtype).expand(4, 48, 2).contiguous()
    a[0, 7], a[0, 128:256] = 3000, a[0, 128:256] * 2e-5
    w = (q.double() - 8) * both[0, 0, 0].double() + both[0, 0, 1].double()
    converted, scales = torch._convert_weight_to_int4pack(packed.to("xpu"), 2), both.to("xpu")
    close(torch._weight_int4pack_mm(a.to("xpu"), converted, 128, scales), a.double() @ w.t(), dtype)
    a[0, 7] = 0
    close(torch._weight_int4pack_mm(a.to("xpu"), converted, 128, scales), a.double() @ w.t(), dtype)
    assert not torch._weight_int4pack_mm(a.to("xpu") * 0, converted, 128, scales).any()
    for value in (torch.inf, torch.nan):
        a[0, 300] = value
        assert not torch._weight_int4pack_mm(a.to("xpu"), converted, 128, scales).isfinite().any()


def test_rows_of_a_wider_matrix() -> None:
    """Rows with a gap between them are read where they lie, by int8 weights; int4 refuses them as its oneDNN form does."""
    wide = values(3, 512)
    w = torch.randint(-128, 128, (40, 256), generator=torch.Generator().manual_seed(2)).to(torch.int8)
    scale = torch.full((40,), 0.01)
    actual = torch._weight_int8pack_mm(wide.to("xpu")[:, 64:320], w.to("xpu"), scale.to("xpu"))
    close(actual, wide[:, 64:320].double() @ w.double().t() * 0.01, torch.float32)
    _, packed = int4(48, 256)
    converted = torch._convert_weight_to_int4pack(packed.to("xpu"), 2)
    with pytest.raises(RuntimeError, match="A to be a contiguous 2D tensor"):
        torch._weight_int4pack_mm(wide.to("xpu")[:, :256], converted, 128, torch.ones(2, 48, 2, device="xpu"))


def test_int4_errors() -> None:
    a, packed = torch.ones(2, 64, device="xpu"), torch.zeros(4, 8, dtype=torch.int32, device="xpu")
    both = torch.ones(2, 4, 2, device="xpu")
    with pytest.raises(RuntimeError, match="qGroupSize"):
        torch._weight_int4pack_mm(a, packed, 33, both)
    with pytest.raises(RuntimeError, match="of shape"):
        torch._weight_int4pack_mm(a, packed, 32, both[:1])
    with pytest.raises(RuntimeError, match="hold 64 values per row"):
        torch._weight_int4pack_mm(a, packed[:, :4].contiguous(), 32, both)
    with pytest.raises(RuntimeError, match="kByte"):
        torch._convert_weight_to_int4pack(packed, 2)
    with pytest.raises(RuntimeError, match="innerKTiles"):
        torch._convert_weight_to_int4pack(packed.view(torch.uint8), 3)
