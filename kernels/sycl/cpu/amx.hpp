// Tiles of AMX: eight registers of 16 rows of 64 bytes and the product of two of them, which no compiler makes of
// SPIR-V for a kernel of one item. A tile of floats has 16 columns, one of bf16 pairs of elements in 16 columns.
#pragma once
#include "kernels/sycl/cpu/single.hpp"

namespace xpu {

constexpr uint32_t kTileRows = 16, kTileBytes = 64, kTilePairs = 2 * kTileRows;  // elements of a row of bf16
constexpr uint32_t kTileWords = kTileRows * kTileBytes / 4;

// Sixteen words at any address.
XPU_INLINE uint16v load_words(const void* p) {
  using Words __attribute__((ext_vector_type(16), aligned(1))) = uint32_t;
  return *static_cast<const Words*>(p);
}
XPU_INLINE void store_words(void* p, uint16v v) {
  using Words __attribute__((ext_vector_type(16), aligned(1))) = uint32_t;
  *static_cast<Words*>(p) = v;
}

// 2^x for 0 <= x <= 1, fitted for the least relative error.
XPU_INLINE float16v exp2_of_part(float16v x) {
  float16v y = 0.00187757668f;
  y = y * x + 0.00898934009f;
  y = y * x + 0.0558263181f;
  y = y * x + 0.240153617f;
  y = y * x + 0.693153073f;
  return y * x + 0.999999925f;
}

// The registers of a processor that has them, in the shape above until the end of the kernel. The shape that the thread
// had comes back then: oneDNN keeps one from call to call.
class AmxTiles {
 public:
  XPU_INLINE AmxTiles() {
    asm volatile("sttilecfg (%0)" ::"r"(before_) : "memory");
    uint8_t shape[kTileBytes] = {1};  // palette; then the bytes and, from 48 on, the rows of each tile
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) shape[16 + 2 * i] = kTileBytes, shape[48 + i] = kTileRows;
    asm volatile("ldtilecfg (%0)" ::"r"(shape) : "memory");
  }
  XPU_INLINE ~AmxTiles() { asm volatile("ldtilecfg (%0)" ::"r"(before_) : "memory"); }
  AmxTiles(const AmxTiles&) = delete;

#define XPU_TILE(TEXT, P, STEP) asm volatile(TEXT ::"r"(P), "r"(STEP) : "memory")
  // Sums: two by two tiles of floats, 32 rows of 32 columns. `step`: bytes from a row to the next.
  XPU_INLINE void clear() {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
  }
  XPU_INLINE void load(const float* sums, size_t step) {
    const char *above = reinterpret_cast<const char*>(sums), *below = above + kTileRows * step;
    XPU_TILE("tileloadd (%0,%1,1), %%tmm0", above, step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm1", above + kTileBytes, step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm2", below, step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm3", below + kTileBytes, step);
  }
  XPU_INLINE void store(float* sums, size_t step) {
    char *above = reinterpret_cast<char*>(sums), *below = above + kTileRows * step;
    XPU_TILE("tilestored %%tmm0, (%0,%1,1)", above, step);
    XPU_TILE("tilestored %%tmm1, (%0,%1,1)", above + kTileBytes, step);
    XPU_TILE("tilestored %%tmm2, (%0,%1,1)", below, step);
    XPU_TILE("tilestored %%tmm3, (%0,%1,1)", below + kTileBytes, step);
  }
  // Sums += the products of 32 rows of 32 bf16 with 32 columns, whose two tiles have rows of pairs and lie `apart`
  // bytes from each other.
  XPU_INLINE void multiply(const void* rows, size_t step, const void* columns, size_t column_step, size_t apart) {
    XPU_TILE("tileloadd (%0,%1,1), %%tmm4", rows, step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm5", static_cast<const char*>(rows) + kTileRows * step, step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm6", columns, column_step);
    XPU_TILE("tileloadd (%0,%1,1), %%tmm7", static_cast<const char*>(columns) + apart, column_step);
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::
            : "memory");
  }
#undef XPU_TILE

  // 2^x, to 1e-7 of it.
  static XPU_INLINE float16v exp2(float16v x) {
    float16v part, y;  // x - floor(x); what multiplies y is 2^floor(x)
    asm("vreduceps $9, %1, %0" : "=v"(part) : "v"(x));
    y = exp2_of_part(part);
    asm("vscalefps %2, %1, %0" : "=v"(y) : "v"(y), "v"(x));
    return y;
  }
  // Pairs of bf16, the first in the lower half.
  static XPU_INLINE uint16v pairs(float16v first, float16v second) {
    const uint16v places = kCount16 | (kCount16 + 16u) << 16;
    uint16v halves;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first), "v"(second));
    asm("vpermw %1, %2, %0" : "=v"(halves) : "v"(halves), "v"(places));
    return halves;
  }

 private:
  alignas(64) uint8_t before_[kTileBytes];
};

// Rows and lanes change places.
#define XPU_LOW(M, L) ((L) & (M) ? 16 + ((L) ^ (M)) : (L))
#define XPU_HIGH(M, L) ((L) & (M) ? 16 + (L) : ((L) | (M)))
#define XPU_LANES(F, M)                                                                                         \
  F(M, 0), F(M, 1), F(M, 2), F(M, 3), F(M, 4), F(M, 5), F(M, 6), F(M, 7), F(M, 8), F(M, 9), F(M, 10), F(M, 11), \
      F(M, 12), F(M, 13), F(M, 14), F(M, 15)
template <int kMask, class V> XPU_INLINE void exchange_rows(V (&x)[16]) {
#pragma unroll
  for (uint32_t i = 0; i < 16; ++i)
    if (!(i & kMask)) {
      const V a = x[i], b = x[i | kMask];
      x[i] = __builtin_shufflevector(a, b, XPU_LANES(XPU_LOW, kMask));
      x[i | kMask] = __builtin_shufflevector(a, b, XPU_LANES(XPU_HIGH, kMask));
    }
}
#undef XPU_LOW
#undef XPU_HIGH
#undef XPU_LANES
template <class V> XPU_INLINE void transpose16(V (&x)[16]) {
  exchange_rows<8>(x);
  exchange_rows<4>(x);
  exchange_rows<2>(x);
  exchange_rows<1>(x);
}

}  // namespace xpu
