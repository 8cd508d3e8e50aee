"""Kernels in Triton against torch on the CPU: the tutorials' shapes, control flow, carried blocks, atomics, errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from xpu_ops.bench.core import Case, compare, to_xpu
from xpu_ops.bench.triton import cases
from xpu_ops.block.device import CPU, GPU, Policy

triton = pytest.importorskip("triton")
tl: Any = pytest.importorskip("triton.language")
libdevice: Any = pytest.importorskip("triton.language.extra.libdevice")
kernels: Any = pytest.importorskip("xpu_ops.bench.triton_kernels")


@triton.jit
def layer_norm(x, o, w, b, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        d = tl.where(at < n, tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32) - mean, 0.0)
        squares += d * d
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = (tl.load(x + row * n + at, mask=at < n).to(tl.float32) - mean) * scale
        tl.store(o + row * n + at, v * tl.load(w + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


@triton.jit
def awaits(flag, sums):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.atomic_add(sums, tl.program_id(0))


@triton.jit
def shifted(x, o, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    d = tl.where(at < n, v - tl.sum(v, axis=0) / n, 0.0)
    tl.store(o + at, d * tl.sum(d * d, axis=0), mask=at < n)


@triton.jit
def written_between(x, o, BLOCK: tl.constexpr, ONE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at)
    largest = tl.max(v, axis=0)
    if ONE:
        tl.store(x + 3, largest * 4)
    else:
        tl.store(x + at, v - largest)
    changed = tl.load(x + at)
    tl.store(o + at, v * tl.sum(changed, axis=0) + changed)


@triton.jit
def mixed(x, o, largest, sums, bins, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-1e9)
    tl.store(largest + row, tl.argmax(v, axis=0))
    positive = tl.where((at < n) & (v > 0), v, 0.0)
    tl.store(sums + row * n + at, tl.cumsum(positive, axis=0), mask=at < n)
    tl.atomic_add(bins + tl.where(at < n, (v * 4).to(tl.int32) & 7, 0), 1, mask=at < n)
    total = tl.zeros([BLOCK], tl.float32)
    k = 0
    while k < row + 3:
        total = total * 0.5 + positive
        k += 1
    if k > 5:  # noqa: SIM108
        total = total + 100.0
    else:
        total = total - 1.0
    tl.store(o + row * n + at, total, mask=at < n)


@triton.jit
def wrapping(o, n, start, BLOCK: tl.constexpr):
    """Sums of 32 bits that wrap within a block, used as values, compared, divided and widened."""
    at = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    hashed = (at * 1103515245 + 12345) ^ (at >> 7)
    tl.store(o + here, at.to(tl.int64))
    tl.store(o + n + here, (at < 2147483640).to(tl.int64) + 2 * (at > 5).to(tl.int64))
    tl.store(o + 2 * n + here, (at // 100).to(tl.int64) * 100 + (at % 100))
    tl.store(o + 3 * n + here, hashed.to(tl.int64) % 1000003)


@triton.jit
def divided(x, d, o, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(o + row * n + at, v / tl.load(d + row), mask=at < n)


@triton.jit
def turned(x, one, o, rows, columns, M: tl.constexpr, N: tl.constexpr):
    """o (M, N) = one (M, M) times the transposed of x (rows, columns), of which the rest counts as 0."""
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    at = x + n[None, :] * columns + m[:, None]
    v = tl.load(at, mask=(n[None, :] < rows) & (m[:, None] < columns), other=0)
    result = tl.dot(tl.load(one + m[:, None] * M + m[None, :]), v)
    tl.store(o + m[:, None] * N + n[None, :], result.to(o.dtype.element_ty))


@triton.jit
def sums_of_ring(x, o, rows, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = (row * 64 + tl.arange(0, BLOCK)) % LENGTH
        v = tl.load(x + at)
        tl.store(o + row * BLOCK + tl.arange(0, BLOCK), v + tl.sum(v, axis=0))


@triton.jit
def sums_of_three_rings(x, o, LENGTH: tl.constexpr, BLOCK: tl.constexpr):
    for row in range(3):
        at = (row * 64 + tl.arange(0, BLOCK)) % LENGTH
        v = tl.load(x + at)
        tl.store(o + row * BLOCK + tl.arange(0, BLOCK), v + tl.sum(v, axis=0))


@triton.jit
def multiples(x, o, o64):
    """A block in another order, and 64-bit multiples of 32-bit places."""
    row, column = tl.arange(0, 16)[:, None], tl.arange(0, 2)[None, :]
    for program in tl.range(tl.program_id(0), 3, tl.num_programs(0)):
        at = row * 2 + column
        turned = tl.reshape(tl.trans(tl.load(x + (program + at) // 3)), [16, 2])
        tl.store(o + program * 32 + at, turned)
        tl.store(o64 + program * 32 + at, tl.reshape(tl.trans(at), [16, 2]).to(tl.int64) * 3 + at)


@triton.jit
def library(x, y, o, LENGTH: tl.constexpr):
    at = tl.arange(0, LENGTH)
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(o + at, libdevice.cyl_bessel_i0(a))
    tl.store(o + LENGTH + at, libdevice.cyl_bessel_i1(a))
    tl.store(o + 2 * LENGTH + at, libdevice.normcdfinv(b))
    tl.store(o + 3 * LENGTH + at, libdevice.rcbrt(b))
    tl.store(o + 4 * LENGTH + at, libdevice.rhypot(a, b))
    tl.store(o + 5 * LENGTH + at, libdevice.norm3d(a, b, a))
    tl.store(o + 6 * LENGTH + at, libdevice.rnorm3d(a, b, a))
    tl.store(o + 7 * LENGTH + at, libdevice.scalbn(b, a.to(tl.int32)))


@triton.jit
def checked(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x + at, mask=at < n, other=1) > 0, "must be positive")


@triton.jit
def refused(x, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.inline_asm_elementwise("mov $0, $1;", "=r,r", [at], dtype=tl.int32, is_pure=True, pack=1))


@pytest.fixture(autouse=True, params=["cpu", "gpu"])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Programs of one sub-group, as a CPU device wants them, and of several, as a GPU does."""
    policy: Policy = {"cpu": CPU, "gpu": GPU}[request.param]
    monkeypatch.setattr("xpu_ops.triton.compiler.policy", lambda: policy)

    def forget() -> None:
        for f in [*globals().values(), *vars(kernels).values()]:
            if isinstance(f, triton.runtime.JITFunction):
                f.device_caches.clear()

    forget()
    yield policy is GPU
    forget()


def close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual.cpu(), expected.cpu(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.float64])
def test_add(dtype: torch.dtype) -> None:
    x, y = (torch.randn(10_007) * 50).to(dtype), (torch.randn(10_007) * 50).to(dtype)
    o = torch.empty_like(x, device="xpu")
    kernels.add_kernel[(triton.cdiv(x.numel(), 1024),)](x.to("xpu"), y.to("xpu"), o, x.numel(), BLOCK=1024)
    assert torch.equal(o.cpu(), x + y)


@pytest.mark.parametrize("n", [1, 100, 1000, 1024])
def test_softmax(n: int) -> None:
    x = torch.randn(70, n)
    o = torch.empty_like(x, device="xpu")
    kernels.softmax_kernel[(9,)](x.to("xpu"), o, 70, n, BLOCK=max(triton.next_power_of_2(n), 2))
    close(o, x.softmax(-1))


@pytest.mark.parametrize("programs", [1, 7, 256])
@pytest.mark.parametrize("rows", [0, 1, 6, 255, 257, 1000])
def test_rows_are_shared_between_programs(rows: int, programs: int) -> None:
    x = torch.randn(rows, 100)
    o = torch.empty_like(x, device="xpu")
    kernels.softmax_kernel[(programs,)](x.to("xpu"), o, rows, 100, BLOCK=128)
    close(o, x.softmax(-1))


@pytest.mark.parametrize("length", [320, 4096])
def test_sums_of_rows_whose_loop_has_two_versions(length: int) -> None:
    """Each version has a loop, and the row is another one around both: lanes must still exchange."""
    x = torch.randn(4096, device="xpu")
    rows = x.cpu()[(torch.arange(3)[:, None] * 64 + torch.arange(256)) % length]
    expected = rows + rows.sum(1, keepdim=True)
    for programs in (1, 2, 4):
        o = torch.empty(3, 256, device="xpu")
        sums_of_ring[(programs,)](x, o, 3, LENGTH=length, BLOCK=256)
        close(o, expected, 1e-4)
    o = torch.empty(3, 256, device="xpu")
    sums_of_three_rings[(1,)](x, o, LENGTH=length, BLOCK=256)
    close(o, expected, 1e-4)


def test_places_of_32_bits_as_numbers_of_64() -> None:
    """The same multiple of the lane is an address and a number; see xpu_local_id."""
    x = torch.arange(64, dtype=torch.int32, device="xpu")
    o, o64 = torch.empty(3, 32, dtype=torch.int32, device="xpu"), torch.empty(3, 32, dtype=torch.int64, device="xpu")
    multiples[(3,)](x, o, o64)
    at = torch.arange(32).view(16, 2)
    for program in range(3):
        assert torch.equal(o[program].cpu(), ((program + at) // 3).t().reshape(32).int())
        assert torch.equal(o64[program].cpu(), at.t().reshape(32) * 3 + at.reshape(32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_libdevice(dtype: torch.dtype) -> None:
    x, y = torch.randn(64, dtype=dtype) * 3, torch.rand(64, dtype=dtype) * 0.98 + 0.01
    o = torch.empty(8, 64, dtype=dtype, device="xpu")
    library[(1,)](x.to("xpu"), y.to("xpu"), o, LENGTH=64)
    length = (2 * x * x + y * y).sqrt()
    expected = [torch.special.i0(x), torch.special.i1(x), torch.special.ndtri(y), y ** (-1 / 3)]
    expected += [1 / torch.hypot(x, y), length, 1 / length, torch.ldexp(y, x.int())]
    close(o, torch.stack(expected), 1e-5 if dtype == torch.float32 else 1e-12)


def test_division_by_one_value() -> None:
    """By its reciprocal: within two units in the last place for all sizes, and as a division for zero, infinity, NaN."""
    sizes = [10.0**e for e in range(-45, 39, 3)]
    d = torch.tensor([*sizes, *(-s for s in sizes), 0.0, float("inf"), float("nan"), 3.0, 7.0])
    x = torch.tensor([0.0, 1.0, -3.0, 1e-44, 1e-38, 1e-20, 1e20, 3e38, float("inf"), float("nan"), *torch.randn(60)])
    o = torch.empty(len(d), len(x), device="xpu")
    divided[(len(d),)](x.to("xpu"), d.to("xpu"), o, len(x), BLOCK=128)
    expected = (x.double() / d.double()[:, None]).float()
    unit = (torch.nextafter(expected.abs(), torch.tensor(float("inf"))) - expected.abs()).nan_to_num(0.0, 0.0)
    same = (o.cpu() == expected) | (o.cpu().isnan() & expected.isnan())
    assert (same | ((o.cpu() - expected).abs() <= 2 * unit)).all()


def test_layer_norm() -> None:
    x, w, b = torch.randn(20, 700), torch.rand(700), torch.rand(700)
    o = torch.empty_like(x, device="xpu")
    layer_norm[(20,)](x.to("xpu"), o, w.to("xpu"), b.to("xpu"), 700, 1e-5, BLOCK=256)
    close(o, F.layer_norm(x, (700,), w, b))


@pytest.mark.parametrize("n", [1024, 1000])
@pytest.mark.parametrize("by", [-1024, -1000, -100, -16, -3, 0, 1, 5, 16, 17, 64, 100, 1023, 1024])
def test_a_row_is_read_again_where_its_store_leaves_it(by: int, n: int) -> None:
    """Kept where the store overlaps what is still to be read."""
    memory = torch.randn(4096)
    expected, row = memory.clone(), memory[1024 : 1024 + n]
    d = row - row.sum() / n
    expected[1024 + by : 1024 + by + n] = d * (d * d).sum()
    x = memory.to("xpu")
    shifted[(1,)](x[1024:], x[1024 + by :], n, BLOCK=1024)
    torch.testing.assert_close(x.cpu(), expected, rtol=2e-5, atol=2e-2)
    narrow = memory.bfloat16().to("xpu")  # into its own memory as float32, over its other half
    wide = narrow.view(torch.float32)
    row = narrow.cpu()[:1024].float()
    shifted[(1,)](narrow, wide, 1024, BLOCK=1024)
    d = row - row.sum() / 1024
    torch.testing.assert_close(wide[:1024].cpu(), d * (d * d).sum(), rtol=2e-5, atol=2e-2)


@pytest.mark.parametrize("one", [False, True])
def test_a_row_is_kept_where_it_is_written_between(one: bool) -> None:
    row = torch.randn(512)
    changed = row - row.max()
    if one:
        changed = row.clone()
        changed[3] = row.max() * 4
    x, o = row.to("xpu"), torch.empty(512, device="xpu")
    written_between[(1,)](x, o, BLOCK=512, ONE=one)
    torch.testing.assert_close(x.cpu(), changed)
    torch.testing.assert_close(o.cpu(), row * changed.sum() + changed, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("size", [(64, 64, 32), (100, 70, 45)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_matmul(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    M, N, K = size
    a, b = torch.randn(M, K).to(dtype), torch.randn(K, N).to(dtype)
    c = torch.empty(M, N, dtype=dtype, device="xpu")
    kernels.matmul_kernel[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](
        a.to("xpu"), b.to("xpu"), c, M, N, K, BM=32, BN=32, BK=16
    )
    close(c.float(), a.float() @ b.float(), 1e-4 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int8])
@pytest.mark.parametrize("size", [(64, 32), (50, 17), (5, 3)])
def test_transposed_operands_are_read_as_they_lie(size: tuple[int, int], dtype: torch.dtype) -> None:
    x = (torch.randn(size) * 50).to(dtype)
    o = torch.empty(32, 64, dtype=dtype, device="xpu")
    compiled = turned[(1,)](x.to("xpu"), torch.eye(32, dtype=dtype, device="xpu"), o, *size, M=32, N=64)
    assert torch.equal(o.cpu(), F.pad(x.t(), (0, 64 - size[0], 0, 32 - size[1])))
    assert "tri::transpose" in compiled.asm["sycl"]


def test_attention() -> None:
    q, k, v = (torch.randn(1, 2, 128, 32) for _ in range(3))
    o = torch.empty_like(q, device="xpu")
    kernels.attention_kernel[(4, 2)](q.to("xpu"), k.to("xpu"), v.to("xpu"), o, 32**-0.5, 128, D=32, BM=32, BN=16)
    close(o, F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_rows_of_the_benchmark_compute_the_same(case: Case) -> None:
    assert case.unfused is not None
    assert not compare(case.function(*to_xpu(case.args)), case.unfused(*case.args), 1e-4)


def test_control_flow_scan_and_atomics() -> None:
    rows, n = 8, 90
    x = torch.randn(rows, n)
    on_device = x.to("xpu")
    o, sums = torch.empty_like(on_device), torch.empty_like(on_device)
    largest = torch.empty(rows, dtype=torch.int32, device="xpu")
    bins = torch.zeros(8, dtype=torch.int32, device="xpu")
    mixed[(rows,)](on_device, o, largest, sums, bins, n, BLOCK=128)
    positive = x.clamp(min=0)
    assert torch.equal(largest.cpu().long(), x.argmax(1))
    close(sums, positive.cumsum(1))
    assert torch.equal(bins.cpu().long(), torch.bincount(((x * 4).int() & 7).flatten().long(), minlength=8))
    for row in range(rows):
        total = torch.zeros(n)
        for _ in range(row + 3):
            total = total * 0.5 + positive[row]
        close(o[row], total + 100 if row + 3 > 5 else total - 1)


@pytest.mark.parametrize("start", [0, 2**31 - 40, -(2**31)])
def test_integers_of_32_bits_wrap(start: int) -> None:
    n = 128
    o = torch.empty(4 * n, dtype=torch.int64, device="xpu")
    wrapping[(2,)](o, n, start, BLOCK=64)
    at = (start + torch.arange(n) + 2**31) % 2**32 - 2**31
    hashed = (((at * 1103515245 + 12345) + 2**31) % 2**32 - 2**31) ^ (at >> 7)
    quotient = torch.div(at, 100, rounding_mode="trunc")
    expected = [at, (at < 2147483640).long() + 2 * (at > 5).long(), quotient * 100 + at.fmod(100), hashed.fmod(1000003)]
    assert torch.equal(o.cpu(), torch.cat(expected))


def test_a_kernel_that_waits_for_others_is_never_run_by_the_caller() -> None:
    flag, total = torch.ones(1, device="xpu"), torch.zeros(1, dtype=torch.int32, device="xpu")
    kernel = awaits[(40,)](flag, total)
    assert total.item() == 780
    assert kernel.metadata.waits
    x = torch.ones(40, device="xpu")
    assert not kernels.add_kernel[(1,)](x, x, x, 40, BLOCK=32).metadata.waits


def test_an_assertion_raises_at_the_next_synchronisation() -> None:
    x = torch.ones(20, dtype=torch.int32, device="xpu")
    checked[(1,)](x, 20, BLOCK=32, debug=True)
    torch.xpu.synchronize()
    x[7] = -1
    with pytest.raises(RuntimeError, match=r"test_triton_kernels.py:\d+: device assertion: must be positive"):
        checked[(1,)](x, 20, BLOCK=32, debug=True)
        torch.xpu.synchronize()


def test_what_is_not_lowered_is_named_with_its_line() -> None:
    with pytest.raises(NotImplementedError, match=r"tt.elementwise_inline_asm: .*test_triton_kernels.py:\d+"):
        refused[(1,)](torch.empty(32, dtype=torch.int32, device="xpu"), BLOCK=32)


def test_cooperative_grids_are_refused() -> None:
    x = torch.empty(32, device="xpu")
    with pytest.raises(ValueError, match="launch_cooperative_grid"):
        kernels.add_kernel[(1,)](x, x, x, 32, BLOCK=32, launch_cooperative_grid=True)


@pytest.mark.parametrize("grid", [(0,), (-1,), (3, 0, 2), (2, -1, 1)], ids=str)
def test_a_grid_without_programs_launches_nothing(grid: tuple[int, ...]) -> None:
    x = torch.ones(32, device="xpu")
    kernels.add_kernel[grid](x, x, x, 32, BLOCK=32)
    assert x.sum() == 32


def test_a_tensor_of_the_cpu_is_refused() -> None:
    x = torch.empty(32)
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        kernels.add_kernel[(1,)](x, x, x, 32, BLOCK=32)


def test_warps_and_stages_do_not_compile_again(gpu: bool) -> None:
    """But for warps that are the sub-groups of a work-group."""
    from xpu_ops.triton.compiler import _compile

    x = torch.ones(64, device="xpu")
    o = torch.empty_like(x)
    kernels.add_kernel[(1,)](x, x, o, 64, BLOCK=64, num_warps=2)
    before = _compile.cache_info().misses
    kernels.add_kernel[(1,)](x, x, o, 64, BLOCK=64, num_warps=8, num_stages=3)
    kernels.add_kernel[(1,)](x, x, o, 64, BLOCK=64, num_warps=8, num_stages=4)
    assert _compile.cache_info().misses == before + gpu


OLDER_TRITON = """
import sys
import triton
from triton.backends import driver
from triton.backends.nvidia import driver as nvidia

if hasattr(driver, "expand_signature"):
    parts, flat = driver.expand_signature, driver.decompose_descriptor
    del driver.expand_signature, driver.decompose_descriptor, sys.modules["xpu_ops.triton.driver"]
    nvidia.expand_signature = lambda signature, meta: parts(signature, meta, "")
    nvidia.make_tensordesc_arg = lambda arg, meta: flat(arg)
from xpu_ops.triton.driver import expand_signature

print(*expand_signature(["i32", "tensordesc<fp16[8, 8]>"], None, ""))
"""


def test_the_driver_loads_beside_triton_3_7() -> None:
    result = subprocess.run(
        [sys.executable, "-c", OLDER_TRITON], capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "i32 *fp16 i64 i64 i64 i64 i1 i1 i32 i32 i64 i64"
