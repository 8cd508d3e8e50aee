// Products of few rows of bf16 by vdpbf16ps, which adds two products of bf16 to a float and which no compiler makes of
// SPIR-V. For a processor that has it (policy dot16): a module with assembly is no GPU's.
#pragma once
#include "kernels/sycl/products/lowprecision.hpp"
#include "kernels/sycl/products/matmul.hpp"

namespace xpu {

// Adds the products of two neighbours to each lane. The sum comes first among the operands: the tie of a last one to
// the result is lost on the way through SPIR-V.
XPU_INLINE float16v dot16(float16v sum, uint16v a, uint16v b) {
  float16v out;
  asm("vdpbf16ps %3, %2, %0" : "=v"(out) : "0"(sum), "v"(a), "v"(b));
  return out;
}
// Asks for what a stream will read. Where there is much to compute per line, the processor's own reading ahead falls
// behind; it starts from the second cache, which prefetchnta passes by. The address may lie past the end.
constexpr uint32_t kAhead = 2048;
XPU_INLINE void read_ahead(const void* p) {
  asm volatile("prefetcht0 (%0)" ::"r"(static_cast<const uint8_t*>(p) + kAhead));
}

// How matmul_dot multiplies: in pairs.
struct Pairs {
  static constexpr uint32_t kRows = xpu_ops::kPairRows, kStep = 32;
  static XPU_INLINE uint16v load(const bf16* x) { return *reinterpret_cast<const uint16u*>(x); }
  static XPU_INLINE float16v add(float16v sum, uint16v x, uint16v w) { return dot16(sum, x, w); }
  static XPU_INLINE void ahead(const void* p) { read_ahead(p); }
};

// Rows as pairs of bf16: those that the halves of a 32-bit word of nibbles meet.
struct alignas(64) PairInputs {
  static constexpr uint32_t kRows = kWeightVectors, kElements = 2 * kWeightInputs;
  static constexpr float kFrom = 128.0f;  // of which a nibble is the last bits in bf16
  uint32_t a[kElements / 2];
  float sums[2 * kInputChunks][kMostParts];
  XPU_INLINE float factor(uint32_t) const { return 1.0f; }
};
XPU_INLINE float16v store_int4(PairInputs& inputs, uint32_t first, const float16v (&v)[8]) {
  float16v sum = 0;
#pragma unroll
  for (uint32_t j = 0; j < 4; ++j) {
    sum += v[j] + v[j + 4];
    const uint16v x = __builtin_bit_cast(uint16v, v[j]), y = __builtin_bit_cast(uint16v, v[j + 4]);
    *reinterpret_cast<uint16v*>(inputs.a + first / 2 + 16 * j) = x >> 16 | (y & 0xffff0000u);
  }
  return sum;
}
template <uint32_t kM, uint32_t kRows>
XPU_INLINE void chunk_int4(float16v (&part)[kM][kRows], const uint8_t* const (&w)[kRows], const PairInputs& inputs,
                           uint32_t c) {
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) read_ahead(w[r] + c / 2);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    const uint16v q = *reinterpret_cast<const uint16u*>(w[r] + c / 2);
    uint16v value[4];
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) value[j] = (q >> (4 * j) & 0x000f000fu) | 0x43004300u;
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) {
      const uint32_t* x = inputs.a + (m * inputs_of<PairInputs>(kM) + c) / 2;
      part[m][r] = 0;
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j)
        part[m][r] = dot16(part[m][r], value[j], *reinterpret_cast<const uint16v*>(x + 16 * j));
    }
  }
}

// Two vectors of whole numbers that bf16 holds, as its bits: those of `low` in the lower lanes.
XPU_INLINE uint16v pairs_of(float16v low, float16v high) {
  uint16v out;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(out) : "v"(low), "v"(high));
  return out;
}
XPU_INLINE void copy_int8(PairInputs& inputs, uint32_t first, const bf16* a, uint32_t count) {
  for (uint32_t i = 0; i < count; i += 16)
    *reinterpret_cast<ushort16u*>(inputs.a + (first + i) / 2) = *reinterpret_cast<const ushort16u*>(a + i);
}
// Rows of bytes as bf16 in registers, for kM rows of a. The processor reads ahead by itself.
template <uint32_t kM>
__attribute__((noinline)) void sets_int8(float* const* out, const PairInputs* inputs, const int8_t* const* w,
                                         size_t w_row, uint32_t count) {
  const auto a = [&](uint32_t m, uint32_t i)
                     __attribute__((always_inline)) { return inputs->a + (m * inputs_of<PairInputs>(kM) + i) / 2; };
  for (uint32_t row = 0; row < kWeightRows; ++row) {
    float16v sums[kM][kWeightSides] = {};
    const int8_t* line[kWeightSides];
#pragma unroll
    for (uint32_t s = 0; s < kWeightSides; ++s) line[s] = w[s] + row * w_row;
    uint32_t i = 0;
    for (; i + 64 <= count; i += 64) {
#pragma unroll
      for (uint32_t s = 0; s < kWeightSides; ++s)
#pragma unroll
        for (uint32_t h = 0; h < 64; h += 32) {
          const int8_t* at = line[s] + i + h;
          const uint16v q = pairs_of(load16(at), load16(at + 16));
#pragma unroll
          for (uint32_t m = 0; m < kM; ++m)
            sums[m][s] = dot16(sums[m][s], q, *reinterpret_cast<const uint16u*>(a(m, i + h)));
        }
    }
    for (; i < count; i += 16)  // sixteen inputs and as many zeros
#pragma unroll
      for (uint32_t s = 0; s < kWeightSides; ++s) {
        const uint16v q = pairs_of(load16(line[s] + i), float16v(0.0f));
#pragma unroll
        for (uint32_t m = 0; m < kM; ++m) {
          const uint8v x = *reinterpret_cast<const uint8u*>(a(m, i));
          sums[m][s] =
              dot16(sums[m][s], q,
                    __builtin_shufflevector(x, uint8v(0u), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
        }
      }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) add_lane_sums(out, m * kWeightBlocks * kWeightRows + row, sums[m]);
  }
}

template <class T> void weight_int8_pairs(const WeightArgs& p) { weight_int8<T, PairInputs>(p); }
template <class T> void matmul_pairs(const MatmulArgs& p) { matmul_dot<T, Pairs>(p); }
template <class T> void weight_int4_pairs(const WeightArgs& p) { weight_int4<T, PairInputs>(p); }
template <class T> void weight_int4_zeros_pairs(const WeightArgs& p) { weight_int4_zeros<T, PairInputs>(p); }

}  // namespace xpu
