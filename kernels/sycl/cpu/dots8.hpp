// Products of few rows whose operands are both values of 8 or 4 bits with scales, by instructions that no compiler
// makes of SPIR-V: nibbles as bytes by vpermb and their products as whole numbers by vpdpbusd, bytes as bf16 by
// vpermi2b and their products by vdpbf16ps. For a processor that has them (policy dots8): a module with assembly is no
// GPU's.
#pragma once
#include "kernels/sycl/cpu/block_dots.hpp"
#include "kernels/sycl/cpu/dot16.hpp"

namespace xpu {

// ---- instructions

// Bytes of a table of 64 by the low six bits of each byte, of one of 128 by seven.
XPU_INLINE uint16v look_up(uint16v index, uint16v table) {
  uint16v out;
  asm("vpermb %2, %1, %0" : "=v"(out) : "v"(index), "v"(table));
  return out;
}
XPU_INLINE uint16v look_up(uint16v index, uint16v low, uint16v high) {
  uint16v out;
  asm("vpermi2b %3, %2, %0" : "=v"(out) : "0"(index), "v"(low), "v"(high));
  return out;
}
// Adds the products of four unsigned bytes with four signed ones to each word.
XPU_INLINE uint16v dot8(uint16v sum, uint16v is_unsigned, uint16v is_signed) {
  uint16v out;
  asm("vpdpbusd %3, %2, %0" : "=v"(out) : "0"(sum), "v"(is_unsigned), "v"(is_signed));
  return out;
}
// The bytes of each 128 bits side by side with those of y: the first eight, the last eight.
XPU_INLINE uint16v zip_low(uint16v x, uint16v y) {
  uint16v out;
  asm("vpunpcklbw %2, %1, %0" : "=v"(out) : "v"(x), "v"(y));
  return out;
}
XPU_INLINE uint16v zip_high(uint16v x, uint16v y) {
  uint16v out;
  asm("vpunpckhbw %2, %1, %0" : "=v"(out) : "v"(x), "v"(y));
  return out;
}
// x * 2^e for whole e, rounded once.
XPU_INLINE float16v times_power(float16v x, float16v e) {
  float16v out;
  asm("vscalefps %2, %1, %0" : "=v"(out) : "v"(x), "v"(e));
  return out;
}

// ---- tables

constexpr uint32_t e4m3_in_bf16(uint32_t code) {  // of seven bits
  if (code == 0x7f) return 0x7fc0;
  if (code >= 8) return (code << 4) + (120 << 7);
  uint32_t top = 0;
  for (uint32_t m = code; m > 1; m >>= 1) ++top;
  return code ? (118 + top) << 7 | ((code << 7 >> top) & 0x7f) : 0;
}
constexpr Table128 kE4m3High = table_of([](uint32_t i) { return e4m3_in_bf16(i) >> 8; });
constexpr Table128 kE4m3Low = table_of([](uint32_t i) { return e4m3_in_bf16(i); });

// ---- scales

// The value of a code of e4m3 in each lane, which has it in the upper two bytes and zeros below.
struct E4m3Tables {
  uint16v low0 = load64(kE4m3Low.word), low1 = load64(kE4m3Low.word + 16);
  uint16v high0 = load64(kE4m3High.word), high1 = load64(kE4m3High.word + 16);
  XPU_INLINE float16v value(uint16v code) const {
    const uint16v low = look_up(code, low0, low1), high = look_up(code, high0, high1);
    return __builtin_bit_cast(float16v, (low & 0x00ff0000u) | (high & 0x7f000000u) | (code & 0x80000000u));
  }
};
// Byte l / 2 of eight in the upper bytes of lane l; byte 8 is zero.
constexpr Table128 kSpreadEight = table_of([](uint32_t i) { return i % 4 < 2 ? 8 : i / 8; });

// Exponents of e8m0 as floats, for lanes that have the codes at these bits of a word.
XPU_INLINE float16v exponents(uint32_t codes, uint16v shift) {
  const uint16v code = uint16v(codes) >> shift & 0xffu;
  const float16v e = __builtin_convertvector(__builtin_bit_cast(int16v, code), float16v);
  return code == 255u ? __builtin_bit_cast(float16v, uint16v(0x7fc00000u)) : e;
}

// How sums of products are scaled: kVectors vectors of scales for a chunk of 128 values; add gives sum + x * both
// scales.
struct Powers {  // e8m0
  using Scale = f8e8m0fnu;
  static constexpr uint32_t kVectors = 1;
  struct Tables {};
  // Blocks of 32 have a quarter of the lanes.
  static XPU_INLINE float16v load4(const Tables&, const uint8_t* at, uint32_t) { return load8(at); }
  static XPU_INLINE float16v load8(const uint8_t* at) { return exponents(word_at(at), kCount16 / 4 * 8); }
  // Sums of products of the doubles of e2m1 lack 2^-2.
  static XPU_INLINE float16v input4(float16v e) { return e - 256.0f; }
  static XPU_INLINE float16v input8(float16v e) { return e - 254.0f; }
  static XPU_INLINE float16v add(float16v sum, float16v x, float16v a, float16v w) {
    return sum + times_power(x, a + w);
  }
};
struct Factors {
  static XPU_INLINE float16v input4(float16v s) { return 0.25f * s; }
  static XPU_INLINE float16v input8(float16v s) { return s; }
  static XPU_INLINE float16v add(float16v sum, float16v x, float16v a, float16v w) { return sum + x * a * w; }
};
struct SmallFactors : Factors {  // e4m3 for blocks of sixteen nibbles
  using Scale = f8e4m3fn;
  using Tables = E4m3Tables;
  static XPU_INLINE float16v load4(const Tables& tables, const uint8_t* at, uint32_t step) {
    const uint16v eight = {word_at(at), word_at(at + step), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    return tables.value(look_up(load64(kSpreadEight.word), eight));
  }
};
struct FloatFactors : Factors {  // of float32 for blocks of 128 bytes
  using Scale = float;
  static constexpr uint32_t kVectors = 1;
  static XPU_INLINE float16v load8(const uint8_t* at) { return *reinterpret_cast<const float*>(at); }
};
struct RowFactors {  // of float32 per row, for the results
  using Scale = float;
  static constexpr uint32_t kVectors = 0;
};

// ---- chunks

// Nibbles are whole numbers when doubled. Those of the weight are taken plus twelve, as unsigned bytes; a chunk of
// inputs has the low nibbles, the high ones, what the twelves made too much, and the scales.
template <class How> struct NibbleDots {
  using Scales = How;
  static constexpr bool kBlocks = true;
  static constexpr uint32_t kPerByte = 2, kBytes = 256;
  static constexpr float kUnit = 1.0f;
  struct State {};  // of a row
  static XPU_INLINE float16v finish(float16v sum, const State&) { return sum; }
  struct Tables {
    uint16v values = load64(kUnsignedE2m1.word);
    typename How::Tables scales;
  };
  static XPU_INLINE void order(uint8_t* to, const Tables& tables, const uint8_t* a, const uint8_t* at, uint32_t step) {
    const uint16v q = load64(a), table = load64(kSignedE2m1.word);
    const uint16v low = look_up(q, table), high = look_up(q >> 4, table);
    store64(to, low);
    store64(to + 64, high);
    store64(to + 128, uint16v(0u) - dot8(dot8(uint16v(0u), uint16v(kTwelves), low), uint16v(kTwelves), high));
    store64(to + 192, __builtin_bit_cast(uint16v, How::input4(How::load4(tables.scales, at, step))));
  }
  template <uint32_t kSides, uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kSides][kM], State (&)[kSides], const Tables& tables,
                             const uint8_t* const (&w)[kSides], const uint8_t* const (&at)[kSides], uint32_t step,
                             const uint8_t* a) {
    uint16v low[kSides], high[kSides];
    float16v scale[kSides];
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) {
      const uint16v q = load64(w[s]);
      low[s] = look_up(q, tables.values);
      high[s] = look_up(q >> 4, tables.values);
      scale[s] = How::load4(tables.scales, at[s], step);
    }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) {
      const uint8_t* x = a + m * kBytes;
      const uint16v x0 = load64(x), x1 = load64(x + 64), less = load64(x + 128);
      const float16v factor = floats64(x + 192);
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) {
        const uint16v dots = dot8(dot8(less, low[s], x0), high[s], x1);
        sums[s][m] =
            How::add(sums[s][m], __builtin_convertvector(__builtin_bit_cast(int16v, dots), float16v), factor, scale[s]);
      }
    }
  }
};

// Bytes as bf16 in the order in which zip leaves them, where each quarter of a chunk has a quarter of the lanes. A
// chunk of inputs has four vectors and one of the scales.
template <class How> struct ByteDots {
  using Scales = How;
  static constexpr bool kBlocks = How::kVectors > 0;
  static constexpr uint32_t kPerByte = 1, kBytes = 256 + 64 * How::kVectors;
  static constexpr float kUnit = 1.0f;
  struct State {};  // of a row
  static XPU_INLINE float16v finish(float16v sum, const State&) { return sum; }
  using Tables = E4m3Tables;
  static XPU_INLINE void widen(uint16v (&to)[4], const Tables& t, const uint8_t* from) {
    uint16v q[2] = {load64(from), load64(from + 64)};
    if constexpr (kBlocks) {
      const uint16v x = q[0], y = q[1];
      q[0] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
      q[1] = __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    }
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint16v low = look_up(q[h], t.low0, t.low1);
      const uint16v high = look_up(q[h], t.high0, t.high1) | (q[h] & 0x80808080u);
      to[2 * h] = zip_low(low, high);
      to[2 * h + 1] = zip_high(low, high);
    }
  }
  static XPU_INLINE void order(uint8_t* to, const Tables& tables, const uint8_t* a, const uint8_t* at, uint32_t) {
    uint16v x[4];
    widen(x, tables, a);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) store64(to + 64 * i, x[i]);
    if constexpr (kBlocks) store64(to + 256, __builtin_bit_cast(uint16v, How::input8(How::load8(at))));
  }
  template <uint32_t kSides, uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kSides][kM], State (&)[kSides], const Tables& tables,
                             const uint8_t* const (&w)[kSides], const uint8_t* const (&at)[kSides], uint32_t,
                             const uint8_t* a) {
    uint16v q[kSides][4];
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) widen(q[s], tables, w[s]);
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) {
      const uint8_t* x = a + m * kBytes;
      float16v part[kSides];
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) part[s] = kBlocks ? float16v(0.0f) : sums[s][m];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint16v v = load64(x + 64 * i);
#pragma unroll
        for (uint32_t s = 0; s < kSides; ++s) part[s] = dot16(part[s], q[s][i], v);
      }
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) {
        if constexpr (kBlocks)
          sums[s][m] = How::add(sums[s][m], part[s], floats64(x + 256), How::load8(at[s]));
        else
          sums[s][m] = part[s];
      }
    }
  }
};

template <class V> void block_dots(const BlockDotsArgs& p) { walk_dots<V>(p); }

}  // namespace xpu
