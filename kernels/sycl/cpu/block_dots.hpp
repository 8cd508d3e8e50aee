// Products of few rows whose operands are both values of 8 or 4 bits with scales: how rows are walked. How a chunk is
// multiplied, by which instructions, say the classes V of dots8.hpp and dots_narrow.hpp; kUnit is what their sums lack.
#pragma once
#include "kernels/sycl/products/blockscale_rows.hpp"

namespace xpu {

using xpu_ops::BlockDotsArgs;

// Vectors of bytes are written as those of the 32-bit words that hold them.
XPU_INLINE uint16v load64(const void* x) { return *static_cast<const uint16u*>(x); }
XPU_INLINE uint32_t word_at(const uint8_t* at) {
  using word __attribute__((aligned(1))) = uint32_t;
  return *reinterpret_cast<const word*>(at);
}

struct Table128 { uint32_t word[32]; };
template <class F> constexpr Table128 table_of(F byte) {
  Table128 t{};
  for (uint32_t i = 0; i < 128; ++i) t.word[i / 4] |= static_cast<uint32_t>(byte(i) & 0xff) << i % 4 * 8;
  return t;
}
constexpr int32_t twice_e2m1(uint32_t i) {
  constexpr int32_t of[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  return i & 8 ? -of[i & 7] : of[i & 7];
}
constexpr uint32_t kTwelves = 0x0c0c0c0c;
constexpr Table128 kSignedE2m1 = table_of([](uint32_t i) { return twice_e2m1(i & 15); });
constexpr Table128 kUnsignedE2m1 = table_of([](uint32_t i) { return 12 + twice_e2m1(i & 15); });

// Chunks of rows of a, those of up to four rows side by side: as much of them as the first cache holds beside the
// weight.
constexpr uint32_t kDotsTeam = 4, kDotsBytes = 512;  // bytes of a chunk, at most
struct alignas(64) DotsInputs {
  static constexpr uint32_t kRows = 16, kTeamElements = kWeightInputs / 2;
  uint8_t bytes[kRows / kDotsTeam * kTeamElements / kWeightChunk * kDotsBytes];
};
template <> constexpr uint32_t inputs_of<DotsInputs>(uint32_t rows) {
  return rows == 1 ? kWeightInputs : DotsInputs::kTeamElements / least(rows, kDotsTeam);
}
XPU_INLINE void store64(uint8_t* to, uint16v v) { *reinterpret_cast<uint16v*>(to) = v; }
XPU_INLINE float16v floats64(const uint8_t* x) { return *reinterpret_cast<const float16v*>(x); }

template <class S> XPU_INLINE const uint8_t* scales_at(const BlockScaleArgs& p, uint32_t row, uint32_t column) {
  return static_cast<const uint8_t*>(p.scale) + scale_place(p, row, column / p.block) * sizeof(S);
}
// Bytes from the scales of a chunk to those of the next.
template <class S> XPU_INLINE uint32_t scale_stride(const BlockScaleArgs& p) {
  if constexpr (__is_same(S, float)) return static_cast<uint32_t>(p.scale_block) * sizeof(float);
  return kWeightChunk / p.block / 4 * (p.tiles ? 512 : 4);
}

constexpr int64_t kMostAhead = 4096;
// Asks for a line of the first cache. The address may lie past the end.
XPU_INLINE void fetch(const void* p) { asm volatile("prefetcht0 (%0)" ::"r"(p)); }

// kSides rows of the weight, read `ahead` bytes ahead, whose results are kWeightBlocks sets apart for
// each row of a.
template <class V, uint32_t kM, uint32_t kSides>
XPU_INLINE void dots_rows(float* const* out, uint32_t at, const typename V::Tables& tables,
                          const uint8_t* const* weight, const uint8_t* const* scales, uint32_t step, uint32_t stride,
                          const uint8_t* a, uint32_t count, int64_t ahead) {
  const uint8_t *w[kSides], *scale[kSides];
  float16v sums[kSides][kM] = {};
  typename V::State states[kSides];
#pragma unroll
  for (uint32_t s = 0; s < kSides; ++s) w[s] = weight[s], scale[s] = scales[s];
  for (uint32_t c = 0; c < count; c += kWeightChunk, a += kM * V::kBytes) {
    V::add(sums, states, tables, w, scale, step, a);
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) {
      fetch(w[s] + ahead);
      if constexpr (V::kPerByte == 1) fetch(w[s] + ahead + 64);
      w[s] += kWeightChunk / V::kPerByte, scale[s] += stride;
    }
  }
#pragma unroll
  for (uint32_t m = 0; m < kM; ++m) {
    float16v of[kSides];
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) of[s] = V::finish(sums[s][m], states[s]);
    add_lane_sums<kSides>(out, m * kWeightBlocks * kWeightRows + at, of);
  }
}

// Sets of sixteen rows of the weight from each rows[side] on, from column `from` on, times kM rows of a.
template <class V, uint32_t kM>
XPU_INLINE void dots_team(float* const* out, const uint8_t* a, const BlockScaleArgs* p, const uint32_t* rows,
                          uint32_t from, uint32_t count, uint32_t at) {
  using S = typename V::Scales::Scale;
  constexpr uint32_t kSides = kM == kDotsTeam ? 2 : kWeightSides;
  const uint32_t step = p->tiles ? 512 : 4, stride = V::kBlocks ? scale_stride<S>(*p) : 0;
  // The next row, or of long ones the next part, which leaves the first cache to the inputs.
  const int64_t ahead = count == p->k && p->in_row > kMostAhead ? kMostAhead / 2 : p->in_row;
  const typename V::Tables tables;
  for (uint32_t side = 0; side < kWeightSides; side += kSides)
    for (uint32_t r = 0; r < kWeightRows; ++r) {
      const uint8_t *w[kSides], *scale[kSides];
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) {
        const uint32_t row = rows[side + s] + r;
        w[s] = static_cast<const uint8_t*>(p->in) + row * p->in_row + from / V::kPerByte;
        scale[s] = V::kBlocks ? scales_at<S>(*p, row, from) : w[s];
      }
      dots_rows<V, kM, kSides>(out + side, at + r, tables, w, scale, step, stride, a, count, ahead);
    }
}
// The same times all rows of a. What many of them take together stays in the second cache.
template <class V>
__attribute__((noinline)) void dots_sets(float* const* out, const DotsInputs* inputs, const BlockScaleArgs* p,
                                         const uint32_t* rows, uint32_t from, uint32_t count, uint32_t many) {
  if (many == 1) return dots_team<V, 1>(out, inputs->bytes, p, rows, from, count, 0);
  if (many == 2) return dots_team<V, 2>(out, inputs->bytes, p, rows, from, count, 0);
  for (uint32_t m = 0; m < many; m += kDotsTeam)
    dots_team<V, kDotsTeam>(out, inputs->bytes + m * inputs_of<DotsInputs>(many) / kWeightChunk * V::kBytes, p, rows,
                            from, count, m * kWeightBlocks * kWeightRows);
}

XPU_INLINE void store_result(const BlockDotsArgs& p, uint32_t m, uint32_t row, float16v v) {
  if (p.type == 0)
    store16(result_row<float>(p.weight, m) + row, v);
  else if (p.type == 1)
    store16(result_row<bf16>(p.weight, m) + row, v);
  else
    store16(result_row<half>(p.weight, m) + row, v);
}

template <class V> XPU_INLINE void walk_dots(const BlockDotsArgs& p) {
  using S = typename V::Scales::Scale;
  weight_rows<DotsInputs>(
      p.weight, 1, [](uint32_t, uint32_t) {},
      [&](DotsInputs& inputs, uint32_t place, uint32_t rows, uint32_t m, uint32_t from,
          uint32_t count) __attribute__((always_inline)) {
        const uint8_t* a = static_cast<const uint8_t*>(p.a.in) + m * p.a.in_row + from / V::kPerByte;
        const uint8_t* scale = V::kBlocks ? scales_at<S>(p.a, m, from) : a;
        const uint32_t step = p.a.tiles ? 512 : 4, stride = V::kBlocks ? scale_stride<S>(p.a) : 0;
        const typename V::Tables tables;
        const uint32_t team = least(rows, kDotsTeam), first = place / team * team;
        uint8_t* to = inputs.bytes + (first * inputs_of<DotsInputs>(rows) / kWeightChunk + place - first) * V::kBytes;
        for (uint32_t c = 0; c < count; c += kWeightChunk, to += team * V::kBytes, scale += stride)
          V::order(to, tables, a + c / V::kPerByte, scale, step);
      },
      [&](uint32_t rows, const DotsInputs* inputs, uint32_t from, const uint32_t* row, uint32_t count,
          float* const* sums) {
        const BlockScaleArgs scales = p.w;
        dots_sets<V>(sums, inputs, &scales, row, from, count, rows);
      },
      [&](uint32_t m, uint32_t row, float16v v) {
        if constexpr (!V::kBlocks) {
          const float* scale = static_cast<const float*>(p.w.scale);
          v *= static_cast<const float*>(p.a.scale)[m * p.a.scale_row];
          v *= p.w.scale_row ? load16(scale + row) : float16v(*scale);
        }
        if constexpr (V::kUnit != 1.0f) v *= V::kUnit;
        if (p.factor[0]) v *= *p.factor[0] * *p.factor[1];
        if (p.bias) v += load16(p.bias + row);
        store_result(p, m, row, v);
      });
}

}  // namespace xpu
