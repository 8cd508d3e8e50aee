// Products of a few rows with 8-bit and 4-bit weights, as decoding makes them: bound by reading the weights once. A
// work-group is one item that computes in vectors of its own; rows of the weight lie along memory, their values become
// floats in registers. Functions that know no element type are compiled once for all kernels.
#pragma once
#include "kernels/sycl/cpu/single.hpp"
#include "kernels/sycl/products/lowprecision_args.hpp"

namespace xpu {

using xpu_ops::kWeightBlocks;
using xpu_ops::kWeightChunk;
using xpu_ops::kWeightGroup;
using xpu_ops::kWeightInputs;
using xpu_ops::kWeightRows;
using xpu_ops::kWeightSides;
using xpu_ops::WeightArgs;

using char16u __attribute__((ext_vector_type(16), aligned(1))) = int8_t;
using uint16u __attribute__((ext_vector_type(16), aligned(1))) = uint32_t;
using uint8u __attribute__((ext_vector_type(8), aligned(1))) = uint32_t;
using short16u __attribute__((ext_vector_type(16), aligned(1))) = int16_t;
using short16v = int16_t __attribute__((ext_vector_type(16)));
using int8v = int32_t __attribute__((ext_vector_type(8)));
using int16v = int32_t __attribute__((ext_vector_type(16)));

XPU_INLINE float16v load16(const int8_t* x) {
  return __builtin_convertvector(*reinterpret_cast<const char16u*>(x), float16v);
}

constexpr uint32_t kWeightVectors = 4;  // rows of a at a time, at most
constexpr uint32_t kInputChunks = kWeightInputs / kWeightChunk, kMostParts = kWeightChunk / kWeightGroup;

// Rows of a in the order in which the kernels meet their elements, and for int4 the sums over the parts of each chunk
// that have one scale.
struct alignas(64) WeightInputs {
  static constexpr uint32_t kRows = kWeightVectors, kElements = kWeightInputs;
  static constexpr float kFrom = 16.0f;  // nibbles count from it
  float a[kWeightInputs];
  float sums[kInputChunks][kMostParts];
  XPU_INLINE float factor(uint32_t) const { return 1.0f; }
};
// One row as whole numbers of 16 bits, whose products a processor adds in pairs, and the factor of each chunk.
struct alignas(64) WholeInputs {
  static constexpr uint32_t kRows = 1, kElements = kWeightInputs;
  static constexpr float kFrom = 0.0f;
  int16_t a[kWeightInputs];
  float sums[kInputChunks][kMostParts];
  float factors[kInputChunks];
  int16_t masks[3] = {0x000f, 0x00f0, 0x0f00};  // in memory: of bits that it knows the compiler makes other products
  XPU_INLINE float factor(uint32_t chunk) const { return factors[chunk]; }
};
// Elements from one row to the next where so many share them.
template <class Inputs> constexpr uint32_t inputs_of(uint32_t rows) {
  const uint32_t most = Inputs::kElements / rows / kWeightChunk * kWeightChunk;
  return most < kWeightInputs ? most : kWeightInputs;
}
// The scales of sixteen rows of the weight, by the parts of the chunks. Where a chunk has several, fewer chunks are
// taken at once.
struct alignas(64) WeightScales { float scale[kInputChunks][kWeightRows]; };

// The elements at even places of two vectors, and those at odd ones.
XPU_INLINE float16v evens(float16v x, float16v y) {
  return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
XPU_INLINE float16v odds(float16v x, float16v y) {
  return __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
// Vector j of a chunk of 128 has the elements 8 l + j, as the nibbles of 32-bit words lie.
template <class T> XPU_INLINE void load_int4(float16v (&v)[8], const T* a) {
  float16v half[2][4], quarter[4][2];  // by the last bit of the place, by the last two
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const float16v x = load16(a + 32 * i), y = load16(a + 32 * i + 16);
    half[0][i] = evens(x, y);
    half[1][i] = odds(x, y);
  }
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t bit = i & 1, pair = i / 2 * 2;
    quarter[bit][pair / 2] = evens(half[bit][pair], half[bit][pair + 1]);
    quarter[bit + 2][pair / 2] = odds(half[bit][pair], half[bit][pair + 1]);
  }
#pragma unroll
  for (uint32_t j = 0; j < 4; ++j) {
    v[j] = evens(quarter[j][0], quarter[j][1]);
    v[j + 4] = odds(quarter[j][0], quarter[j][1]);
  }
}
// Stores a chunk from element `first` of the inputs on. Returns the sums of the lanes.
XPU_INLINE float16v store_int4(WeightInputs& inputs, uint32_t first, const float16v (&v)[8]) {
  float16v sum = 0;
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    store16(inputs.a + first + 16 * j, v[j]);
    sum += v[j];
  }
  return sum;
}
// The factor by which the elements of a chunk are whole numbers of at most kWholeMost, and what makes them so. The
// factor is NaN where an element is not finite.
struct WholeFactor { float factor, inverse; };
constexpr float kWholeMost = 16383.0f,
                kWholeRound = 12582912.0f;  // 1.5 * 2^23: a sum with it is whole, in its low bits
XPU_INLINE WholeFactor whole_factor(const float16v (&v)[8]) {
  int16v largest = 0;  // bits of floats: NaN is above all
#pragma unroll
  for (uint32_t j = 0; j < 8; ++j) {
    const int16v x = __builtin_bit_cast(int16v, v[j]) & 0x7fffffff;
    largest = x > largest ? x : largest;
  }
  int32_t bits = 0;
#pragma unroll
  for (uint32_t l = 0; l < 16; ++l) bits = largest[l] > bits ? largest[l] : bits;
  const float most = __builtin_bit_cast(float, bits), inverse = most > 1e-33f ? kWholeMost / most : 0.0f;
  return {bits < 0x7f800000 ? most / kWholeMost : __builtin_nanf(""), inverse};
}
// Even whole numbers below 2^15 times one factor, off by at most 2^-15 of the chunk's largest element. The factor is
// NaN where an element is not finite. Vectors j and j + 4 share the lanes, as the nibbles of 16-bit words lie.
XPU_INLINE float16v store_int4(WholeInputs& inputs, uint32_t first, const float16v (&v)[8]) {
  const auto [factor, inverse] = whole_factor(v);
  float16v sum = 0;
#pragma unroll
  for (uint32_t j = 0; j < 4; ++j) {
    const float16v low = v[j] * inverse + kWholeRound, high = v[j + 4] * inverse + kWholeRound;
    sum += (low - kWholeRound) + (high - kWholeRound);
    const uint16v x = __builtin_bit_cast(uint16v, low), y = __builtin_bit_cast(uint16v, high);
    *reinterpret_cast<uint16v*>(inputs.a + first + 32 * j) = (x << 1 & 0xffffu) | y << 17;
  }
  inputs.factors[first / kWeightChunk] = factor;
  return sum * factor;
}
// The sums over `parts` (1, 2 or 4) of the lanes.
XPU_INLINE float4v part_sums(float16v v, uint32_t parts) {
  v = v + other_lanes<1>(v);
  v = v + other_lanes<2>(v);
  if (parts == 4) return __builtin_shufflevector(v, v, 0, 4, 8, 12);
  v = v + other_lanes<4>(v);
  if (parts == 2) return __builtin_shufflevector(v, v, 0, 8, 0, 8);
  v = v + other_lanes<8>(v);
  return __builtin_shufflevector(v, v, 0, 0, 0, 0);
}
template <class Inputs, class T>
XPU_INLINE void order_int4(Inputs& inputs, uint32_t first, const T* a, uint32_t count, uint32_t parts) {
  static_assert(kMostParts == 4);
  for (uint32_t c = 0; c < count; c += kWeightChunk) {
    float16v v[8];
    load_int4(v, a + c);
    const float16v sum = store_int4(inputs, first + c, v);
    *reinterpret_cast<float4u*>(inputs.sums[(first + c) / kWeightChunk]) = part_sums(sum, parts);
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
// kRows rows of the weight times kM rows of a, which are loaded once for them.
template <int j, uint32_t kM, uint32_t kRows>
XPU_INLINE void add_nibbles(float16v (&part)[kM][kRows], const uint8_t* const (&w)[kRows], const float* a, uint32_t c) {
  float16v x[kM];
#pragma unroll
  for (uint32_t m = 0; m < kM; ++m) x[m] = load16(a + m * inputs_of<WeightInputs>(kM) + c + 16 * j);
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    const float16v q = nibble16<j>(*reinterpret_cast<const uint16u*>(w[r] + c / 2));
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) part[m][r] = j == 0 ? q * x[m] : part[m][r] + q * x[m];
  }
}
// The products of kRows rows of the weight with a chunk of each row of a.
template <uint32_t kM, uint32_t kRows>
XPU_INLINE void chunk_int4(float16v (&part)[kM][kRows], const uint8_t* const (&w)[kRows], const WeightInputs& inputs,
                           uint32_t c) {
  add_nibbles<0>(part, w, inputs.a, c);
  add_nibbles<1>(part, w, inputs.a, c);
  add_nibbles<2>(part, w, inputs.a, c);
  add_nibbles<3>(part, w, inputs.a, c);
  add_nibbles<4>(part, w, inputs.a, c);
  add_nibbles<5>(part, w, inputs.a, c);
  add_nibbles<6>(part, w, inputs.a, c);
  add_nibbles<7>(part, w, inputs.a, c);
}

// The products of neighbours, added: one instruction where nothing is added to them before the shift.
XPU_INLINE int8v dot_pairs(short16v a, short16v b, uint32_t shift) {
  const auto even = [](short16v v) __attribute__((always_inline)) {
    return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 2, 4, 6, 8, 10, 12, 14), int8v);
  };
  const auto odd = [](short16v v) __attribute__((always_inline)) {
    return __builtin_convertvector(__builtin_shufflevector(v, v, 1, 3, 5, 7, 9, 11, 13, 15), int8v);
  };
  return (even(a) * even(b) + odd(a) * odd(b)) >> shift;
}
// Nibbles are multiplied where they are in their words of 16 bits, but for the highest, which would be a sign.
template <uint32_t kRows>
XPU_INLINE void chunk_int4(float16v (&part)[1][kRows], const uint8_t* const (&w)[kRows], const WholeInputs& inputs,
                           uint32_t c) {
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    int8v half[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const short16v q = *reinterpret_cast<const short16u*>(w[r] + c / 2 + 32 * h);
      const int16_t* a = inputs.a + c + 16 * h;
      const auto x = [&](uint32_t j)
                         __attribute__((always_inline)) { return *reinterpret_cast<const short16v*>(a + 32 * j); };
      half[h] = dot_pairs(q & inputs.masks[0], x(0), 1) + dot_pairs(q & inputs.masks[1], x(1), 5) +
                dot_pairs(q & inputs.masks[2], x(2), 9) + dot_pairs(q >> short16v(4) & inputs.masks[2], x(3), 9);
    }
    const int16v sum = __builtin_shufflevector(half[0], half[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    part[0][r] = __builtin_convertvector(sum, float16v);
  }
}

// The scale of a row for each lane of a vector of the chunk.
template <uint32_t kParts> XPU_INLINE float16v scale16(const float (*s)[kWeightRows], uint32_t row) {
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

// Adds the sums of the lanes of some vectors to a float of each set.
template <uint32_t kSides>
XPU_INLINE void add_lane_sums(float* const* to, uint32_t at, const float16v (&sums)[kSides]) {
  if constexpr (kSides == 2) {
    to[0][at] += sum16(sums[0]);
    to[1][at] += sum16(sums[1]);
  } else {
    const float4v four = sum16(sums[0], sums[1], sums[2], sums[3]);
#pragma unroll
    for (uint32_t s = 0; s < kSides; ++s) to[s][at] += four[s];
  }
}

// Sets of sixteen rows of nibbles times kM rows of a, whose results are kWeightBlocks sets apart. Each set is read in
// order, beside as many others as leave registers: the processor reads ahead in each, but not where two lie in one
// page.
template <uint32_t kM, uint32_t kParts, class Inputs>
__attribute__((noinline)) void parts_int4(float* const* out, const Inputs* inputs, const WeightScales* scales,
                                          const uint8_t* const* w, size_t w_row, uint32_t count) {
  constexpr uint32_t kSides = kM == 4 ? 2 : kWeightSides, kStep = kWeightBlocks * kWeightRows;
  for (uint32_t side = 0; side < kWeightSides; side += kSides) {
    for (uint32_t row = 0; row < kWeightRows; ++row) {
      float16v sums[kM][kSides] = {};
      const uint8_t* lines[kSides];
#pragma unroll
      for (uint32_t s = 0; s < kSides; ++s) lines[s] = w[side + s] + row * w_row;
      for (uint32_t c = 0; c < count; c += kWeightChunk) {
        float16v part[kM][kSides];
        chunk_int4(part, lines, *inputs, c);
#pragma unroll
        for (uint32_t s = 0; s < kSides; ++s) {
          const float16v scale = scale16<kParts>(scales[side + s].scale + c / kWeightChunk * kParts, row);
#pragma unroll
          for (uint32_t m = 0; m < kM; ++m) sums[m][s] += scale * part[m][s];
        }
      }
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) add_lane_sums<kSides>(out + side, m * kStep + row, sums[m]);
    }
  }
}
template <uint32_t kM, class Inputs>
XPU_INLINE void sets_int4(float* const* out, const Inputs* inputs, const WeightScales* scales, const uint8_t* const* w,
                          size_t w_row, uint32_t count, uint32_t parts) {
  if (parts == 1)
    parts_int4<kM, 1>(out, inputs, scales, w, w_row, count);
  else if (parts == 2)
    parts_int4<kM, 2>(out, inputs, scales, w, w_row, count);
  else
    parts_int4<kM, 4>(out, inputs, scales, w, w_row, count);
}

// The same for rows of bytes.
template <uint32_t kM>
__attribute__((noinline)) void sets_int8(float* const* out, const WeightInputs* inputs, const int8_t* const* w,
                                         size_t w_row, uint32_t count) {
  const float* a = inputs->a;
  for (uint32_t row = 0; row < kWeightRows; ++row) {
    float16v sums[kM][kWeightSides] = {};
    for (uint32_t i = 0; i < count; i += 16) {
      float16v x[kM];
#pragma unroll
      for (uint32_t m = 0; m < kM; ++m) x[m] = load16(a + m * inputs_of<WeightInputs>(kM) + i);
#pragma unroll
      for (uint32_t s = 0; s < kWeightSides; ++s) {
        const float16v q = load16(w[s] + row * w_row + i);
#pragma unroll
        for (uint32_t m = 0; m < kM; ++m) sums[m][s] += q * x[m];
      }
    }
#pragma unroll
    for (uint32_t m = 0; m < kM; ++m) add_lane_sums(out, m * kWeightBlocks * kWeightRows + row, sums[m]);
  }
}

// The sets of sixteen rows of this work-group. touch(group, row) reads something of the scales of a set, which lie far
// apart; order(inputs, place, rows, m, from, count) brings row m of a into order as
// that place of so many, from column `from` on; add(rows, inputs,
// from, row, count, sums) multiplies so many rows of a with the sets from each `row` on; finish(m, row, sum) stores the
// results. A part of what `inputs` can hold is taken at once.
template <class Inputs, class Touch, class Order, class Add, class Finish>
XPU_INLINE void weight_rows(const WeightArgs& p, uint32_t part, Touch touch, Order order, Add add, Finish finish) {
  constexpr uint32_t kStep = kWeightBlocks * kWeightRows;
  const uint32_t sets = (p.n + kWeightRows - 1) / kWeightRows;
  const uint32_t begin = static_cast<uint32_t>(syclex::this_work_item::get_nd_item<1>().get_group(0)) * p.blocks;
  const uint32_t end = begin + p.blocks < sets ? begin + p.blocks : sets;
  const uint32_t turns = (end - begin + kWeightSides - 1) / kWeightSides;
  // The last set overlaps the one before where rows are left over.
  const auto row_of = [&](uint32_t set) {
    return (set + 1) * kWeightRows <= p.n ? set * kWeightRows : p.n - kWeightRows;
  };
  for (uint32_t m0 = 0; m0 < p.m; m0 += Inputs::kRows) {
    const uint32_t left = p.m - m0, rows = left <= 2 ? left : least((left + 3) / 4 * 4, Inputs::kRows);
    const uint32_t most = inputs_of<Inputs>(rows);
    float sums[Inputs::kRows * kStep], spare[Inputs::kRows * kStep];
    for (uint32_t i = 0; i < rows * kStep; i += 16) {
      store16(sums + i, float16v(0.0f));
      store16(spare + i, float16v(0.0f));
    }
    for (uint32_t from = 0; from < p.k; from += most / part) {
      Inputs inputs;
      const uint32_t count = least(p.k - from, most / part);
      for (uint32_t g = from / p.group; p.group && g * p.group < from + count; ++g)  // misses beside one another
        for (uint32_t set = begin; set < end; ++set) [[clang::always_inline]]
          touch(g, row_of(set));
      for (uint32_t m = 0; m < rows; ++m)  // rows past the end repeat the last one
          [[clang::always_inline]]
        order(inputs, m, rows, m0 + (m < left ? m : left - 1), from, count);
      for (uint32_t turn = 0; turn < turns; ++turn) {
        uint32_t row[kWeightSides];
        float* to[kWeightSides];
        for (uint32_t s = 0; s < kWeightSides; ++s) {  // sets past the end repeat the last one, for nobody
          const uint32_t set = begin + s * turns + turn;
          row[s] = row_of(least(set, end - 1));
          to[s] = set < end ? sums + (set - begin) * kWeightRows : spare;
        }
        [[clang::always_inline]] add(rows, &inputs, from, row, count, to);
      }
    }
    for (uint32_t set = begin; set < end; ++set)
      for (uint32_t m = 0; m < rows && m < left; ++m) {
        const float16v v = load16(sums + m * kStep + (set - begin) * kWeightRows);
        [[clang::always_inline]] finish(m0 + m, row_of(set), v);
      }
  }
}

template <class T> XPU_INLINE const T* input_row(const WeightArgs& p, uint32_t m) {
  return static_cast<const T*>(p.a) + m * p.a_row;
}
template <class T> XPU_INLINE T* result_row(const WeightArgs& p, uint32_t m) {
  return static_cast<T*>(p.out) + static_cast<size_t>(m) * p.n;
}

template <class T> XPU_INLINE void copy_int8(WeightInputs& inputs, uint32_t first, const T* a, uint32_t count) {
  for (uint32_t i = 0; i < count; i += 16) store16(inputs.a + first + i, load16(a + i));
}
template <class T, class Inputs = WeightInputs> void weight_int8(const WeightArgs& p) {
  const int8_t* w = static_cast<const int8_t*>(p.w);
  const T* scale = static_cast<const T*>(p.scale);
  weight_rows<Inputs>(
      p, 1, [](uint32_t, uint32_t) {},
      [&](Inputs& inputs, uint32_t place, uint32_t rows, uint32_t m, uint32_t from, uint32_t count) __attribute__((
          always_inline)) { copy_int8(inputs, place * inputs_of<Inputs>(rows), input_row<T>(p, m) + from, count); },
      [&](uint32_t rows, const Inputs* inputs, uint32_t from, const uint32_t* row, uint32_t count, float* const* sums) {
        const int8_t* lines[kWeightSides];
        for (uint32_t s = 0; s < kWeightSides; ++s) lines[s] = w + static_cast<size_t>(row[s]) * p.k + from;
        if (rows == 1)
          sets_int8<1>(sums, inputs, lines, p.k, count);
        else if (rows == 2)
          sets_int8<2>(sums, inputs, lines, p.k, count);
        else
          sets_int8<4>(sums, inputs, lines, p.k, count);
      },
      [&](uint32_t m, uint32_t row, float16v v) { store16(result_row<T>(p, m) + row, v * load16(scale + row)); });
}

struct ScaleOffset { float16v scale, offset; };

// load(group, row): the scales of sixteen rows, `per_group` elements each, and what is added to each value of a nibble.
// One row of 16 bits is taken as whole numbers. With more, floats take fewer instructions.
template <class T, class Inputs, class Load>
XPU_INLINE void int4_rows(const WeightArgs& p, uint32_t per_group, Load load) {
  if constexpr (__is_same(Inputs, WeightInputs) && !__is_same(T, float))
    if (p.m == 1) return int4_rows<T, WholeInputs>(p, per_group, load);
  const uint8_t* w = static_cast<const uint8_t*>(p.w);
  const uint32_t parts = p.group < kWeightChunk ? kWeightChunk / p.group : 1, step = kWeightChunk / parts;
  weight_rows<Inputs>(
      p, parts,
      [&](uint32_t group, uint32_t row) {
        const size_t at = (static_cast<size_t>(group) * p.n + row) * per_group * sizeof(T);
        (void)static_cast<const volatile uint8_t*>(p.scale)[at];
      },
      [&](Inputs& inputs, uint32_t place, uint32_t rows, uint32_t m, uint32_t from, uint32_t count) {
        [[clang::always_inline]] order_int4(inputs, place * inputs_of<Inputs>(rows), input_row<T>(p, m) + from, count,
                                            parts);
      },
      [&](uint32_t rows, const Inputs* inputs, uint32_t from, const uint32_t* row, uint32_t count, float* const* sums) {
        WeightScales scales[kWeightSides];
        const uint8_t* lines[kWeightSides];
        const size_t w_row = p.k / 2;
        for (uint32_t s = 0; s < kWeightSides; ++s) {
          lines[s] = w + row[s] * w_row + from / 2;
          constexpr uint32_t kStep = kWeightBlocks * kWeightRows;
          float16v sum[kWeightVectors];
          for (uint32_t m = 0; m < rows; ++m) sum[m] = load16(sums[s] + m * kStep);
          for (uint32_t c = 0; c < count / kWeightChunk; ++c)
            for (uint32_t q = 0; q < parts; ++q) {
              ScaleOffset both;
              [[clang::always_inline]] both = load((from + c * kWeightChunk + q * step) / p.group, row[s]);
              both.offset -= Inputs::kFrom * both.scale;
              store16(scales[s].scale[c * parts + q], both.scale * inputs->factor(c));
              for (uint32_t m = 0; m < rows; ++m)  // what is added to each value, times the sum of its part's inputs
                sum[m] += inputs->sums[m * inputs_of<Inputs>(rows) / kWeightChunk + c][q] * both.offset;
            }
          for (uint32_t m = 0; m < rows; ++m) store16(sums[s] + m * kStep, sum[m]);
        }
        if (rows == 1)
          sets_int4<1>(sums, inputs, scales, lines, w_row, count, parts);
        else if constexpr (Inputs::kRows > 1) {
          if (rows == 2)
            sets_int4<2>(sums, inputs, scales, lines, w_row, count, parts);
          else
            sets_int4<4>(sums, inputs, scales, lines, w_row, count, parts);
        }
      },
      [&](uint32_t m, uint32_t row, float16v v) { store16(result_row<T>(p, m) + row, v); });
}

// (q - 8) * scale + zero, which lie side by side.
template <class T, class Inputs = WeightInputs> void weight_int4(const WeightArgs& p) {
  const T* scales = static_cast<const T*>(p.scale);
  int4_rows<T, Inputs>(p, 2, [&](uint32_t group, uint32_t row) -> ScaleOffset {
    const T* at = scales + 2 * (static_cast<size_t>(group) * p.n + row);
    float16v scale, zero;
    if constexpr (__is_same(T, bf16)) {
      const uint16v both = *reinterpret_cast<const uint16u*>(at);
      scale = __builtin_bit_cast(float16v, both << 16), zero = __builtin_bit_cast(float16v, both & 0xffff0000u);
    } else {
      const float16v x = load16(at), y = load16(at + 16);
      scale = evens(x, y), zero = odds(x, y);
    }
    return {scale, zero - 8.0f * scale};
  });
}
// (q - zero) * scale
template <class T, class Inputs = WeightInputs> void weight_int4_zeros(const WeightArgs& p) {
  const T* scales = static_cast<const T*>(p.scale);
  const int8_t* zeros = static_cast<const int8_t*>(p.zero);
  int4_rows<T, Inputs>(p, 1, [&](uint32_t group, uint32_t row) -> ScaleOffset {
    const size_t at = static_cast<size_t>(group) * p.n + row;
    const float16v scale = load16(scales + at);
    return {scale, -load16(zeros + at) * scale};
  });
}

}  // namespace xpu
