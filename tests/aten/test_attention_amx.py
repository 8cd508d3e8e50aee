"""Attention of bf16 by tiles of AMX: the kernel with its tiles in memory on any processor, the operator where it has them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support import script
from support.modes import AMX, GPU_POLICY, WIDE

from xpu_ops.jit import service

# Stands for AmxTiles of kernels/sycl/cpu/amx.hpp.
SOURCE = r"""
#include "kernels/sycl/cpu/attention_amx.hpp"

namespace xpu {
class PlainTiles {
 public:
  XPU_INLINE void clear() {
    for (uint32_t r = 0; r < 2 * kTileRows; ++r)
      for (uint32_t c = 0; c < 2; ++c) sums_[r][c] = 0.0f;
  }
  XPU_INLINE void load(const float* sums, size_t step) {
    for (uint32_t r = 0; r < 2 * kTileRows; ++r)
      for (uint32_t c = 0; c < 2; ++c) sums_[r][c] = load16(sums + r * (step / 4) + 16 * c);
  }
  XPU_INLINE void store(float* sums, size_t step) {
    for (uint32_t r = 0; r < 2 * kTileRows; ++r)
      for (uint32_t c = 0; c < 2; ++c) store16(sums + r * (step / 4) + 16 * c, sums_[r][c]);
  }
  XPU_INLINE void multiply(const void* rows, size_t step, const void* columns, size_t column_step, size_t apart) {
    for (uint32_t r = 0; r < 2 * kTileRows; ++r)
      for (uint32_t c = 0; c < 2; ++c)
        for (uint32_t k = 0; k < kTileRows; ++k) {
          const char* place = static_cast<const char*>(rows) + r * step;
          const uint32_t pair = reinterpret_cast<const uint32_t*>(place)[k];
          const uint16v column = load_words(static_cast<const char*>(columns) + c * apart + k * column_step);
          sums_[r][c] += __builtin_bit_cast(float, pair << 16) * __builtin_bit_cast(float16v, column << 16);
          sums_[r][c] += __builtin_bit_cast(float, pair & 0xffff0000u) *
                         __builtin_bit_cast(float16v, column & 0xffff0000u);
        }
  }
  static XPU_INLINE float16v exp2(float16v x) { return fast_exp_of<float16v, uint16v>(x * 0.693147181f); }
  static XPU_INLINE uint16v pairs(float16v first, float16v second) {
    return round16(first) >> 16 | (round16(second) & 0xffff0000u);
  }

 private:
  float16v sums_[2 * kTileRows][2];
};

struct Call {
  const void *q, *k, *v;
  void* out;
  float* logsumexp;
  const void* mask;
  unsigned char* scratch;
  uint32_t* values;
  const int64_t* numbers;
};
XPU_INLINE xpu_ops::AttentionAmxArgs arguments(const Call& c) {
  xpu_ops::AttentionAmxArgs p;
  const int64_t* n = c.numbers;
  p.q = c.q, p.k = c.k, p.v = c.v, p.out = c.out, p.logsumexp = c.logsumexp, p.mask = c.mask;
  p.scratch = c.scratch, p.values = c.values;
  for (int i = 0; i < 3; ++i) {
    p.q_stride[i] = n[i], p.k_stride[i] = n[3 + i], p.v_stride[i] = n[6 + i], p.out_stride[i] = n[9 + i];
    p.mask_stride[i] = n[12 + i];
  }
  p.batch = n[15], p.heads = n[16], p.head_step = n[17], p.nq = n[18], p.nk = n[19], p.dim = n[20];
  p.value_dim = n[21], p.causal = n[22], p.slot = n[23], p.blocks = n[24], p.total = n[25], p.key_tiles = n[26];
  p.scale = __builtin_bit_cast(float, uint32_t(n[27]));
  return p;
}
}  // namespace xpu
XPU_KERNEL(1) values(xpu::Call c) { xpu::attention_amx_values<bf16>(xpu::arguments(c)); }
""" + "\n".join(
    f"XPU_KERNEL(1) __attribute__((always_inline)) {mask}(xpu::Call c) "
    f"{{ xpu::attention_amx<bf16, xpu::Mask::{mask}, xpu::PlainTiles>(xpu::arguments(c)); }}"
    for mask in ("none", "boolean", "additive")
)  # fmt: skip

# batch, heads, heads of keys, queries, keys, elements of a key and of a value
SIZES = [
    (1, 2, 2, 32, 64, 64, 64),
    (2, 4, 2, 77, 133, 64, 32),
    (1, 2, 1, 200, 257, 128, 64),
    (1, 1, 1, 300, 300, 32, 96),
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, Callable[..., None]]:
    names = ("values", "none", "boolean", "additive")
    launches = service.load(SOURCE, [service.KernelSpec(name, 1, "p" * 9) for name in names])
    return dict(zip(names, launches, strict=True))


def by_kernels(
    kernels: dict[str, Callable[..., None]], q: Any, k: Any, v: Any, mask: Any, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    (batch, heads, nq, dim), (kv_heads, nk), value_dim = q.shape, k.shape[1:3], v.shape[3]
    out = torch.empty(batch, heads, nq, value_dim, dtype=q.dtype, device="xpu")
    logsumexp = torch.empty(batch, heads, nq, device="xpu")
    blocks, tiles = -(-nq // 32), -(-nk // 32)
    groups = min(batch * heads * blocks, 5)  # several blocks in turn
    slot = (128 + 64 + value_dim + dim // 2) * 128 + 64 * dim
    mask_strides = (0, 0, 0) if mask is None else mask.stride()[:3]
    numbers = [*q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *out.stride()[:3], *mask_strides]
    numbers += [batch, heads, heads // kv_heads, nq, nk, dim, value_dim, causal, slot, blocks, batch * heads * blocks]
    numbers += [tiles, struct.unpack("I", struct.pack("f", dim**-0.5))[0]]
    scratch = torch.empty(groups * slot, dtype=torch.uint8, device="xpu")
    values = torch.empty(batch * kv_heads * tiles * value_dim * 16, dtype=torch.int32, device="xpu")
    arguments = (q, k, v, out, logsumexp, logsumexp if mask is None else mask, scratch, values)
    arguments = (*arguments, torch.tensor(numbers, device="xpu"))
    kernels["values"](batch * kv_heads * tiles, *arguments)
    kernels["none" if mask is None else "boolean" if mask.dtype == torch.bool else "additive"](groups, *arguments)
    return out.cpu(), logsumexp.cpu()


def expected(q: Any, k: Any, v: Any, mask: Any, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """In float64. A query that sees nothing gets zeros."""
    step = q.shape[1] // k.shape[1]
    keys, values = (t.double().repeat_interleave(step, 1) for t in (k, v))
    scores = q.double() @ keys.transpose(-1, -2) * q.shape[3] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[2:], dtype=torch.bool).tril(), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    logsumexp = scores.logsumexp(-1)
    return torch.nan_to_num((scores - logsumexp.unsqueeze(-1)).exp(), nan=0.0) @ values, logsumexp


def operands(sizes: tuple[int, ...]) -> list[torch.Tensor]:
    batch, heads, kv_heads, nq, nk, dim, value_dim = sizes
    shapes = ((batch, nq, heads, dim), (batch, nk, kv_heads, dim), (batch, nk, kv_heads, value_dim))
    gen = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=gen).bfloat16().transpose(1, 2) for shape in shapes]


def masks(sizes: tuple[int, ...], kind: str) -> torch.Tensor | None:
    batch, heads, _, nq, nk = sizes[:5]
    gen = torch.Generator().manual_seed(1)
    if kind == "boolean":
        seen = torch.rand(nq, nk, generator=gen) > 0.3
        seen[3] = False
        return seen.expand(batch, heads, nq, nk)
    if kind == "additive":
        return torch.randn(batch, 1, nq, nk, generator=gen).expand(batch, heads, nq, nk)
    return None


@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "additive"])
@pytest.mark.parametrize("sizes", SIZES)
def test_kernel_with_tiles_in_memory(
    kernels: dict[str, Callable[..., None]], sizes: tuple[int, ...], kind: str
) -> None:
    q, k, v = operands(sizes)
    mask, causal = masks(sizes, kind), kind == "causal"
    there = [t.to("xpu") for t in (q, k, v)]
    out, logsumexp = by_kernels(kernels, *there, None if mask is None else mask.to("xpu"), causal)
    values, sums = expected(q, k, v, mask, causal)
    torch.testing.assert_close(out.double(), values, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(logsumexp.double(), sums, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not AMX or GPU_POLICY or not WIDE, reason="the processor has no tiles, or the policy none for them")
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "additive"])
@pytest.mark.parametrize("sizes", SIZES)
def test_operator(sizes: tuple[int, ...], kind: str) -> None:
    """Between oneDNN's products, which use the same tiles on the same threads."""
    sizes = (16 * sizes[0], *sizes[1:])  # enough blocks for many cores
    q, k, v = operands(sizes)
    mask, causal = masks(sizes, kind), kind == "causal"
    x, y = (torch.randn(256, 256).bfloat16() for _ in range(2))
    before = x.to("xpu") @ y.to("xpu")
    with torch.profiler.profile() as profile:
        there = (t.to("xpu") for t in (q, k, v))
        out = F.scaled_dot_product_attention(
            *there, None if mask is None else mask.to("xpu"), is_causal=causal, enable_gqa=True
        )
    assert torch.equal(x.to("xpu") @ y.to("xpu"), before)
    assert any(e.name.startswith("attention_amx") for e in profile.events())
    torch.testing.assert_close(out.cpu().double(), expected(q, k, v, mask, causal)[0], rtol=1e-2, atol=1e-2)


LOWER = """
import torch
q = torch.randn(8, 8, 64, 64).bfloat16().to("xpu")
with torch.profiler.profile() as profile:
    torch.nn.functional.scaled_dot_product_attention(q, q, q).cpu()
assert not any(e.name.startswith("attention_amx") for e in profile.events())
"""


def test_lower_target_takes_other_kernels() -> None:
    script.out(LOWER, timeout=300, **script.AVX2)
