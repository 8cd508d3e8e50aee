// Products of a few rows with weights that have a scale per block, as decoding makes them: bound by reading the weights
// once. A work-group is one item, as in lowprecision.hpp.
#pragma once
#include "kernels/sycl/products/blockscale.hpp"
#include "kernels/sycl/products/lowprecision.hpp"

namespace xpu {

using xpu_ops::BlockRowsArgs;

// The scales of the lanes of a vector by their codes.
template <class S> XPU_INLINE float16v scale_lanes(uint16v code) {
  if constexpr (__is_same(S, f8e8m0fnu)) {
    uint16v bits = code << 23;
    bits = code == 0 ? uint16v(0x00400000u) : bits;
    bits = code == 255 ? uint16v(0x7fc00000u) : bits;
    return __builtin_bit_cast(float16v, bits);
  } else {
    const uint16v rest = code & 0x7f;
    const float16v x = __builtin_bit_cast(float16v, (rest << 20) + 0x3c000000u), less = x + x - 0x1p-6f;
    const float16v v = less < x ? less : x;  // a subnormal is the difference
    const uint16v bits = __builtin_bit_cast(uint16v, v) | (code & 0x80) << 24;
    return __builtin_bit_cast(float16v, rest == 0x7f ? uint16v(0x7fc00000u) : bits);
  }
}

using bytes8u __attribute__((ext_vector_type(8), aligned(1))) = uint8_t;
using bytes16u __attribute__((ext_vector_type(16), aligned(1))) = uint8_t;
using words16u __attribute__((ext_vector_type(16), aligned(1))) = uint16_t;
using words16v = uint16_t __attribute__((ext_vector_type(16)));

// Bits of halfs as floats.
XPU_INLINE float16v half_lanes(words16v y) { return __builtin_convertvector(__builtin_bit_cast(half16v, y), float16v); }
// Codes of e4m3 as halfs, whose exponent bias is larger by eight: exact, subnormals included. NaN is looked for beside.
XPU_INLINE float16v e4m3_lanes(words16v b) {
  return half_lanes((b << words16v(7) & words16v(0x3f80)) | (b << words16v(8) & words16v(0x8000)));
}

// Sixteen values of a row from column c on.
template <class V> XPU_INLINE float16v values16(const uint8_t* in, uint32_t c) {
  if constexpr (__is_same(V, f4e2m1x2)) {
    const auto b = *reinterpret_cast<const bytes8u*>(in + c / 2);
    const auto twice = __builtin_shufflevector(b, b, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const uint16v n = __builtin_convertvector(twice, uint16v) >> (kCount16 % 2 * 4);
    const float16v x = __builtin_bit_cast(float16v, (n << 22 & 0x01c00000u) + 0x3f800000u);
    const float16v half = 0.5f * x, less = x - 1.0f, v = half < less ? half : less;
    return __builtin_bit_cast(float16v, __builtin_bit_cast(uint16v, v) | (n << 28 & 0x80000000u));
  } else {
    static_assert(__is_same(V, f8e4m3fn));
    const auto b = *reinterpret_cast<const bytes16u*>(in + c);
    const float16v v = 0x1p8f * e4m3_lanes(__builtin_convertvector(b, words16v));
    return (__builtin_convertvector(b, uint16v) & 0x7fu) == 0x7fu ? __builtin_bit_cast(float16v, uint16v(0x7fc00000u))
                                                                  : v;
  }
}
// blockscale_dequantize by work-groups of one item, for blocks that sixteen divides.
template <class T, class V, class S> void blockscale_widen(const BlockScaleArgs& p) {
  const uint32_t group = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0));
  const uint32_t across = (p.k + p.column_each - 1) / p.column_each, first = group / across * p.row_each;
  const uint32_t c0 = group % across * p.column_each, c1 = least(c0 + p.column_each, p.k);
  for (uint32_t row = first; row < first + p.row_each && row < p.rows; ++row) {
    const uint8_t* in = static_cast<const uint8_t*>(p.in) + row * p.in_row;
    T* out = static_cast<T*>(p.out) + static_cast<size_t>(row) * p.k;
    for (uint32_t c = c0; c < c1; c += p.block) {
      const float scale = static_cast<float>(static_cast<const S*>(p.scale)[scale_place(p, row, c / p.block)]);
      const uint32_t end = least(c + p.block, c1);
      for (uint32_t i = c; i < end; i += 16) store16(out + i, values16<V>(in, i) * scale);
    }
  }
}

// How chunks of 128 values of a row of the weight are multiplied. `at` is where their scales begin, `step` the bytes
// from four of them to the next four.

// As halfs, whose exponent bias is larger by fourteen: exact, subnormals included. Nibble j of the 32 words of a chunk:
// the elements 4 l + j.
template <class S> struct E2m1Row {
  static constexpr uint32_t kPerByte = 2;
  static constexpr float kUnit = 0x1p14f;  // what a product lacks
  struct State {};                         // of a row
  static XPU_INLINE void order(float* to, const float* a) {
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const float* x = a + 64 * h;
      const float16v v0 = load16(x), v1 = load16(x + 16), v2 = load16(x + 32), v3 = load16(x + 48);
      const float16v even0 = evens(v0, v1), even1 = evens(v2, v3), odd0 = odds(v0, v1), odd1 = odds(v2, v3);
      store16(to + 64 * h, evens(even0, even1));
      store16(to + 64 * h + 16, evens(odd0, odd1));
      store16(to + 64 * h + 32, odds(even0, even1));
      store16(to + 64 * h + 48, odds(odd0, odd1));
    }
  }
  // Of one half of a chunk: blocks of 16 have four lanes, those of 32 eight.
  static XPU_INLINE float16v scales(const uint8_t* at, uint32_t step, uint32_t h) {
    if constexpr (__is_same(S, f8e8m0fnu)) {
      const uint32_t two = *reinterpret_cast<const uint16_t*>(at + 2 * h);
      return scale_lanes<S>(uint16v(two) >> (kCount16 / 8 * 8) & 0xff);
    } else {
      const uint32_t four = *reinterpret_cast<const uint32_t*>(at + h * step);
      return scale_lanes<S>(uint16v(four) >> (kCount16 / 4 * 8) & 0xff);
    }
  }
  template <int j> static XPU_INLINE words16v halfs(words16v q) {
    constexpr int left = 9 - 4 * j;
    const words16v sign = (j == 3 ? q : q << words16v(12 - 4 * j)) & words16v(0x8000);
    if constexpr (left >= 0)
      return sign | (q << words16v(left) & words16v(0x0e00));
    else
      return sign | (q >> words16v(-left) & words16v(0x0e00));
  }
  template <int j, uint32_t kM>
  static XPU_INLINE void multiply(float16v (&part)[2][kM], words16v q0, words16v q1, const float* a) {
    const float16v low = half_lanes(halfs<j>(q0)), high = half_lanes(halfs<j>(q1));
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) {
      const float* x = a + m * inputs_of<WeightInputs>(kM) + 16 * j;
      part[0][m] = j == 0 ? low * load16(x) : part[0][m] + low * load16(x);
      part[1][m] = j == 0 ? high * load16(x + 64) : part[1][m] + high * load16(x + 64);
    }
  }
  template <uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kM], State&, const uint8_t* w, const uint8_t* at, uint32_t step,
                             const float* a) {
    const words16v q0 = *reinterpret_cast<const words16u*>(w), q1 = *reinterpret_cast<const words16u*>(w + 32);
    float16v part[2][kM];
    multiply<0>(part, q0, q1, a);
    multiply<1>(part, q0, q1, a);
    multiply<2>(part, q0, q1, a);
    multiply<3>(part, q0, q1, a);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const float16v s = scales(at, step, h);
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) sums[m] += s * part[h][m];
    }
  }
  static XPU_INLINE float16v finish(float16v sum, const State&) { return sum; }
};

template <class S> struct E4m3Row {
  static constexpr uint32_t kPerByte = 1;
  static constexpr float kUnit = 0x1p8f;
  struct State { uint16v nan = 0; };  // 0x80 in the bytes whose value was NaN
  static XPU_INLINE void order(float* to, const float* a) {
#pragma unroll
    for (uint32_t i = 0; i < kWeightChunk; i += 16) store16(to + i, load16(a + i));
  }
  template <uint32_t kM>
  static XPU_INLINE void add(float16v (&sums)[kM], State& state, const uint8_t* w, const uint8_t* at, uint32_t,
                             const float* a) {
#pragma unroll
    for (uint32_t h = 0; h < 4; ++h) {  // a quarter has one scale
      const auto sixteen = [](const uint8_t* from) __attribute__((always_inline)) {
        return e4m3_lanes(__builtin_convertvector(*reinterpret_cast<const bytes16u*>(from), words16v));
      };
      const float16v low = sixteen(w + 32 * h), high = sixteen(w + 32 * h + 16);
      float16v s;
      if constexpr (__is_same(S, float))
        s = *reinterpret_cast<const float*>(at);
      else
        s = static_cast<float>(reinterpret_cast<const S*>(at)[h]);
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) {
        const float* x = a + m * inputs_of<WeightInputs>(kM) + 32 * h;
        sums[m] += s * (low * load16(x) + high * load16(x + 16));
      }
    }
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h)
      state.nan |= (*reinterpret_cast<const uint16u*>(w + 64 * h) & 0x7f7f7f7fu) + 0x01010101u;
  }
  static XPU_INLINE float16v finish(float16v sum, const State& state) {
    const uint16v bits = __builtin_bit_cast(uint16v, sum);
    return __builtin_bit_cast(float16v, (state.nan & 0x80808080u) != 0 ? uint16v(0x7fc00000u) : bits);
  }
};

// Sets of sixteen rows of the weight from each rows[side] on, from column `from` on.
template <class V, class S, uint32_t kM>
__attribute__((noinline)) void block_sets(float* const* out, const WeightInputs* inputs, const BlockScaleArgs* p,
                                          const uint32_t* rows, uint32_t from, uint32_t count) {
  constexpr uint32_t kStep = kWeightBlocks * kWeightRows, kSides = kM == 4 ? 2 : kWeightSides;
  const uint32_t step = p->tiles ? 512 : 4, block = p->block;
  for (uint32_t side = 0; side < kWeightSides; side += kSides) {
    for (uint32_t r = 0; r < kWeightRows; ++r) {
      const uint8_t *w[kSides], *scale[kSides];
      uint32_t stride = 0;  // bytes of the scales of a chunk
      float16v sums[kSides][kM] = {};
      typename V::State states[kSides];
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) {
        const uint32_t row = rows[side + s] + r;
        w[s] = static_cast<const uint8_t*>(p->in) + row * p->in_row + from / V::kPerByte;
        scale[s] = static_cast<const uint8_t*>(p->scale) + scale_place(*p, row, from / block) * sizeof(S);
      }
      if constexpr (__is_same(S, float))
        stride = static_cast<uint32_t>(p->scale_block) * sizeof(float);
      else
        stride = kWeightChunk / block / 4 * step;
      for (uint32_t c = 0; c < count; c += kWeightChunk) {
#pragma unroll
        for (uint32_t s = 0; s < kSides; ++s)
          V::add(sums[s], states[s], w[s] + c / V::kPerByte, scale[s] + c / kWeightChunk * stride, step, inputs->a + c);
      }
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) {
        float16v of[kSides];
#pragma unroll
        for (uint32_t s = 0; s < kSides; ++s) of[s] = V::finish(sums[s][m], states[s]);
        add_lane_sums<kSides>(out + side, m * kStep + r, of);
      }
    }
  }
}

template <class V, class S> void blockscale_rows(const BlockRowsArgs& p) {
  weight_rows<WeightInputs>(
      p.weight, 1, [](uint32_t, uint32_t) {},
      [&](WeightInputs& inputs, uint32_t place, uint32_t rows, uint32_t m, uint32_t from, uint32_t count)
          __attribute__((always_inline)) {
            const float* a = input_row<float>(p.weight, m) + from;
            const uint32_t first = place * inputs_of<WeightInputs>(rows);
            for (uint32_t c = 0; c < count; c += kWeightChunk) V::order(inputs.a + first + c, a + c);
          },
      [&](uint32_t rows, const WeightInputs* inputs, uint32_t from, const uint32_t* row, uint32_t count,
          float* const* sums) {
        const BlockScaleArgs scales = p.scales;
        if (rows == 1)
          block_sets<V, S, 1>(sums, inputs, &scales, row, from, count);
        else if (rows == 2)
          block_sets<V, S, 2>(sums, inputs, &scales, row, from, count);
        else
          block_sets<V, S, 4>(sums, inputs, &scales, row, from, count);
      },
      [&](uint32_t m, uint32_t row, float16v v) { store16(result_row<float>(p.weight, m) + row, v * V::kUnit); });
}

}  // namespace xpu
