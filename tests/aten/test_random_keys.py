"""Random numbers of a key (torch.func._random), against Philox 4x32-10 in whole numbers of Python.

Source: ATen/cuda/StatelessPhilox4x32.cuh and at::transformation::uniform_real of torch, whose CPU has no kernel before 2.14.
"""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch.func import _random

import xpu_ops

aten = torch.ops.aten
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
KEYS = [(42, 0), (2**64 - 1, 2**64 - 2), (2**33 + 7, 2**40 + 3)]
DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}


@pytest.fixture(autouse=True)
def no_fallback():
    with xpu_ops.fallback.forbid():
        yield


def philox(seed: int, offset: int) -> list[int]:
    """The four words of a counter."""
    low = 2**32 - 1
    c, k = [offset & low, offset >> 32 & low, 0, 0], [seed & low, seed >> 32]
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c


def words(key: tuple[int, int], n: int) -> list[list[int]]:
    return [philox(key[0], key[1] + i & 2**64 - 1) for i in range(n)]


def uniform(key: tuple[int, int], n: int, dtype: torch.dtype, low: float, high: float) -> torch.Tensor:
    digits, each = DIGITS[dtype], 2 if dtype == torch.float64 else 4
    drawn = [w for r in words(key, -(-n // each)) for w in ([r[0] << 32 | r[1], r[2] << 32 | r[3]] if each == 2 else r)]
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    x = torch.tensor([(w & 2**digits - 1) * 2.0**-digits for w in drawn[:n]], dtype=wide)
    a, b = torch.tensor(low, dtype=dtype), torch.tensor(high, dtype=dtype)
    return (x * (b - a).to(wide) + a.to(wide)).to(dtype)


def normal(key: tuple[int, int], n: int, double: bool) -> torch.Tensor:
    """In float64, from the words as they are."""
    out: list[float] = []
    for r in words(key, -(-n // (2 if double else 4))):
        pairs = (
            [(r[0] * 2**32 + r[1] + 0.5, r[2] * 2**32 + r[3] + 0.5)]
            if double
            else [(r[0] + 0.5, r[1] + 0.5), (r[2] + 0.5, r[3] + 0.5)]
        )
        for u, v in pairs:
            radius = math.sqrt(-2 * math.log(u * (2.0**-64 if double else 2.0**-32)))
            angle = 2 * math.pi * v * (2.0**-64 if double else 2.0**-32)
            out += [radius * math.cos(angle), radius * math.sin(angle)]
    return torch.tensor(out[:n], dtype=torch.float64)


def key_of(*keys: tuple[int, int]) -> torch.Tensor:
    rows = torch.tensor([[k[0], k[1]] for k in keys], dtype=torch.uint64).to("xpu")
    return rows[0] if len(keys) == 1 else rows


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 1027])
def test_uniform(dtype: torch.dtype, n: int) -> None:
    for key in KEYS:
        for low, high in ((0.0, 1.0), (-2.5, 7.3)):
            got = _random.uniform(key_of(key), n, low=low, high=high, dtype=dtype)
            assert torch.equal(got.cpu(), uniform(key, n, dtype, low, high))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 1027])
def test_normal(dtype: torch.dtype, n: int) -> None:
    for key in KEYS:
        got = _random.normal(key_of(key), n, mean=1.5, std=2.0, dtype=dtype).cpu()
        want = normal(key, n, dtype == torch.float64) * 2 + 1.5
        eps = torch.finfo(dtype).eps
        # Angles are rounded to the type that is computed in, before their sine.
        torch.testing.assert_close(got.double(), want, rtol=eps, atol=1e-14 if dtype == torch.float64 else 8e-6)


def test_keys() -> None:
    for key in KEYS:
        split = _random.split(key_of(key), 5).cpu()
        want = [[w[0] | w[1] << 32, w[2] | w[3] << 32] for w in words(key, 5)]
        assert split.tolist() == want and split.dtype == torch.uint64
        assert _random.fold_in(key_of(key), 3).tolist() == want[3]
    batch = key_of(*KEYS).unflatten(0, (3, 1)).expand(3, 2, 2)
    split = _random.split(batch, 4)
    assert split.shape == (4, 3, 2, 2)
    for i, key in enumerate(KEYS):
        assert torch.equal(split[:, i, 1].cpu(), _random.split(key_of(key), 4).cpu())
    folded = _random.fold_in(batch, 2)
    assert torch.equal(folded.cpu(), split[2].cpu())
    assert torch.equal(_random.fold_in(key_of((7, 3)), -1).cpu(), _random.fold_in(key_of((7, 2)), 0).cpu())
    assert _random.split(key_of(KEYS[0])[None][:0], 3).shape == (3, 0, 2)
    if hasattr(aten._philox_key_fold_in, "Tensor"):
        step = torch.tensor(2, dtype=torch.uint64, device="xpu")
        assert torch.equal(aten._philox_key_fold_in.Tensor(batch, step).cpu(), folded.cpu())


def test_a_key_for_each_part() -> None:
    """Trailing sizes of one are what a key fills; others are broadcast."""
    keys = key_of(*KEYS)
    for size in ((3, 7), (3, 4, 5)):
        got = _random.uniform(keys.view(3, *[1] * (len(size) - 1), 2), size).cpu()
        for i, key in enumerate(KEYS):
            assert torch.equal(got[i].flatten(), uniform(key, math.prod(size[1:]), torch.float32, 0, 1))
    got = _random.normal(keys.view(1, 3, 2), (4, 3)).cpu()
    assert (got == got[:1]).all()
    torch.testing.assert_close(got[0].double(), torch.cat([normal(k, 1, False) for k in KEYS]), rtol=1e-6, atol=8e-6)


def test_layouts() -> None:
    want = uniform(KEYS[0], 24, torch.float32, 0, 1).view(4, 6)
    base = torch.zeros(6, 8, device="xpu")
    out = base.t()[::2]
    assert aten._philox_uniform_(out, key_of(KEYS[0]), 0, 1) is out
    assert torch.equal(out.cpu(), want) and not base[:, 1::2].any()
    assert aten._philox_uniform_(torch.empty(0, device="xpu"), key_of(KEYS[0]), 0, 1).numel() == 0
    assert torch.equal(aten._philox_uniform(torch.zeros(4, 6, device="xpu"), key_of(KEYS[0])).cpu(), want)


@pytest.mark.parametrize(("call", "text"), [
    (lambda k, x: aten._philox_uniform_(x.int(), k), "_philox_uniform_: self must be a floating point tensor, got Int"),
    (lambda k, x: aten._philox_normal_(x, k.int()), "_philox_normal_: key must have dtype uint64, got Int"),
    (lambda k, x: aten._philox_normal_(x, k[:1]), "_philox_normal_: key must have shape (2,) or (*batch, 2), got shape [1]"),
    (lambda k, x: aten._philox_normal_(x, k[None, None]), "_philox_normal_: batched key must have ndim == output ndim + 1"),
    (lambda k, x: aten._philox_normal_(x, k[None].expand(2, 2)), "_philox_normal_: key batch shape [2] is not broadcastable with output shape [3]"),
    (lambda k, x: aten._philox_key_split(k, 0), "_philox_key_split: num_splits must be positive, got 0"),
    (lambda k, x: aten._philox_key_split(k[:1], 2), "_philox_key_split: key must have shape (*batch, 2), got shape [1]"),
    (lambda k, x: aten._philox_key_fold_in(k.int(), 2), "_philox_key_fold_in: key must have dtype uint64, got Int"),
])  # fmt: skip
def test_errors(call, text: str) -> None:
    with pytest.raises(RuntimeError, match=re.escape(text)):
        call(key_of(KEYS[0]), torch.zeros(3, device="xpu"))
