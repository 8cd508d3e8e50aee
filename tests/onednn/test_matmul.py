"""Matrix products against the CPU: layouts, element types, alpha and beta, empty dimensions, out=."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import script
from support.compare import assert_near
from support.modes import DOT16, GPU_POLICY, WIDE

FLOATS = [torch.float32, torch.bfloat16, torch.float16]
OTHERS = [torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.complex64, torch.complex128]
TOLERANCE = {
    torch.float32: (1e-4, 1e-4),
    torch.bfloat16: (2e-2, 1e-1),
    torch.float16: (5e-3, 1e-2),
    torch.float64: (1e-10, 1e-10),
    torch.complex64: (1e-4, 1e-4),
    torch.complex128: (1e-10, 1e-10),
}


def make(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    gen = torch.Generator().manual_seed(seed + sum(shape))
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(shape, generator=gen, dtype=wide).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -5, 6, shape, generator=gen).to(dtype)


def layouts(t: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same values in layouts that a product meets."""
    transposed = t.mT.contiguous().mT
    padded = torch.zeros(*t.shape[:-1], t.shape[-1] + 3, dtype=t.dtype)
    padded[..., :-3] = t
    strided = torch.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype)
    strided[..., ::2] = t
    return {"rows": t.contiguous(), "columns": transposed, "padded": padded[..., :-3], "strided": strided[..., ::2]}


def on_xpu(t: torch.Tensor) -> torch.Tensor:
    """Same strides on the device."""
    base = torch.zeros(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype)
    base.set_(t.untyped_storage(), 0, base.shape)
    return base.to("xpu").as_strided(t.shape, t.stride(), t.storage_offset())


def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.device.type == "xpu"
    rtol, atol = TOLERANCE.get(expected.dtype, (0, 0))
    torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS + OTHERS, ids=str)
@pytest.mark.parametrize(("la", "lb"), list(itertools.product(["rows", "columns", "padded", "strided"], repeat=2)))
def test_mm_layouts(dtype: torch.dtype, la: str, lb: str) -> None:
    a, b = layouts(make(7, 18, dtype=dtype))[la], layouts(make(18, 12, dtype=dtype, seed=1))[lb]
    check(torch.mm(on_xpu(a), on_xpu(b)), torch.mm(a, b))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.int32, torch.complex64], ids=str)
@pytest.mark.parametrize(("la", "lb"), list(itertools.product(["rows", "columns", "strided"], repeat=2)))
def test_bmm_layouts(dtype: torch.dtype, la: str, lb: str) -> None:
    a, b = layouts(make(3, 5, 8, dtype=dtype))[la], layouts(make(3, 8, 6, dtype=dtype, seed=1))[lb]
    check(torch.bmm(on_xpu(a), on_xpu(b)), torch.bmm(a, b))
    one = b[:1].expand(3, 8, 6)
    check(torch.bmm(on_xpu(a), on_xpu(b)[:1].expand(3, 8, 6)), torch.bmm(a, one))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (1, 64, 64), (5, 37, 67), (64, 64, 64), (9, 1, 130), (33, 300, 3), (2, 17, 1),
        (1, 2048, 600), (2, 1000, 770), (3, 2049, 333), (4, 513, 1000), (7, 705, 900), (8, 320, 2100), (11, 96, 520), (12, 33, 700), (13, 2049, 331), (16, 704, 515),
    ],
)  # fmt: skip
def test_small_products(m: int, k: int, n: int, dtype: torch.dtype) -> None:
    """Below the size where oneDNN's submission pays, and of few rows: both layouts of b, what is added, batches, a strided result."""
    a, w, bias = (make(*size, dtype=dtype, seed=i) for i, size in enumerate([(m, k), (n, k), (n,)]))
    x, y, z = a.to("xpu"), w.to("xpu"), bias.to("xpu")
    exact = a.double() @ w.double().t()
    for right in (y.t(), y.t().contiguous()):
        check(torch.mm(x, right), exact.to(dtype))
        check(torch.addmm(z, x, right, beta=2, alpha=0.5), (2 * bias.double() + 0.5 * exact).to(dtype))
        check(torch.bmm(x.expand(2, m, k), right.expand(2, k, n)), exact.to(dtype).expand(2, m, n))
        out = torch.zeros(m, 2 * n, dtype=dtype, device="xpu")[:, ::2]
        torch.mm(x, right, out=out)
        check(out, exact.to(dtype))
        assert torch.equal(torch.mm(x, right), torch.mm(x, right))
    check(torch.nn.functional.linear(x, y, z), (exact + bias.double()).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_row_does_not_depend_on_the_others(dtype: torch.dtype) -> None:
    """Up to four rows: bit for bit, where they have a kernel of their own; bf16 up to sixteen where the processor multiplies it."""
    columns = max(500, 32 * torch.xpu.get_device_properties(0).max_compute_units)  # below, oneDNN's kernels serve
    x, w = make(16, 1000, dtype=dtype).to("xpu"), make(columns, 1000, dtype=dtype, seed=1).to("xpu")
    most = 16 if DOT16 and WIDE and dtype == torch.bfloat16 else 4
    whole = torch.nn.functional.linear(x[:most], w)
    for rows in range(1, most):
        part = torch.nn.functional.linear(x[:rows], w)
        if GPU_POLICY:
            check(part, whole[:rows].cpu())
        else:
            assert torch.equal(part, whole[:rows])


def test_bmm_of_attention_heads() -> None:
    q = make(2, 9, 4, 16, dtype=torch.float32)
    cpu = torch.matmul(q.transpose(1, 2), q.transpose(1, 2).transpose(-1, -2))
    x = q.to("xpu")
    check(torch.matmul(x.transpose(1, 2), x.transpose(1, 2).transpose(-1, -2)), cpu)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64, torch.int64, torch.complex128], ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (2, 1), (1, 3), (2, 3), (0, 2)])
@pytest.mark.parametrize("shape", [(12,), (1, 12), (7, 1), (7, 12), ()], ids=str)
def test_addmm(dtype: torch.dtype, beta: int, alpha: int, shape: tuple[int, ...]) -> None:
    c, a, b = make(*shape, dtype=dtype, seed=2), make(7, 18, dtype=dtype), make(18, 12, dtype=dtype)
    expected = torch.addmm(c, a, b, beta=beta, alpha=alpha)
    check(torch.addmm(c.to("xpu"), a.to("xpu"), b.to("xpu"), beta=beta, alpha=alpha), expected)
    if shape == (7, 12):
        x = c.to("xpu")
        assert x.addmm_(a.to("xpu"), b.to("xpu"), beta=beta, alpha=alpha) is x
        check(x, expected)
        t = c.t().contiguous().t()
        check(torch.addmm(on_xpu(t), a.to("xpu"), b.to("xpu"), beta=beta, alpha=alpha), expected)


def test_beta_zero_ignores_nan() -> None:
    c, a = torch.full((4, 4), float("nan")), make(4, 4, dtype=torch.float32)
    check(torch.addmm(c.to("xpu"), a.to("xpu"), a.to("xpu"), beta=0), torch.mm(a, a))
    check(torch.baddbmm(c[None].to("xpu"), a[None].to("xpu"), a[None].to("xpu"), beta=0), torch.bmm(a[None], a[None]))


def test_extreme_ratio_of_alpha_and_beta() -> None:
    a = make(8, 8, dtype=torch.float32)
    for beta, alpha in [(1e-20, 1.0), (1.0, 1e-20), (1e20, 1.0)]:
        x = a.to("xpu")
        torch.testing.assert_close(
            torch.addmm(x, x, x, beta=beta, alpha=alpha).cpu(), torch.addmm(a, a, a, beta=beta, alpha=alpha)
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32], ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 6), (5, 6), (6,), (3, 1, 6), (1, 1, 1)], ids=str)
def test_baddbmm(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    c, a, b = make(*shape, dtype=dtype, seed=4), make(3, 5, 8, dtype=dtype), make(3, 8, 6, dtype=dtype)
    x, y, z = c.to("xpu"), a.to("xpu"), b.to("xpu")
    check(torch.baddbmm(x, y, z, beta=2, alpha=3), torch.baddbmm(c, a, b, beta=2, alpha=3))


@pytest.mark.parametrize("dtype", FLOATS + OTHERS, ids=str)
def test_vectors(dtype: torch.dtype) -> None:
    m, v, w, c = make(9, 17, dtype=dtype), make(17, dtype=dtype), make(17, dtype=dtype, seed=3), make(9, dtype=dtype)
    check(torch.mv(m.to("xpu"), v.to("xpu")), torch.mv(m, v))
    check(torch.mv(m.to("xpu")[:, ::2], v.to("xpu")[::2]), torch.mv(m[:, ::2], v[::2]))
    expected = torch.addmv(c, m, v, beta=2, alpha=3)
    check(torch.addmv(c.to("xpu"), m.to("xpu"), v.to("xpu"), beta=2, alpha=3), expected)
    check(torch.dot(v.to("xpu"), w.to("xpu")), torch.dot(v, w))
    check(torch.dot(v.to("xpu")[::3], w.to("xpu")[::3]), torch.dot(v[::3], w[::3]))
    check(torch.vdot(v.to("xpu"), w.to("xpu")), torch.vdot(v, w))


def test_dot_is_deterministic_and_long() -> None:
    v = make(100_003, dtype=torch.float32)
    x = v.to("xpu")
    first = torch.dot(x, x).cpu()
    torch.testing.assert_close(first, torch.dot(v, v), rtol=1e-4, atol=0)
    assert all(torch.equal(torch.dot(x, x).cpu(), first) for _ in range(5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_addbmm(dtype: torch.dtype) -> None:
    c, a, b = make(5, 6, dtype=dtype), make(3, 5, 8, dtype=dtype), make(3, 8, 6, dtype=dtype)
    args = [t.to("xpu") for t in (c, a, b)]
    expected = torch.addbmm(c, a, b, beta=2, alpha=3)
    check(torch.addbmm(*args, beta=2, alpha=3), expected)
    check(args[0].addbmm_(*args[1:], beta=2, alpha=3), expected)


@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_addmm_activation(gelu: bool, dtype: torch.dtype) -> None:
    c, a, b = make(12, dtype=dtype), make(7, 18, dtype=dtype), make(18, 12, dtype=dtype)
    expected = torch._addmm_activation(c, a, b, use_gelu=gelu)
    check(torch._addmm_activation(c.to("xpu"), a.to("xpu"), b.to("xpu"), use_gelu=gelu), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 1, 1), (1, 9, 1)])
def test_small_and_empty(dtype: torch.dtype, m: int, k: int, n: int) -> None:
    a, b, c = make(m, k, dtype=dtype), make(k, n, dtype=dtype), make(n, dtype=dtype)
    check(torch.mm(a.to("xpu"), b.to("xpu")), torch.mm(a, b))
    check(torch.addmm(c.to("xpu"), a.to("xpu"), b.to("xpu"), beta=3), torch.addmm(c, a, b, beta=3))
    check(torch.bmm(a[None].to("xpu"), b[None].to("xpu")), torch.bmm(a[None], b[None]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_out_layouts(dtype: torch.dtype) -> None:
    a, b = make(7, 18, dtype=dtype), make(18, 12, dtype=dtype)
    expected = torch.mm(a, b)
    x, y = a.to("xpu"), b.to("xpu")
    for out in [
        torch.empty(7, 12, dtype=dtype, device="xpu"),
        torch.empty(12, 7, dtype=dtype, device="xpu").t(),
        torch.empty(7, 24, dtype=dtype, device="xpu")[:, ::2],
        torch.empty(7, 20, dtype=dtype, device="xpu")[:, :12],
        torch.empty(0, dtype=dtype, device="xpu"),
    ]:
        assert torch.mm(x, y, out=out) is out
        check(out, expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_conjugates(dtype: torch.dtype) -> None:
    a, b = make(5, 6, dtype=dtype), make(6, 4, dtype=dtype)
    x, y = a.to("xpu"), b.to("xpu")
    check(torch.mm(x.conj(), y), torch.mm(a.conj(), b))
    check(torch.mm(y.mH, x.mH), torch.mm(b.mH, a.mH))
    check(torch.dot(x[0].conj(), y[:, 0]), torch.dot(a[0].conj(), b[:, 0]))


@pytest.mark.parametrize(("la", "lb"), list(itertools.product(["rows", "columns", "strided"], repeat=2)))
def test_int_mm(la: str, lb: str) -> None:
    a, b = layouts(make(19, 32, dtype=torch.int8))[la], layouts(make(32, 24, dtype=torch.int8))[lb]
    check(torch._int_mm(on_xpu(a), on_xpu(b)), torch.mm(a.int(), b.int()))


def test_out_dtype() -> None:
    a, b = make(7, 18, dtype=torch.bfloat16), make(18, 12, dtype=torch.bfloat16)
    out = torch.mm(a.to("xpu"), b.to("xpu"), out_dtype=torch.float32)
    torch.testing.assert_close(out.cpu(), torch.mm(a.float(), b.float()), rtol=1e-4, atol=1e-4)
    out = torch.bmm(a[None].to("xpu"), b[None].to("xpu"), out_dtype=torch.float32)
    torch.testing.assert_close(out.cpu()[0], torch.mm(a.float(), b.float()), rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="out_dtype"):
        torch.mm(a.to("xpu"), b.to("xpu"), out_dtype=torch.float64)


@given(
    st.integers(1, 40), st.integers(1, 70), st.integers(1, 40), st.sampled_from(FLOATS), st.booleans(), st.booleans()
)
def test_linear_shapes(m: int, k: int, n: int, dtype: torch.dtype, bias: bool, batched: bool) -> None:
    x = make(2, m, k, dtype=dtype) if batched else make(m, k, dtype=dtype)
    w, b = make(n, k, dtype=dtype), make(n, dtype=dtype) if bias else None
    expected = torch.nn.functional.linear(x, w, b)
    check(torch.nn.functional.linear(x.to("xpu"), w.to("xpu"), b.to("xpu") if bias else None), expected)


def test_linear_backward() -> None:
    x, w, b = make(5, 6, dtype=torch.float32), make(4, 6, dtype=torch.float32), make(4, dtype=torch.float32)
    cpu = [t.clone().requires_grad_() for t in (x, w, b)]
    xpu = [t.to("xpu").requires_grad_() for t in (x, w, b)]
    weight = make(5, 4, dtype=torch.float32, seed=9)
    (torch.nn.functional.linear(*cpu) * weight).sum().backward()
    (torch.nn.functional.linear(*xpu) * weight.to("xpu")).sum().backward()
    for a, e in zip(xpu, cpu, strict=True):
        check(a.grad, e.grad)


def test_errors() -> None:
    a, b = torch.ones(3, 4, device="xpu"), torch.ones(5, 6, device="xpu")
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(a, b)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch.mm(a, torch.ones(4, 2, dtype=torch.float64, device="xpu"))
    with pytest.raises(RuntimeError, match="1D tensors expected"):
        torch.dot(a, a)
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(a, torch.ones(4, 2))
    with pytest.raises((RuntimeError, NotImplementedError), match="Bool"):
        torch.mm(a.bool(), a.bool().t())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("out", ["rows apart", "matrices apart", "transposed", "batch inside"])
@pytest.mark.parametrize("sizes", [(7, 33, 70, 40), (2, 31, 64, 31)], ids=str)
def test_broadcast_operand_into_results_with_gaps(
    sizes: tuple[int, int, int, int], out: str, dtype: torch.dtype
) -> None:
    """The first operand of baddbmm broadcasts in every way; the result is a part of a larger tensor."""
    batch, m, k, n = sizes
    make = {
        "rows apart": lambda: torch.zeros(batch, m, n + 3, dtype=dtype, device="xpu")[..., :n],
        "matrices apart": lambda: torch.zeros(batch, m + 2, n, dtype=dtype, device="xpu")[:, :m],
        "transposed": lambda: torch.zeros(batch, n, m, dtype=dtype, device="xpu").mT,
        "batch inside": lambda: torch.zeros(m, batch, n, dtype=dtype, device="xpu").transpose(0, 1),
    }[out]
    a, b = torch.randn(batch, m, k).to(dtype), torch.randn(batch, k, n).to(dtype)
    for keep in itertools.product((True, False), repeat=3):
        c = torch.randn([s if kept else 1 for s, kept in zip((batch, m, n), keep, strict=True)]).to(dtype)
        for beta, alpha in ((1, 1), (0.5, 2)):
            expected = torch.baddbmm(c.double(), a.double(), b.double(), beta=beta, alpha=alpha)
            actual = torch.baddbmm(c.to("xpu"), a.to("xpu"), b.to("xpu"), beta=beta, alpha=alpha, out=make())
            tolerance = 1e-4 if dtype == torch.float32 else 3e-2
            assert_near(actual, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())


def test_empty_result_checks_the_first_operand() -> None:
    with pytest.raises(RuntimeError, match="must be greater or equal"):
        torch.addmm(torch.ones(2, 2, 2, device="xpu"), torch.ones(3, 1, device="xpu"), torch.ones(1, 0, device="xpu"))


EMULATED = """
import torch
from xpu_ops import onednn

def near(x: torch.Tensor, y: torch.Tensor) -> None:
    torch.testing.assert_close(x.float().cpu(), y.float(), rtol=2e-2, atol=2e-1)

gen = torch.Generator().manual_seed(0)
x, w = (torch.randn(n, 256, generator=gen).bfloat16() for n in (64, 128))
image, kernel = torch.randn(2, 16, 14, 14, generator=gen).bfloat16(), torch.randn(32, 16, 3, 3, generator=gen).bfloat16()
for device in ("cpu", "xpu"):
    leaves = [t.to(device).detach().requires_grad_() for t in (x, w, image, kernel)]
    results = [torch.nn.functional.linear(*leaves[:2]), torch.conv2d(*leaves[2:], padding=1)]
    sum(r.float().sum() for r in results).backward()
    values = [t.detach() for t in results] + [t.grad for t in leaves]
    if device == "cpu":
        wanted = values
for ours, theirs in zip(values, wanted, strict=True):
    near(ours, theirs)
entries = [(e["op"], e["impl"]) for e in onednn.primitive_cache.entries() if e["shapes"].startswith("bf16")]
assert {op for op, _ in entries} >= {"matmul", "conv_forward", "conv_backward_data", "conv_backward_weights"}, entries
assert {impl for op, impl in entries if op != "reorder"} == {"refused: bf16 is emulated on this processor"}, entries
"""


def test_processors_without_bf16_compute_in_float32() -> None:
    """oneDNN's emulation takes two to four times as long."""
    script.out(EMULATED, ONEDNN_MAX_CPU_ISA="AVX512_CORE_VNNI")


WITHOUT_BYTES = """
import torch
from xpu_ops import onednn

gen = torch.Generator().manual_seed(0)
# One part, whole parts, a part that is left over, few elements of it; extremes make the largest sums.
# Few rows of long, contiguous columns have a kernel of their own: each number of rows, a rest of columns and of elements.
few = [(m, k, n) for m in (1, 2, 3, 4, 7, 16) for k, n in ((64, 128), (75, 131), (5000, 130))]
for m, k, n in [(70, 64, 130), (70, 1024, 130), (70, 1025, 130), (33, 5000, 300), *few]:
    for kind, low, high in ((torch.int8, -128, 127), (torch.uint8, 0, 255)):
        for extreme in (False, True):
            a = torch.randint(low, high + 1, (m, k), generator=gen).to(kind)
            b = torch.randint(-128, 128, (n, k), generator=gen).to(torch.int8)
            if extreme:
                a.fill_(low or high), b.fill_(-128)
            for right in (b.t(), b.t().contiguous()):
                actual = torch._int_mm(a.to("xpu"), right.to("xpu"))
                assert torch.equal(actual.cpu().double(), a.double() @ right.double()), (m, k, n, kind, extreme)
impls = {e["shapes"].split()[0]: e["impl"] for e in onednn.primitive_cache.entries() if e["op"] == "matmul"}
assert impls["i8"] == "refused: 8-bit products saturate on this processor", impls
assert ("f32" in impls) == in_parts, impls
"""


def test_processors_without_bytes_multiply_exactly() -> None:
    """oneDNN saturates in 16 bits there, as torch CPU's product does."""
    # A GPU's plan takes the own kernel.
    script.out(f"in_parts = {not GPU_POLICY}\n" + WITHOUT_BYTES, ONEDNN_MAX_CPU_ISA="AVX2")
