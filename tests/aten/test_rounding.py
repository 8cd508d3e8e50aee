"""Rounding to 8 bits with scales (`xpu_ops::_round_rows`, `_round_by`) against torch's own operators on the CPU, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

ops = torch.ops.xpu_ops
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
EIGHT = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.int8]
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def top_of(kind: torch.dtype) -> float:
    return 127.0 if kind == torch.int8 else torch.finfo(kind).max


def held(x: Tensor, kind: torch.dtype) -> Tensor:
    """Rounded to even, held in the range; NaN stays, and is 0 among whole numbers."""
    if kind == torch.int8:
        return x.round().clamp(-128, 127).nan_to_num(0.0).to(kind)
    return x.clamp(-top_of(kind), top_of(kind)).to(kind)


def same(got: Tensor, expected: Tensor) -> None:
    """Equal bits; of NaN any."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    a, b = got.cpu().float(), expected.float()
    assert torch.equal(a.isnan(), b.isnan())
    assert torch.equal(a.nan_to_num(0.0), b.nan_to_num(0.0))
    assert torch.equal(a.nan_to_num(1.0).signbit(), b.nan_to_num(1.0).signbit())


def sample(rows: int, columns: int, dtype: torch.dtype, size: float) -> Tensor:
    x = (torch.randn(rows, columns) * size).to(dtype)
    if columns > 8:
        x[0, 1], x[0, 2] = 0.0, -0.0
    if columns > 32:
        x[-1] = 0.0
        x[0, 5] = INF
        x[rows // 2, 3] = NAN
    return x


@pytest.mark.parametrize("kind", EIGHT, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 17, 17), (5, 96, 32), (7, 100, 50), (4, 4096, 4096), (33, 256, 128), (2, 64, 1)], ids=str
)
def test_scales_that_are_found(shape: tuple[int, int, int], dtype: torch.dtype, kind: torch.dtype) -> None:
    rows, columns, group = shape
    for size in (1e-6, 1.0, 300.0):
        x = sample(rows, columns, dtype, size)
        parts = x.float().view(rows, -1, group)
        most = parts.abs().amax(-1, keepdim=True)
        top = top_of(kind)
        floor = 1.0 / (top * 512.0)
        power = most.clamp(min=1e-10) / top
        mantissa, exponent = torch.frexp(power.clamp(min=1e-10))
        power = torch.where(
            power.isfinite(), torch.ldexp(torch.ones_like(power), exponent - (mantissa == 0.5).int()), power
        )
        bound = torch.tensor([1.25])
        whole = most / top
        for rules, scale in (
            ({"least_scale": floor}, (most / top).clamp(min=floor)),
            ({"bound": bound, "least_scale": floor}, (torch.minimum(most, bound) / top).clamp(min=floor)),
            ({"one": True}, torch.where(most == 0, 1.0, most / top)),
            ({"least_value": 1e-10, "exponents": True}, power),
            ({"inverse": True}, whole),
        ):
            values = parts * torch.where(scale > 0, scale, 1.0).reciprocal() if "inverse" in rules else parts / scale
            expected = held(values, kind).view(rows, columns)
            for device in ("xpu", "cpu"):
                out = torch.empty(rows, columns + 3, dtype=kind, device=device)[:, 1:-2]
                scales = torch.empty(columns // group, rows, device=device).t()
                given = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in rules.items()}
                ops._round_rows(out, scales, x.to(device), group, **given)
                same(scales, scale.squeeze(-1))
                same(out, expected)


@pytest.mark.parametrize("kind", EIGHT, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_scales_that_are_given(dtype: torch.dtype, kind: torch.dtype) -> None:
    for (rows, columns), parts in (
        ((1, 1), (1, 1)), ((6, 96), (1, 1)), ((6, 96), (6, 1)), ((6, 96), (1, 96)), ((6, 96), (2, 3)), ((3, 5000), (1, 5000)),
        ((16, 4096), (1, 1)), ((5, 36), (5, 4)), ((2, 9000), (2, 3)),
    ):  # fmt: skip
        x = sample(rows, columns, dtype, 40.0)
        scale = torch.rand(parts) + 0.05
        spread = scale.repeat_interleave(rows // parts[0], 0).repeat_interleave(columns // parts[1], 1)
        for safe in (False, True):
            if safe:
                spread = torch.where(scale > 0.5, scale, -1.0).repeat_interleave(rows // parts[0], 0)
                scale, spread = torch.where(scale > 0.5, scale, -1.0), spread.repeat_interleave(columns // parts[1], 1)
                spread = torch.where(spread > 0, spread, 1.0)
            expected = held(x.float() * spread.reciprocal(), kind)
            for device in ("xpu", "cpu"):
                out = torch.empty(rows, columns, dtype=kind, device=device)
                ops._round_by(out, x.to(device), scale.to(device), safe)
                same(out, expected)
            ops._round_by(
                out := torch.empty(columns, rows, dtype=kind, device="xpu").t(), x.to("xpu"), scale.to("xpu"), safe
            )
            same(out, expected)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8], ids=str)
def test_every_value_of_sixteen_bits(kind: torch.dtype) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype).view(256, 256)
        out = torch.empty(256, 256, dtype=kind, device="xpu")
        ops._round_by(out, x.to("xpu"), torch.ones(1, 1, device="xpu"))
        same(out, held(x.float(), kind))


def test_empty_and_wrong() -> None:
    x, out, scales = (
        torch.ones(2, 8, device="xpu"),
        torch.zeros(2, 8, dtype=torch.int8, device="xpu"),
        torch.zeros(2, 2, device="xpu"),
    )
    one = torch.ones(1, 1, device="xpu")
    ops._round_rows(out[:0], scales[:0], x[:0], 4)
    ops._round_by(out[:0], x[:0], one)
    for bad, text in (
        (lambda: ops._round_rows(out, scales, x, 3), "groups of 3 do not divide"),
        (lambda: ops._round_rows(out, scales, x, 0), "do not divide"),
        (lambda: ops._round_rows(out, scales[:1], x, 4), "expected 2 times 2 scales"),
        (lambda: ops._round_rows(out[:1], scales, x, 4), "expected an output of shape"),
        (lambda: ops._round_rows(x, scales, x, 4), "expected an output of 8 bits"),
        (lambda: ops._round_rows(out, scales, x, 4, torch.ones(2, device="xpu")), "expected one bound"),
        (lambda: ops._round_by(out, x, torch.ones(3, 1, device="xpu")), "do not divide"),
        (lambda: ops._round_by(out, x[:1], one), "expected an output of shape"),
    ):
        with pytest.raises(RuntimeError, match=text):
            bad()
    before = out._version
    ops._round_rows(out, scales, x, 4)
    assert out._version > before and (out == 127).all()
