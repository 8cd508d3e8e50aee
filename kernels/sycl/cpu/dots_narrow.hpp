// Products of few rows whose operands are both values of 8 or 4 bits with scales, and of 16-bit rows with weights of
// nibbles, for processors with sixteen registers of 256 bits: nibbles as bytes by vpshufb and their products as whole
// numbers by vpmaddubsw, which no compiler makes of SPIR-V; bytes as halfs, and their products as floats. A module with
// assembly is no GPU's (policy dots_narrow).
#pragma once
#include "kernels/sycl/cpu/block_dots.hpp"

namespace xpu {

// ---- instructions on the bytes of eight 32-bit words

XPU_INLINE uint8v load32(const void* x) { return *static_cast<const uint8u*>(x); }
XPU_INLINE void store32(void* to, uint8v v) { *static_cast<uint8u*>(to) = v; }

// Bytes of a table of sixteen, which both halves hold, by the low four bits of each byte.
XPU_INLINE uint8v look_up16(uint8v table, uint8v index) {
  uint8v out;
  asm("vpshufb %2, %1, %0" : "=x"(out) : "x"(table), "x"(index));
  return out;
}
// The products of two unsigned bytes with two signed ones, added, in 16 bits. Signed ones in memory are read where they
// are, which this function must not have written.
XPU_INLINE short16v dot_bytes(uint8v is_unsigned, uint8v is_signed) {
  short16v out;
  asm("vpmaddubsw %2, %1, %0" : "=x"(out) : "x"(is_unsigned), "x"(is_signed));
  return out;
}
XPU_INLINE short16v dot_bytes(uint8v is_unsigned, const uint8_t* is_signed) {
  short16v out;
  asm("vpmaddubsw (%2), %1, %0" : "=x"(out) : "x"(is_unsigned), "r"(is_signed));
  return out;
}
// Neighbours times these two factors, added.
XPU_INLINE uint8v add_neighbours(short16v x, uint32_t factors = 0x00010001u) {
  uint8v out;
  asm("vpmaddwd %2, %1, %0" : "=x"(out) : "x"(x), "x"(uint8v(factors)));
  return out;
}

// The same place, unknown to the compiler: of inputs that several rows of the weight read it would keep copies, for
// which there are no registers.
XPU_INLINE const uint8_t* unknown(const uint8_t* x) {
  const uint8_t* out;
  asm volatile("" : "=r"(out) : "0"(x));
  return out;
}

// ---- scales

using bytes4u __attribute__((ext_vector_type(4), aligned(1))) = uint8_t;
using shorts8v = int16_t __attribute__((ext_vector_type(8)));
using bytes8v = uint8_t __attribute__((ext_vector_type(8)));
using half8v = _Float16 __attribute__((ext_vector_type(8)));
using float8v = float __attribute__((ext_vector_type(8)));

// Four codes of e8m0 side by side.
XPU_INLINE float4v powers4(const uint8_t* at) {
  using int4v = int32_t __attribute__((ext_vector_type(4)));
  const int4v code = __builtin_convertvector(*reinterpret_cast<const bytes4u*>(at), int4v), bits = code << 23;
  const int4v value = bits > 0x00400000 ? bits : int4v(0x00400000);
  return __builtin_bit_cast(float4v, value | (code == 255));
}
// Eight codes of e4m3, four side by side, as halfs, whose exponent bias is larger by eight.
XPU_INLINE float8v small8(const uint8_t* at, uint32_t step) {
  const uint64_t both = word_at(at) | static_cast<uint64_t>(word_at(at + step)) << 32;
  const shorts8v code = __builtin_convertvector(__builtin_bit_cast(bytes8v, both), shorts8v) << shorts8v(8);
  const shorts8v bits = code >> shorts8v(1) & shorts8v(-0x4001);
  const shorts8v known = bits | ((bits & shorts8v(0x3f80)) == shorts8v(0x3f80));  // all bits: NaN
  return __builtin_convertvector(__builtin_bit_cast(half8v, known), float8v);
}

// ---- chunks

// Doubles of nibbles as bytes, those of the weight plus twelve, as in dots8.hpp: the low nibbles, the high ones, the
// sums that the twelves made too much, the scales. A lane of sums has eight values.
template <class S> struct NarrowNibbles {
  struct Scales { using Scale = S; };
  struct Tables {};
  struct State {};
  static XPU_INLINE float16v finish(float16v sum, const State&) { return sum; }
  static constexpr bool kBlocks = true, kPowers = __is_same(S, f8e8m0fnu);
  static constexpr uint32_t kPerByte = 2, kBytes = 256;
  static constexpr float kUnit = kPowers ? 0.25f : 0x1p14f;
  static XPU_INLINE float16v lanes(const uint8_t* at, uint32_t step) {
    if constexpr (kPowers) {
      const float4v s = powers4(at);
      return __builtin_shufflevector(s, s, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    } else {
      const float8v s = small8(at, step);
      return __builtin_shufflevector(s, s, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    }
  }
  struct Halves { uint8v low[2], high[2]; };
  static XPU_INLINE Halves widen(const uint8_t* from, const Table128& values) {
    const uint8v table = load32(values.word);
    Halves out;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint8v q = load32(from + 32 * h);
      out.low[h] = look_up16(table, q & 0x0f0f0f0fu);
      out.high[h] = look_up16(table, q >> 4 & 0x0f0f0f0fu);
    }
    return out;
  }
  static XPU_INLINE void order(uint8_t* to, const Tables&, const uint8_t* a, const uint8_t* at, uint32_t step) {
    const Halves x = widen(a, kSignedE2m1);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      store32(to + 32 * h, x.low[h]);
      store32(to + 64 + 32 * h, x.high[h]);
      const short16v all = dot_bytes(uint8v(kTwelves), x.low[h]) + dot_bytes(uint8v(kTwelves), x.high[h]);
      store32(to + 128 + 32 * h, uint8v(0u) - add_neighbours(all));
    }
    store64(to + 192, __builtin_bit_cast(uint16v, lanes(at, step)));
  }
  template <uint32_t kSides, uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kSides][kM], State (&)[kSides], const Tables&,
                             const uint8_t* const (&w)[kSides], const uint8_t* const (&at)[kSides], uint32_t step,
                             const uint8_t* a) {
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) {
      const Halves q = widen(w[s], kUnsignedE2m1);
      const float16v scale = lanes(at[s], step);
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) {
        const uint8_t* x = unknown(a + m * kBytes);
        uint8v dots[2];
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
          const short16v all = dot_bytes(q.low[h], x + 32 * h) + dot_bytes(q.high[h], x + 64 + 32 * h);
          dots[h] = load32(x + 128 + 32 * h) + add_neighbours(all);
        }
        const uint16v both =
            __builtin_shufflevector(dots[0], dots[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const float16v value = __builtin_convertvector(__builtin_bit_cast(int16v, both), float16v);
        sums[s][m] += value * floats64(x + 192) * scale;
      }
    }
  }
};

// Of each 32 values the even ones, then the odd ones. Inputs are floats with their scale.
template <class S, bool kPerBlock> struct NarrowBytes {
  struct Scales { using Scale = S; };
  struct Tables {};
  struct State { uint8v codes = 0; };  // 0x80 in the bytes whose value was NaN
  static XPU_INLINE float16v finish(float16v sum, const State& state) { return sum + nans(state.codes); }
  static constexpr bool kBlocks = kPerBlock, kPowers = __is_same(S, f8e8m0fnu);
  static constexpr uint32_t kPerByte = 1, kBytes = 512;
  static constexpr float kUnit = 0x1p8f;
  // Sixteen codes in the upper halves of words, as halfs, whose exponent bias is larger by eight. NaN is looked for
  // beside.
  static XPU_INLINE float16v upper(short16v w) {
    return half_lanes(__builtin_bit_cast(words16v, w >> short16v(1)) & words16v(0xbf80));
  }
  static XPU_INLINE uint8v nan_codes(const uint8_t* from) { return (load32(from) & 0x7f7f7f7fu) + 0x01010101u; }
  static XPU_INLINE float16v nans(uint8v codes) {
    const uint8v bits = (codes & 0x80808080u) != 0u ? uint8v(0x7fc00000u) : uint8v(0u);
    const uint8v none = 0;
    return __builtin_bit_cast(
        float16v, __builtin_shufflevector(bits, none, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }
  static XPU_INLINE void order(uint8_t* to, const Tables&, const uint8_t* a, const uint8_t* at, uint32_t) {
    float scale[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    if constexpr (kPowers) *reinterpret_cast<float4u*>(scale) = powers4(at);
    uint8v codes = 0;
    float* x = reinterpret_cast<float*>(to);
#pragma unroll
    for (uint32_t b = 0; b < 4; ++b) {
      const short16v q = *reinterpret_cast<const short16u*>(a + 32 * b);
      if constexpr (kPerBlock && !kPowers) scale[b] = *reinterpret_cast<const float*>(at);
      codes |= nan_codes(a + 32 * b);
      store16(x + 32 * b, 0x1p8f * upper(q << short16v(8)) * scale[b]);
      store16(x + 32 * b + 16, 0x1p8f * upper(q) * scale[b]);
    }
    store16(x, load16(x) + nans(codes));
  }
  template <uint32_t kSides, uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kSides][kM], State (&states)[kSides], const Tables&,
                             const uint8_t* const (&w)[kSides], const uint8_t* const (&at)[kSides], uint32_t,
                             const uint8_t* a) {
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) {
      uint8v codes = 0;
      float4v powers = 1.0f;
      float16v part[kM];
      if constexpr (kPowers) powers = powers4(at[s]);
#pragma unroll
      for (uint32_t b = 0; b < 4; ++b) {
        const uint8_t* from = unknown(w[s] + 32 * b);
        codes |= nan_codes(from);
        const short16v q = *reinterpret_cast<const short16u*>(from);
        const float16v even = upper(q << short16v(8)), odd = upper(q);
#pragma unroll
        for (uint32_t m = 0; m < kM; ++m) {
          const float* x = reinterpret_cast<const float*>(unknown(a + m * kBytes)) + 32 * b;
          part[m] = kPowers || b == 0 ? even * load16(x) : part[m] + even * load16(x);
          part[m] += odd * load16(x + 16);
          if constexpr (kPowers) sums[s][m] += powers[b] * part[m];
        }
      }
      states[s].codes |= codes;
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) {
        if constexpr (kPerBlock && !kPowers)
          sums[s][m] += *reinterpret_cast<const float*>(at[s]) * part[m];
        else if constexpr (!kPerBlock)
          sums[s][m] += part[m];
      }
    }
  }
};

template <class V> void narrow_dots(const BlockDotsArgs& p) { walk_dots<V>(p); }

// ---- weights of nibbles for 16-bit inputs

// Rows as whole numbers of 15 bits in two bytes, 256 * upper + lower, both signed, and the factor of each chunk. A
// chunk has the lower bytes of the even elements, those of the odd ones, and the upper bytes likewise.
struct alignas(64) ByteInputs {
  static constexpr uint32_t kRows = kWeightVectors, kElements = kWeightInputs;
  static constexpr float kFrom = 0.0f;
  uint8_t a[2 * kWeightInputs];
  float sums[kInputChunks][kMostParts];
  float factors[kInputChunks];
  XPU_INLINE float factor(uint32_t) const { return 1.0f; }
};
// Off by at most 2^-15 of the chunk's largest element. The factor is NaN where an element is not finite.
XPU_INLINE float16v store_int4(ByteInputs& inputs, uint32_t first, const float16v (&v)[8]) {
  const auto [factor, inverse] = whole_factor(v);
  int16v sum = 0;
  uint16v bytes[2][2] = {};  // lower and upper, of even and of odd elements
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    const int16v x = __builtin_bit_cast(int16v, v[j] * inverse + kWholeRound) - 0x4b400000;
    const uint32_t to = 8 * (j / 2);
    sum += x;
    bytes[0][j % 2] |= (__builtin_bit_cast(uint16v, x) & 0xffu) << to;
    bytes[1][j % 2] |= (__builtin_bit_cast(uint16v, x + 128) >> 8 & 0xffu) << to;
  }
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) store64(inputs.a + 2 * first + 64 * i, bytes[i / 2][i % 2]);
  inputs.factors[first / kWeightChunk] = factor;
  return __builtin_convertvector(sum, float16v) * factor;
}
template <uint32_t kM, uint32_t kRows>
XPU_INLINE void chunk_int4(float16v (&part)[kM][kRows], const uint8_t* const (&w)[kRows], const ByteInputs& inputs,
                           uint32_t c) {
  constexpr uint32_t kAhead = 2048;
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    fetch(w[r] + c / 2 + kAhead);
    uint8v low[2], high[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint8v q = load32(w[r] + c / 2 + 32 * h);
      low[h] = q & 0x0f0f0f0fu;
      high[h] = q >> 4 & 0x0f0f0f0fu;
    }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) {
      const uint32_t first = m * inputs_of<ByteInputs>(kM) + c;
      const uint8_t* x = inputs.a + 2 * first;
      uint8v sum[2];
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        const short16v lower = dot_bytes(low[h], x + 32 * h) + dot_bytes(high[h], x + 64 + 32 * h);
        const short16v upper = dot_bytes(low[h], x + 128 + 32 * h) + dot_bytes(high[h], x + 192 + 32 * h);
        sum[h] = add_neighbours(lower, 0x00010001u) + add_neighbours(upper, 0x01000100u);
      }
      const uint16v both =
          __builtin_shufflevector(sum[0], sum[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      part[m][r] =
          __builtin_convertvector(__builtin_bit_cast(int16v, both), float16v) * inputs.factors[first / kWeightChunk];
    }
  }
}
template <class T> void narrow_int4(const WeightArgs& p) { weight_int4<T, ByteInputs>(p); }
template <class T> void narrow_int4_zeros(const WeightArgs& p) { weight_int4_zeros<T, ByteInputs>(p); }

}  // namespace xpu
