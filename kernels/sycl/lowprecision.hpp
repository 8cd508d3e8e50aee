// Products of a few rows with 8-bit and 4-bit weights, as decoding makes them: bound by reading the weights once. A
// work-group is one item that computes in vectors of its own; rows of the weight lie along memory, their values become
// floats in registers. Functions that know no element type are compiled once for all kernels.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/lowprecision_args.hpp"

namespace xpu {

using xpu_ops::kWeightBlocks;
using xpu_ops::kWeightChunk;
using xpu_ops::kWeightGroup;
using xpu_ops::kWeightRows;
using xpu_ops::kWeightTile;
using xpu_ops::WeightArgs;

using char16u = int8_t __attribute__((ext_vector_type(16), aligned(1)));
using uint16u = uint32_t __attribute__((ext_vector_type(16), aligned(1)));
using half16v = _Float16 __attribute__((ext_vector_type(16)));
using half16u = _Float16 __attribute__((ext_vector_type(16), aligned(2)));

XPU_INLINE float16v load16(const half* x) {
  return __builtin_convertvector(*reinterpret_cast<const half16u*>(x), float16v);
}
XPU_INLINE void store16(half* x, float16v v) { *reinterpret_cast<half16u*>(x) = __builtin_convertvector(v, half16v); }
XPU_INLINE float16v load16(const int8_t* x) {
  return __builtin_convertvector(*reinterpret_cast<const char16u*>(x), float16v);
}

constexpr uint32_t kWeightVectors = 4;  // rows of a at a time, at most
constexpr uint32_t kTileChunks = kWeightTile / kWeightChunk, kMostParts = kWeightChunk / kWeightGroup;

// A tile of one row of a in the order in which the kernels meet its elements, and for int4 the sums over the parts of
// each chunk that have one scale.
struct WeightTile {
  float a[kWeightTile];
  float sums[kTileChunks][kMostParts];
};
// Of sixteen rows of the weight: by chunk and part, the scales and what is added to each value. Values count from -16.
struct WeightScales {
  float scale[kTileChunks][kMostParts][kWeightRows], offset[kTileChunks][kMostParts][kWeightRows];
};

// Vector j of a chunk of 128 has the elements 8 l + j, as the nibbles of 32-bit words lie.
template <class T> XPU_INLINE void tile_int4(WeightTile& tile, const T* a, uint32_t count, uint32_t parts) {
  float line[kWeightChunk];
  for (uint32_t c = 0; c < count; c += kWeightChunk) {
    for (uint32_t i = 0; i < kWeightChunk; i += 16) store16(line + i, load16(a + c + i));
    float16v sum = 0;
    for (uint32_t j = 0; j < 8; ++j) {
      float16v v;
#pragma unroll
      for (uint32_t l = 0; l < 16; ++l) v[l] = line[8 * l + j];
      store16(tile.a + c + 16 * j, v);
      sum += v;
    }
    float* to = tile.sums[c / kWeightChunk];
    for (uint32_t q = 0; q < parts; ++q) to[q] = 0;
#pragma unroll
    for (uint32_t l = 0; l < 16; ++l) to[l * parts / 16] += sum[l];
  }
}

// Sixteen values of a chunk as floats 16 + q: the nibble comes to the four highest bits behind the exponent of 16.
template <int j> XPU_INLINE float16v nibble16(uint16v w) {
  constexpr int left = 19 - 4 * j;
  uint16v v;
  if constexpr (left >= 0)
    v = w << static_cast<uint32_t>(left);
  else
    v = w >> static_cast<uint32_t>(-left);
  return __builtin_bit_cast(float16v, (v & 0x00780000u) | 0x41800000u);
}
template <int j, uint32_t kM>
XPU_INLINE void add_nibble(float16v (&part)[kM], uint16v bits, const WeightTile* tiles, uint32_t c) {
  const float16v q = nibble16<j>(bits);
#pragma unroll
  for (uint32_t m = 0; m < kM; ++m) {
    const float16v a = load16(tiles[m].a + c + 16 * j);
    part[m] = j == 0 ? q * a : part[m] + q * a;
  }
}
// The scale of a row for each lane of a vector of the chunk.
template <uint32_t kParts> XPU_INLINE float16v scale16(const float (&s)[kMostParts][kWeightRows], uint32_t row) {
  const float16v a = s[0][row];
  if constexpr (kParts == 1) return a;
  const float16v b = s[1][row];
  if constexpr (kParts == 2)
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31);
  const float16v c = s[2][row], d = s[3][row];
  const float16v low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 20, 21, 22, 23, 8, 9, 10, 11, 12, 13, 14, 15);
  const float16v high = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 28, 29, 30, 31);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31);
}

// Adds the sums of the lanes of some vectors to as many floats.
template <uint32_t kRows> XPU_INLINE void add_lane_sums(float* to, const float16v (&sums)[kRows]) {
#pragma unroll
  for (uint32_t r = 0; r < kRows; r += 4) {
    float4u* four = reinterpret_cast<float4u*>(to + r);
    *four = *four + sum16(sums[r], sums[r + 1], sums[r + 2], sums[r + 3]);
  }
}

// Rows of the weight that are read side by side: as many sums as leave registers for the values.
template <uint32_t kM> inline constexpr uint32_t kSideBySide = kM == 1 ? 8 : 4;

// Sixteen rows of nibbles times kM rows of a over one tile; results of row m are kWeightBlocks sets apart.
template <uint32_t kM, uint32_t kParts>
__attribute__((noinline)) void set_int4(float* out, const WeightTile* tiles, const WeightScales* s, const uint8_t* w,
                                        size_t w_row, uint32_t count) {
  constexpr uint32_t kRows = kSideBySide<kM>, kStep = kWeightBlocks * kWeightRows;
  for (uint32_t side = 0; side < kWeightRows; side += kRows) {
    float16v sums[kM][kRows] = {};
    for (uint32_t c = 0; c < count; c += kWeightChunk) {
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        const uint16v bits = *reinterpret_cast<const uint16u*>(w + (side + r) * w_row + c / 2);
        float16v part[kM];
        add_nibble<0>(part, bits, tiles, c);
        add_nibble<1>(part, bits, tiles, c);
        add_nibble<2>(part, bits, tiles, c);
        add_nibble<3>(part, bits, tiles, c);
        add_nibble<4>(part, bits, tiles, c);
        add_nibble<5>(part, bits, tiles, c);
        add_nibble<6>(part, bits, tiles, c);
        add_nibble<7>(part, bits, tiles, c);
        const float16v scale = scale16<kParts>(s->scale[c / kWeightChunk], side + r);
#pragma unroll
        for (uint32_t m = 0; m < kM; ++m) sums[m][r] += scale * part[m];
      }
    }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) add_lane_sums<kRows>(out + m * kStep + side, sums[m]);
  }
  for (uint32_t m = 0; m < kM; ++m) {
    float16v sum = load16(out + m * kStep);
    for (uint32_t c = 0; c < count / kWeightChunk; ++c)
#pragma unroll
      for (uint32_t q = 0; q < kParts; ++q) sum += tiles[m].sums[c][q] * load16(s->offset[c][q]);
    store16(out + m * kStep, sum);
  }
}
template <uint32_t kM>
XPU_INLINE void set_int4(float* out, const WeightTile* tiles, const WeightScales* s, const uint8_t* w, size_t w_row,
                         uint32_t count, uint32_t parts) {
  if (parts == 1)
    set_int4<kM, 1>(out, tiles, s, w, w_row, count);
  else if (parts == 2)
    set_int4<kM, 2>(out, tiles, s, w, w_row, count);
  else
    set_int4<kM, 4>(out, tiles, s, w, w_row, count);
}

// The same for rows of bytes.
template <uint32_t kM>
__attribute__((noinline)) void set_int8(float* out, const WeightTile* tiles, const int8_t* w, size_t w_row,
                                        uint32_t count) {
  constexpr uint32_t kRows = kSideBySide<kM>, kStep = kWeightBlocks * kWeightRows;
  for (uint32_t side = 0; side < kWeightRows; side += kRows) {
    const int8_t* line = w + side * w_row;
    float16v sums[kM][kRows] = {};
    for (uint32_t i = 0; i < count; i += 16) {
      float16v a[kM];
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) a[m] = load16(tiles[m].a + i);
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        const float16v q = load16(line + r * w_row + i);
#pragma unroll
        for (uint32_t m = 0; m < kM; ++m) sums[m][r] += q * a[m];
      }
    }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) add_lane_sums<kRows>(out + m * kStep + side, sums[m]);
  }
}

// The sets of sixteen rows of this work-group. make(tile, a, count) brings inputs into order, add(rows, tiles, from,
// row, count, sums) multiplies so many rows of a with the set from `row` on, finish(row, sum) gives the results.
template <class T, class Make, class Add, class Finish>
XPU_INLINE void weight_rows(const WeightArgs& p, Make make, Add add, Finish finish) {
  constexpr uint32_t kStep = kWeightBlocks * kWeightRows;
  const uint32_t sets = (p.n + kWeightRows - 1) / kWeightRows;
  const uint32_t begin = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0)) * p.blocks;
  const uint32_t end = begin + p.blocks < sets ? begin + p.blocks : sets;
  const T* a = static_cast<const T*>(p.a);
  T* out = static_cast<T*>(p.out);
  // The last set overlaps the one before where rows are left over.
  const auto row_of = [&](uint32_t set) {
    return (set + 1) * kWeightRows <= p.n ? set * kWeightRows : p.n - kWeightRows;
  };
  for (uint32_t m0 = 0; m0 < p.m; m0 += kWeightVectors) {
    const uint32_t left = p.m - m0, rows = left == 1 ? 1 : left == 2 ? 2 : kWeightVectors;
    float sums[kWeightVectors * kStep];
    for (uint32_t i = 0; i < rows * kStep; i += 16) store16(sums + i, float16v(0.0f));
    for (uint32_t from = 0; from < p.k; from += kWeightTile) {
      WeightTile tiles[kWeightVectors];
      const uint32_t count = p.k - from < kWeightTile ? p.k - from : kWeightTile;
      for (uint32_t m = 0; m < rows; ++m)  // rows past the end repeat the last one
          [[clang::always_inline]]
        make(tiles[m], a + (m0 + (m < left ? m : left - 1)) * p.a_row + from, count);
      for (uint32_t set = begin; set < end; ++set) [[clang::always_inline]]
        add(rows, tiles, from, row_of(set), count, sums + (set - begin) * kWeightRows);
    }
    for (uint32_t set = begin; set < end; ++set)
      for (uint32_t m = 0; m < rows && m < left; ++m) {
        float16v v = load16(sums + m * kStep + (set - begin) * kWeightRows);
        [[clang::always_inline]] v = finish(row_of(set), v);
        store16(out + static_cast<size_t>(m0 + m) * p.n + row_of(set), v);
      }
  }
}

template <class T> void weight_int8(const WeightArgs& p) {
  const int8_t* w = static_cast<const int8_t*>(p.w);
  const T* scale = static_cast<const T*>(p.scale);
  weight_rows<T>(
      p,
      [](WeightTile& tile, const T* a, uint32_t count) {
        for (uint32_t i = 0; i < count; i += 16) store16(tile.a + i, load16(a + i));
      },
      [&](uint32_t rows, const WeightTile* tiles, uint32_t from, uint32_t row, uint32_t count, float* sums) {
        const int8_t* lines = w + static_cast<size_t>(row) * p.k + from;
        if (rows == 1)
          set_int8<1>(sums, tiles, lines, p.k, count);
        else if (rows == 2)
          set_int8<2>(sums, tiles, lines, p.k, count);
        else
          set_int8<4>(sums, tiles, lines, p.k, count);
      },
      [&](uint32_t row, float16v v) { return v * load16(scale + row); });
}

struct ScaleOffset { float16v scale, offset; };

// load(group, row): the scales of sixteen rows, and what is added to values that count from -16.
template <class T, class Load> XPU_INLINE void int4_rows(const WeightArgs& p, Load load) {
  const uint8_t* w = static_cast<const uint8_t*>(p.w);
  const uint32_t parts = p.group < kWeightChunk ? kWeightChunk / p.group : 1, step = kWeightChunk / parts;
  weight_rows<T>(
      p,
      [&](WeightTile& tile, const T* a, uint32_t count) { [[clang::always_inline]] tile_int4(tile, a, count, parts); },
      [&](uint32_t rows, const WeightTile* tiles, uint32_t from, uint32_t row, uint32_t count, float* sums) {
        WeightScales s;
        for (uint32_t c = 0; c < count; c += kWeightChunk)
          for (uint32_t q = 0; q < parts; ++q) {
            ScaleOffset both;
            [[clang::always_inline]] both = load((from + c + q * step) / p.group, row);
            store16(s.scale[c / kWeightChunk][q], both.scale);
            store16(s.offset[c / kWeightChunk][q], both.offset);
          }
        const size_t w_row = p.k / 2;
        const uint8_t* lines = w + row * w_row + from / 2;
        if (rows == 1)
          set_int4<1>(sums, tiles, &s, lines, w_row, count, parts);
        else if (rows == 2)
          set_int4<2>(sums, tiles, &s, lines, w_row, count, parts);
        else
          set_int4<4>(sums, tiles, &s, lines, w_row, count, parts);
      },
      [](uint32_t, float16v v) { return v; });
}

// (q - 8) * scale + zero, which lie side by side.
template <class T> void weight_int4(const WeightArgs& p) {
  const T* scales = static_cast<const T*>(p.scale);
  int4_rows<T>(p, [&](uint32_t group, uint32_t row) -> ScaleOffset {
    const T* at = scales + 2 * (static_cast<size_t>(group) * p.n + row);
    const float16v x = load16(at), y = load16(at + 16);
    const float16v scale = __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const float16v zero = __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return {scale, zero - 24.0f * scale};
  });
}
// (q - zero) * scale
template <class T> void weight_int4_zeros(const WeightArgs& p) {
  const T* scales = static_cast<const T*>(p.scale);
  const int8_t* zeros = static_cast<const int8_t*>(p.zero);
  int4_rows<T>(p, [&](uint32_t group, uint32_t row) -> ScaleOffset {
    const size_t at = static_cast<size_t>(group) * p.n + row;
    const float16v scale = load16(scales + at);
    return {scale, (-16.0f - load16(zeros + at)) * scale};
  });
}

}  // namespace xpu
