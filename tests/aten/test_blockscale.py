"""Products whose operands have a scale per block, against a float64 model of each format."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
import torch
from support.modes import DOTS8
from torch.nn.functional import ScalingType, SwizzleType, scaled_mm

import xpu_ops

F4, E8M0, E4M3 = torch.float4_e2m1fn_x2, torch.float8_e8m0fnu, torch.float8_e4m3fn
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
NO, TILES = SwizzleType.NO_SWIZZLE, SwizzleType.SWIZZLE_32_4_4
B16, B32 = ScalingType.BlockWise1x16, ScalingType.BlockWise1x32
B128, SQUARE = ScalingType.BlockWise1x128, ScalingType.BlockWise128x128


@pytest.fixture(autouse=True)
def no_fallback() -> Any:
    with xpu_ops.fallback.forbid():
        yield


# ---- the formats, from their definitions


def minifloat(exponents: int, mantissas: int, bias: int, byte: int, kind: str) -> float:
    """The value of a byte; `kind` says which codes are special."""
    sign = -1.0 if byte >> (exponents + mantissas) else 1.0
    e, m = byte >> mantissas & ((1 << exponents) - 1), byte & ((1 << mantissas) - 1)
    top = (1 << exponents) - 1
    if kind == "ieee" and e == top:
        return sign * math.inf if m == 0 else math.nan
    if kind == "fn" and e == top and m == (1 << mantissas) - 1:
        return math.nan
    if kind == "fnuz" and byte == 0x80:
        return math.nan
    fraction = m / (1 << mantissas)
    return sign * (fraction * 2.0 ** (1 - bias) if e == 0 else (1 + fraction) * 2.0 ** (e - bias))


def table(*of: Any) -> torch.Tensor:
    return torch.tensor([minifloat(*of[:3], b, of[3]) for b in range(256)], dtype=torch.float64)


VALUES = {
    torch.float8_e4m3fn: table(4, 3, 7, "fn"),
    torch.float8_e5m2: table(5, 2, 15, "ieee"),
    torch.float8_e4m3fnuz: table(4, 3, 8, "fnuz"),
    torch.float8_e5m2fnuz: table(5, 2, 16, "fnuz"),
    E8M0: torch.tensor([2.0 ** (b - 127) if b < 255 else math.nan for b in range(256)], dtype=torch.float64),
    torch.float32: None,
}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def exact(t: torch.Tensor) -> torch.Tensor:
    """The values of a tensor in float64; two to a byte of float4, the low half first."""
    if t.dtype == torch.float32:
        return t.double()
    b = t.view(torch.uint8).long()
    if t.dtype == F4:
        return torch.stack([E2M1[b & 15], E2M1[b >> 4]], -1).flatten(-2)
    found = VALUES[t.dtype]
    assert found is not None
    return found[b]


def swizzled(scale: torch.Tensor) -> torch.Tensor:
    """Tiles of 128 rows by 4 blocks: in each, 32 rows of the four rows 32 apart of four blocks."""
    rows, blocks = scale.shape
    tall, wide = -(-rows // 128), -(-blocks // 4)
    out = torch.full((tall * wide * 512,), 0xAA, dtype=torch.uint8)
    bytes_ = scale.view(torch.uint8)
    for r in range(rows):
        for c in range(blocks):
            out[(r // 128 * wide + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = bytes_[r, c]
    return out.view(scale.dtype)


class Format(NamedTuple):
    name: str
    value: torch.dtype
    scale: torch.dtype
    left: ScalingType
    right: ScalingType
    levels: int = 1


FORMATS = [
    Format("mxfp8", E4M3, E8M0, B32, B32),
    Format("mxfp4", F4, E8M0, B32, B32),
    Format("nvfp4", F4, E4M3, B16, B16),
    Format("nvfp4-two-levels", F4, E4M3, B16, B16, 2),
    Format("fp8-1x128-128x128", E4M3, torch.float32, B128, SQUARE),
    Format("fp8-128x128-1x128", E4M3, torch.float32, SQUARE, B128),
    Format("fp8-1x128-1x128", E4M3, torch.float32, B128, B128),
]
BLOCK = {B16: 16, B32: 32, B128: 128, SQUARE: 128}
# Rows of a and columns of b: one, a partial tile of scales, a whole one and one more; values of a row: part of a block.
SHAPES = [(1, 16, 16), (1, 144, 272), (5, 32, 96), (16, 128, 128), (129, 144, 160), (33, 256, 1040), (128, 16, 512)]
# Those of the kernel for few rows: one, two, a team of rows, several, more than it holds; inputs taken in several parts.
SHAPES += [(1, 48, 16512), (2, 144, 4224), (3, 32, 2176), (12, 32, 4224), (40, 272, 2304)]


def random_bytes(dtype: torch.dtype, *shape: int, seed: int) -> torch.Tensor:
    """Every code of the type but NaN and infinity."""
    b = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    if dtype != F4:
        b = torch.where(VALUES[dtype][b.long()].isfinite(), b, torch.zeros_like(b))  # type: ignore[index]
    return b.view(dtype)


def random_scale(dtype: torch.dtype, *shape: int, seed: int, low: int = 117, high: int = 137) -> torch.Tensor:
    gen = torch.Generator().manual_seed(seed)
    if dtype == torch.float32:
        return torch.rand(shape, generator=gen) + 0.1
    if dtype == E8M0:
        return torch.randint(low, high, shape, dtype=torch.uint8, generator=gen).view(dtype)
    return torch.randint(0, 0x7F, shape, dtype=torch.uint8, generator=gen).view(dtype)  # positive, subnormals too


def scale_shape(recipe: ScalingType, rows: int, k: int) -> tuple[int, int]:
    return -(-rows // 128) if recipe == SQUARE else rows, -(-k // BLOCK[recipe])


def spread(scale: torch.Tensor, recipe: ScalingType, rows: int, k: int) -> torch.Tensor:
    wide = exact(scale).repeat_interleave(BLOCK[recipe], 1)[:, :k]
    return wide.repeat_interleave(128, 0)[:rows] if recipe == SQUARE else wide


class Case(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor  # as the product takes it: columns lie along memory
    scale_a: torch.Tensor  # a row per row of a
    scale_b: torch.Tensor  # a row per column of b
    left: torch.Tensor  # float64
    right: torch.Tensor


def make(fmt: Format, m: int, n: int, k: int, seed: int = 0, **scales: int) -> Case:
    packed = k // 2 if fmt.value == F4 else k
    seed *= 4
    a, b = random_bytes(fmt.value, m, packed, seed=seed), random_bytes(fmt.value, n, packed, seed=seed + 1)
    sa = random_scale(fmt.scale, *scale_shape(fmt.left, m, k), seed=seed + 2, **scales)
    sb = random_scale(fmt.scale, *scale_shape(fmt.right, n, k), seed=seed + 3, **scales)
    left, right = exact(a) * spread(sa, fmt.left, m, k), exact(b) * spread(sb, fmt.right, n, k)
    return Case(a, b.t(), sa, sb, left, right.t())


def recipes(fmt: Format) -> tuple[list[ScalingType], list[ScalingType]]:
    more = [ScalingType.TensorWise] * (fmt.levels - 1)
    return [fmt.left, *more], [fmt.right, *more]


def column_major(t: torch.Tensor) -> torch.Tensor:
    return t.t().contiguous().t()


def padded(t: torch.Tensor) -> torch.Tensor:
    """(rows / 128, blocks) as CUDA wants it: blocks padded to four, first and side by side."""
    return torch.nn.functional.pad(t, (0, -t.shape[1] % 4)).t()


def given(fmt: Format, scale: torch.Tensor, recipe: ScalingType, swizzle: bool) -> torch.Tensor:
    if recipe == SQUARE:
        return padded(scale) if swizzle else scale.t()
    if recipe == B128:
        return column_major(scale) if swizzle else scale
    return swizzled(scale) if swizzle else scale


def run(fmt: Format, case: Case, swizzle: bool, out: torch.dtype, bias: torch.Tensor | None = None) -> torch.Tensor:
    scales = [given(fmt, case.scale_a, fmt.left, swizzle), given(fmt, case.scale_b, fmt.right, swizzle)]
    left, right = ([t.to("xpu")] for t in scales)
    if fmt.levels == 2:
        left.append(torch.tensor(0.75, device="xpu"))
        right.append(torch.tensor(3.0, device="xpu"))
    layout = [TILES if swizzle and fmt.scale != torch.float32 else NO] + [NO] * (fmt.levels - 1)
    ra, rb = recipes(fmt)
    bias = None if bias is None else bias.to("xpu")
    return scaled_mm(
        case.a.to("xpu"), case.b.to("xpu"), left, ra, right, rb, layout, layout, bias=bias, output_dtype=out
    )


def check(actual: torch.Tensor, case: Case, factor: float = 1.0, bias: torch.Tensor | None = None) -> None:
    """Each operand is exact or rounded to float32, the sums are float32's, the result is rounded once."""
    want, size = case.left @ case.right * factor, case.left.abs() @ case.right.abs() * factor
    if bias is not None:
        want, size = want + bias.double(), size + bias.double().abs()
    step = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, E4M3: 2.0**-4}[actual.dtype]
    got = actual.cpu().double() if actual.dtype != E4M3 else exact(actual.cpu())
    if actual.dtype == E4M3:
        want = want.clamp(-448, 448)
    if actual.dtype == torch.float16:
        want = torch.where(want.abs() >= 65520, want.sign() * math.inf, want)
        got, want = (torch.where(want.isinf(), 0, t) for t in (torch.where(got == want, want, got), want))
    smallest = {torch.float16: 2.0**-25, E4M3: 2.0**-10}.get(actual.dtype, 2.0**-126)
    bound = step * want.abs() + (case.left.shape[1] + 8) * 2.0**-24 * size + smallest
    assert actual.device.type == "xpu"
    assert bool(((got - want).abs() <= bound).all()), ((got - want).abs() / bound).max()


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("swizzle", [False, True], ids=["plain", "swizzled"])
def test_products(fmt: Format, shape: tuple[int, int, int], swizzle: bool) -> None:
    case = make(fmt, *shape)
    factor = 2.25 if fmt.levels == 2 else 1.0
    check(run(fmt, case, swizzle, torch.float32), case, factor)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, E4M3], ids=str)
@pytest.mark.parametrize("bias", [torch.float32, torch.bfloat16, torch.float16, None], ids=str)
def test_outputs_and_bias(fmt: Format, out: torch.dtype, bias: torch.dtype | None) -> None:
    case = make(fmt, 17, 48, 288)
    row = None if bias is None else torch.randn(48, generator=torch.Generator().manual_seed(7)).to(bias)
    check(run(fmt, case, True, out, row), case, 2.25 if fmt.levels == 2 else 1.0, row)


@pytest.mark.parametrize("fmt", FORMATS[:2], ids=lambda f: f.name)
@pytest.mark.parametrize("exponents", [(0, 80), (150, 178)], ids=["small", "large"])
def test_extreme_scales(fmt: Format, exponents: tuple[int, int]) -> None:
    """Scales near the ends of float32: one operand has small ones, the other large ones."""
    case = make(fmt, 9, 32, 128, low=exponents[0], high=exponents[1])
    other = make(fmt, 9, 32, 128, low=254 - exponents[1], high=min(254 - exponents[0], 245))  # 448 * 2^118 is a float
    mixed = Case(case.a, other.b, case.scale_a, other.scale_b, case.left, other.right)
    if exponents[0] == 0:  # what bf16 and a processor's products of it lose below the smallest normal number
        mixed = mixed._replace(left=torch.where(case.left.abs() < 2.0**-126, 0, case.left))
        raw = case.scale_a.view(torch.uint8).clamp_min(10)
        left = exact(case.a) * spread(raw.view(E8M0), fmt.left, 9, 128)
        mixed = mixed._replace(scale_a=raw.view(E8M0), left=left)
    check(run(fmt, mixed, True, torch.float32), mixed)


@pytest.mark.parametrize("fmt", FORMATS[:2], ids=lambda f: f.name)
@pytest.mark.parametrize("rows", [1, 2, 5], ids=str)
def test_scales_that_make_up_for_each_other(fmt: Format, rows: int) -> None:
    """Values times their own scales are no floats; the products are. A processor without the instructions loses them."""
    if not DOTS8:
        pytest.skip("the processor lacks AVX512-BF16 or AVX512-VBMI")
    case = make(fmt, rows, 32, 256, low=250, high=255)
    other = make(fmt, rows, 32, 256, low=0, high=4)
    for mixed in (
        Case(case.a, other.b, case.scale_a, other.scale_b, case.left, other.right),
        Case(other.a, case.b, other.scale_a, case.scale_b, other.left, case.right),
    ):
        check(run(fmt, mixed, True, torch.float32), mixed)


@pytest.mark.parametrize("rows", [1, 2, 4, 17], ids=str)
def test_every_nan_reaches_its_row_or_column(rows: int) -> None:
    for fmt in FORMATS:
        case = make(fmt, rows, 48, 256)
        places = [("scale_a", rows - 1, None), ("scale_b", None, 0 if fmt.right == SQUARE else 37)]
        places += [("a", rows - 1, None), ("b", None, 37)] if fmt.value == E4M3 else []
        for name, row, column in places:
            t = getattr(case, name)
            at = t.t() if name == "b" else t
            raw = at.clone() if at.dtype == torch.float32 else at.view(torch.uint8).clone()
            nan = math.nan if at.dtype == torch.float32 else 255 if at.dtype == E8M0 else 0x7F
            raw[0 if name == "scale_a" and fmt.left == SQUARE else (column if row is None else row), -1] = nan
            raw = raw.view(at.dtype)
            got = run(fmt, case._replace(**{name: raw.t() if name == "b" else raw}), True, torch.float32).cpu().isnan()
            want = torch.zeros_like(got)
            rows_hit = slice(None) if row is None or (name == "scale_a" and fmt.left == SQUARE) else row
            columns_hit = slice(None) if column is None or (name == "scale_b" and fmt.right == SQUARE) else column
            want[rows_hit, columns_hit] = True
            assert torch.equal(got, want), (fmt.name, name)


def test_special_values() -> None:
    for fmt in (FORMATS[0], FORMATS[1], FORMATS[4]):
        case = make(fmt, 4, 32, 128)
        sa = case.scale_a.view(torch.uint8).clone() if fmt.scale == E8M0 else case.scale_a.clone()
        sa[1, 0] = 255 if fmt.scale == E8M0 else math.nan
        got = run(fmt, case._replace(scale_a=sa.view(fmt.scale)), False, torch.float32).cpu()
        assert got[1].isnan().all()
        assert got[[0, 2, 3]].isfinite().all()
    case = make(FORMATS[0], 4, 32, 64)
    a = case.a.view(torch.uint8).clone()
    a[2, 5] = 0x7F
    got = run(FORMATS[0], case._replace(a=a.view(E4M3)), True, torch.bfloat16).cpu()
    assert got[2].isnan().all()
    assert got[[0, 1, 3]].isfinite().all()


@pytest.mark.parametrize("a_type", FLOAT8, ids=str)
@pytest.mark.parametrize("b_type", FLOAT8, ids=str)
@pytest.mark.parametrize("scale", [E8M0, torch.float32], ids=str)
def test_every_float8_type(a_type: torch.dtype, b_type: torch.dtype, scale: torch.dtype) -> None:
    """_scaled_mm tells the recipe by shapes; each code of the types occurs."""
    recipe = B32 if scale == E8M0 else B128
    a, b = random_bytes(a_type, 16, 256, seed=0), random_bytes(b_type, 32, 256, seed=1)
    sa, sb = (
        random_scale(scale, 16, 256 // BLOCK[recipe], seed=2),
        random_scale(scale, 32, 256 // BLOCK[recipe], seed=3),
    )
    case = Case(a, b.t(), sa, sb, exact(a) * spread(sa, recipe, 16, 256), (exact(b) * spread(sb, recipe, 32, 256)).t())
    plain = torch._scaled_mm(*(t.to("xpu") for t in (a, b.t(), sa, sb.t())), out_dtype=torch.float32)
    check(plain, case)
    if scale == E8M0:
        tiled = torch._scaled_mm(
            *(t.to("xpu") for t in (a, b.t(), swizzled(sa), swizzled(sb))), out_dtype=torch.float32
        )
        assert torch.equal(tiled.cpu(), plain.cpu())


@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.levels == 1], ids=lambda f: f.name)
def test_first_form(fmt: Format) -> None:
    case = make(fmt, 128, 256, 512)
    moved = [t.to("xpu") for t in (case.a, case.b, case.scale_a, case.scale_b.t())]
    got = torch._scaled_mm(*moved, out_dtype=torch.float32)
    check(got, case)
    if fmt.scale == torch.float32:
        sa, sb = (column_major(t) for t in moved[2:])
    else:
        sa, sb = (swizzled(t).to("xpu") for t in (case.scale_a, case.scale_b))
    assert torch.equal(torch._scaled_mm(*moved[:2], sa, sb, out_dtype=torch.float32).cpu(), got.cpu())
    out = torch.empty(0, device="xpu")
    assert torch._scaled_mm(*moved, out_dtype=torch.float32, out=out) is out
    assert torch.equal(out.cpu(), got.cpu())


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_layouts_of_the_operands(fmt: Format) -> None:
    """Rows apart; a right operand that lies row by row, which no kernel of few rows takes."""
    case = make(fmt, 6, 32, 128)
    loose = torch.zeros(6, case.a.shape[1] + 16, dtype=torch.uint8)
    loose[:, : case.a.shape[1]] = case.a.view(torch.uint8)
    other = case._replace(a=loose.view(fmt.value)[:, : case.a.shape[1]], b=column_major(case.b.t()).t())
    check(run(fmt, other, False, torch.float32), case, 2.25 if fmt.levels == 2 else 1.0)


# ---- a product per group; scales are swizzled, tiles of a matrix that is cut are those of each group


@pytest.mark.parametrize("fmt", FORMATS[:4], ids=lambda f: f.name)
@pytest.mark.parametrize("form", ["2d-3d", "3d-3d", "2d-2d", "3d-2d"])
def test_groups(fmt: Format, form: str) -> None:
    left, right = form.split("-")
    if form == "2d-2d" and fmt.value == F4:
        with pytest.raises(NotImplementedError, match="no groups of two matrices of float4"):
            a = torch.zeros(16, 64, dtype=torch.uint8, device="xpu").view(F4)
            scale, one = torch.zeros(128, 4, dtype=torch.uint8, device="xpu"), torch.ones(1, device="xpu")
            scales, recipe = [scale.view(fmt.scale), one][: fmt.levels], [r.value for r in recipes(fmt)[0]]
            offs = torch.tensor([32, 64], dtype=torch.int32, device="xpu")
            torch._scaled_grouped_mm_v2(a, a.t(), scales, recipe, [1], scales, recipe, [1], offs)
        return
    sizes = [48, 0, 96] if form == "2d-3d" else [32, 64, 32]
    cases = [
        make(
            fmt,
            size if form == "2d-3d" else 16,
            size if form == "3d-2d" else 32,
            size if form == "2d-2d" else 96,
            seed=g,
        )
        for g, size in enumerate(sizes)
    ]

    def blocks(of: Any) -> torch.Tensor:
        """The groups' tiles, one after the other."""
        return torch.cat([swizzled(of(c)).view(torch.uint8) for c in cases]).view(fmt.scale)

    a = torch.stack([c.a.view(torch.uint8) for c in cases]) if left == "3d" else None
    b = torch.stack([c.b.t().view(torch.uint8) for c in cases]) if right == "3d" else None
    if a is None:
        a = torch.cat([c.a.view(torch.uint8) for c in cases], 1 if right == "2d" else 0)
    if b is None:
        b = torch.cat([c.b.t().view(torch.uint8) for c in cases], 1 if left == "2d" else 0)
    scales = [blocks(lambda c: c.scale_a), blocks(lambda c: c.scale_b)]
    shapes = [(3, -1) if left == "3d" else (128, -1), (3, -1) if right == "3d" else (128, -1)]
    given = [[s.view(shape).to("xpu")] for s, shape in zip(scales, shapes, strict=True)]
    factors = torch.tensor([0.5, 3.0, 2.0]) if fmt.levels == 2 else torch.ones(3)
    if fmt.levels == 2:
        given[0].append(factors.to("xpu"))
        given[1].append(torch.ones(1, device="xpu"))
    offs = None if form == "3d-3d" else torch.tensor(sizes).cumsum(0).int().to("xpu")
    ra, rb = ([r.value for r in recipe] for recipe in recipes(fmt))
    swizzle = [1] + [0] * (fmt.levels - 1)
    moved = [a.view(fmt.value).to("xpu"), b.view(fmt.value).to("xpu").mT]
    got = torch._scaled_grouped_mm_v2(*moved, given[0], ra, swizzle, given[1], rb, swizzle, offs)
    assert got.dtype == torch.bfloat16
    begin = 0
    for g, (case, size) in enumerate(zip(cases, sizes, strict=True)):
        part = (
            got[begin : begin + size]
            if form == "2d-3d"
            else got[:, begin : begin + size]
            if form == "3d-2d"
            else got[g]
        )
        begin += size
        check(part, case, factors[g].item())
    if fmt == FORMATS[0]:
        first = torch._scaled_grouped_mm(*moved, given[0][0], given[1][0], offs, out_dtype=torch.bfloat16)
        assert torch.equal(first.cpu(), got.cpu())
        with pytest.raises(ValueError, match="for block-scaled groups scale_b must have"):
            torch._scaled_grouped_mm(*moved, given[0][0], given[1][0][:, :-4].contiguous(), offs)


def test_empty() -> None:
    for fmt in FORMATS:
        case = make(fmt, 16, 32, 128)
        assert run(fmt, case._replace(a=case.a[:0], scale_a=case.scale_a[:0]), False, torch.bfloat16).shape == (0, 32)
    fmt = FORMATS[0]
    none = torch.empty(0, dtype=torch.uint8).view(E8M0)
    a, b = torch.empty(4, 0).to(E4M3).to("xpu"), torch.empty(16, 0).to(E4M3).to("xpu").t()
    zero = scaled_mm(a, b, none.view(4, 0).to("xpu"), fmt.left, none.view(16, 0).to("xpu"), fmt.right)
    assert torch.equal(zero.float().cpu(), torch.zeros(4, 16))


@pytest.mark.parametrize("swizzle", [False, True], ids=["plain", "swizzled"])
@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_compiled(fmt: Format, swizzle: bool) -> None:
    """torch's fake function wants CUDA's layouts, and Inductor's own lowering drops recipes and second scales."""
    case = make(fmt, 1, 32, 256)
    left, right = (
        [given(fmt, scale, recipe, swizzle).to("xpu")]
        for scale, recipe in ((case.scale_a, fmt.left), (case.scale_b, fmt.right))
    )
    if fmt.levels == 2:
        left.append(torch.tensor(0.75, device="xpu"))
        right.append(torch.tensor(3.0, device="xpu"))
    layout = [TILES if swizzle and fmt.scale != torch.float32 else NO] + [NO] * (fmt.levels - 1)
    ra, rb = recipes(fmt)

    def f(a: torch.Tensor, b: torch.Tensor, left: list[torch.Tensor], right: list[torch.Tensor]) -> torch.Tensor:
        return scaled_mm(a, b, left, ra, right, rb, layout, layout, output_dtype=torch.float32) * 2

    args = (case.a.to("xpu"), case.b.to("xpu"), left, right)
    got = torch.compile(f)(*args)
    assert torch.equal(got, f(*args))
    check(got / 2, case, 0.75 * 3 if fmt.levels == 2 else 1.0)


@pytest.mark.parametrize("dtype", [E8M0, F4], ids=["exponents", "nibbles"])
def test_codes_made_by_a_compiled_graph(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.int() + 1).to(torch.uint8).view(dtype)

    x = torch.arange(256, dtype=torch.uint8, device="xpu").view(2, 128)
    assert torch.equal(torch.compile(f)(x).view(torch.uint8), f(x).view(torch.uint8))


# ---- errors


def test_errors() -> None:
    case = make(FORMATS[0], 32, 64, 128)
    a, b = case.a.to("xpu"), case.b.to("xpu")
    sa, sb = (swizzled(t).to("xpu") for t in (case.scale_a, case.scale_b))

    def call(**k: Any) -> torch.Tensor:
        given: dict[str, Any] = {
            "a": a, "b": b, "sa": [sa], "ra": [B32], "sb": [sb], "rb": [B32], "wa": [TILES], "wb": [TILES], "out": None,
        } | k  # fmt: skip
        return torch._scaled_mm_v2(
            given["a"], given["b"], given["sa"], [r.value for r in given["ra"]], [w.value for w in given["wa"]],
            given["sb"], [r.value for r in given["rb"]], [w.value for w in given["wb"]], None, given["out"], [],
            k.get("fast", False),
        )  # fmt: skip

    assert call(out=torch.bfloat16).dtype == torch.bfloat16
    for change, text in (
        ({"ra": [B16]}, "Invalid scaling configuration"),
        ({"ra": [B128], "rb": [B128]}, "Invalid scaling configuration"),
        ({"sa": [sa, sa]}, "Invalid scaling configuration"),
        ({"a": a.view(torch.float8_e5m2)}, "Invalid scaling configuration"),
        ({"sa": [sa.view(E4M3)]}, "Invalid scaling configuration"),
        ({"sa": [sa[:-1]]}, "For Blockwise scaling scale_a should have 512 elements, got: 511"),
        ({"sb": [sb.view(32, 16).t()]}, "both scales should be contiguous"),
        ({"sb": [sb], "wb": [NO]}, "scale_b must have shape 64 x 4"),
        ({"wa": [TILES, TILES]}, "swizzle_a must have 1 value, got 2"),
        ({"out": torch.int32}, "Expected an output of a floating type"),
        ({"b": b[:, :-1]}, r"mat2 shape \(128x63\) must be divisible by 16"),
        ({"a": a[:, :40], "b": b[:40]}, "trailing dimension of mat1 to be divisible by 16"),
        ({"sa": []}, "need a scale"),
    ):
        with pytest.raises(ValueError, match=text):
            call(**{"out": torch.bfloat16} | change)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        call(a=a[:, :64])
    square = make(FORMATS[4], 32, 64, 128)
    x, y = square.a.to("xpu"), square.b.to("xpu")
    left, right = square.scale_a.to("xpu"), padded(square.scale_b).to("xpu")
    for scales, text in (
        ((left[:5], right), "scale_a must have shape 32 x 1"),
        ((left, right[:3]), "scale_b must have shape 4 x 1 Float elements"),
        ((left.half(), right), "Invalid scaling configuration"),
    ):
        with pytest.raises(ValueError, match=text):
            scaled_mm(x, y, scales[0], B128, scales[1], SQUARE)
    four = make(FORMATS[3], 16, 32, 64)
    args = [t.to("xpu") for t in (four.a, four.b, swizzled(four.scale_a), swizzled(four.scale_b))]
    with pytest.raises(ValueError, match="use_fast_accum"):
        torch._scaled_mm(*args, out_dtype=torch.bfloat16, use_fast_accum=True)
    two = torch.ones(2, device="xpu")
    with pytest.raises(ValueError, match="global scales must have 1 Float element"):
        scaled_mm(
            *args[:2], [args[2], two], [B16, ScalingType.TensorWise], [args[3], two], [B16, ScalingType.TensorWise],
            [TILES, NO], [TILES, NO],
        )  # fmt: skip
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        torch._scaled_mm(args[0], args[1], args[2][1:], args[3], out_dtype=torch.bfloat16)


# ---- conversions: every code, and every value that rounds otherwise than its neighbour


@pytest.mark.parametrize("small", [*FLOAT8, E8M0], ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_every_code_becomes_its_value(small: torch.dtype, wide: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(small)
    got, want = codes.to("xpu").to(wide).cpu(), codes.to(wide)
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    if wide in (torch.float32, torch.float64):
        torch.testing.assert_close(got.double(), exact(codes), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("small", [*FLOAT8, E8M0], ids=str)
@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_every_value_rounds_as_on_the_cpu(small: torch.dtype, wide: torch.dtype) -> None:
    if wide.itemsize == 2:
        values = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(wide)
    else:  # all upper halves of a float, with lower halves on both sides of a tie
        upper = torch.arange(-(2**15), 2**15, dtype=torch.int32) << 16
        values = torch.cat([upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).view(torch.float32).to(wide)
    assert torch.equal(values.to("xpu").to(small).cpu().view(torch.uint8), values.to(small).view(torch.uint8))


def test_float4_is_moved_and_never_converted() -> None:
    x = torch.arange(256, dtype=torch.uint8).view(F4).view(16, 16)
    y = x.to("xpu")
    for f in (
        lambda t: t, lambda t: t.clone(), lambda t: t.t().contiguous(), lambda t: t[:, ::2].clone(),
        lambda t: torch.cat([t, t]), lambda t: torch.zeros_like(t), lambda t: torch.empty_like(t).copy_(t),
    ):  # fmt: skip
        assert torch.equal(f(y).cpu().view(torch.uint8), f(x).view(torch.uint8))
    for g in (lambda: y.to(torch.float32), lambda: torch.ones(3, device="xpu").to(F4)):
        with pytest.raises(NotImplementedError, match='"copy_" not implemented'):
            g()
