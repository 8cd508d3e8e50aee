// Kernels whose work-groups are one item that computes in vectors of its own, for a CPU device: they can store past the
// caches, which the vectors that the compiler makes of neighbouring items cannot (an address that is aligned for a
// vector is not known to be so there, and the stores go one by one).
#pragma once
#include "kernels/sycl/core/row.hpp"
#include "kernels/sycl/cpu/single_kernel.hpp"

namespace xpu {

using float16v = float __attribute__((ext_vector_type(16)));
using uint16v = uint32_t __attribute__((ext_vector_type(16)));
using uint8v = uint32_t __attribute__((ext_vector_type(8)));
using ushort16v = uint16_t __attribute__((ext_vector_type(16)));
// The same at any address of their elements.
using float16u __attribute__((ext_vector_type(16), aligned(4))) = float;
using ushort16u __attribute__((ext_vector_type(16), aligned(2))) = uint16_t;
constexpr uint16v kCount16 = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
using half16v = _Float16 __attribute__((ext_vector_type(16)));
using half16u __attribute__((ext_vector_type(16), aligned(2))) = _Float16;

// Sixteen elements as floats.
XPU_INLINE float16v load16(const float* x) { return *reinterpret_cast<const float16u*>(x); }
XPU_INLINE float16v load16(const bf16* x) {
  const ushort16v bits = *reinterpret_cast<const ushort16u*>(x);
  return __builtin_bit_cast(float16v, __builtin_convertvector(bits, uint16v) << 16);
}
XPU_INLINE float16v load16(const half* x) {
  return __builtin_convertvector(*reinterpret_cast<const half16u*>(x), float16v);
}
// bf16 as bf16(float) rounds, in the upper half of each lane.
XPU_INLINE uint16v round16(float16v v) {
  const uint16v u = __builtin_bit_cast(uint16v, v), rounded = u + 0x7fffu + ((u >> 16) & 1u);
  const auto nan = (u & 0x7fffffffu) > 0x7f800000u;
  return nan ? uint16v(0x7fc00000u) : rounded;
}
// The value that a T has after it was stored.
template <class T> XPU_INLINE float16v stored16(float16v v) {
  if constexpr (__is_same(T, bf16))
    return __builtin_bit_cast(float16v, round16(v) & 0xffff0000u);
  else
    return v;
}
// In lanes of 32 bits: SPIR-V knows no vector of 32 halves, as which the compiler sees 16 lanes taken by halves.
XPU_INLINE ushort16v upper_halves(uint16v u) {
  const uint8v even = __builtin_shufflevector(u, u, 0, 2, 4, 6, 8, 10, 12, 14),
               odd = __builtin_shufflevector(u, u, 1, 3, 5, 7, 9, 11, 13, 15);
  return __builtin_bit_cast(ushort16v, even >> 16 | (odd & 0xffff0000u));
}
XPU_INLINE void store16(float* x, float16v v) { *reinterpret_cast<float16u*>(x) = v; }
XPU_INLINE void store16(bf16* x, float16v v) { *reinterpret_cast<ushort16u*>(x) = upper_halves(round16(v)); }
XPU_INLINE void store16(half* x, float16v v) { *reinterpret_cast<half16u*>(x) = __builtin_convertvector(v, half16v); }
// Two vectors past the caches, to an address that is a multiple of 64 bytes. bf16 in one store: of a single vector the
// compiler would make a store of truncated lanes, which is none of this kind.
XPU_INLINE void stream32(float* x, float16v a, float16v b) {
  __builtin_nontemporal_store(a, reinterpret_cast<float16v*>(x));
  __builtin_nontemporal_store(b, reinterpret_cast<float16v*>(x + 16));
}
XPU_INLINE void stream32(bf16* x, float16v a, float16v b) {
  const uint16v u = round16(a), v = round16(b);
  const uint16v even = __builtin_shufflevector(u, v, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                odd = __builtin_shufflevector(u, v, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  __builtin_nontemporal_store(even >> 16 | (odd & 0xffff0000u), reinterpret_cast<uint16v*>(x));
}

// Each lane has the value of the one whose number differs by these bits.
template <int kMask> XPU_INLINE float16v other_lanes(float16v v) {
  return __builtin_shufflevector(v, v, 0 ^ kMask, 1 ^ kMask, 2 ^ kMask, 3 ^ kMask, 4 ^ kMask, 5 ^ kMask, 6 ^ kMask,
                                 7 ^ kMask, 8 ^ kMask, 9 ^ kMask, 10 ^ kMask, 11 ^ kMask, 12 ^ kMask, 13 ^ kMask,
                                 14 ^ kMask, 15 ^ kMask);
}
// The sum of the lanes in the order of lane_sum.
XPU_INLINE float sum16(float16v v) {
  v = v + other_lanes<8>(v);
  v = v + other_lanes<4>(v);
  v = v + other_lanes<2>(v);
  v = v + other_lanes<1>(v);
  return v[0];
}

XPU_INLINE float16v larger(float16v a, float16v x) { return nan_of(x > a ? x : a, x, uint16v(kNanBits)); }

// The lanes of four vectors, joined to a value for each.
using float4v = float __attribute__((ext_vector_type(4)));
using float4u __attribute__((ext_vector_type(4), aligned(4))) = float;
template <class F> XPU_INLINE float4v fold16(float16v a, float16v b, float16v c, float16v d, F join) {
  const auto pairs = [&](float16v x, float16v y) __attribute__((always_inline)) {  // x y x y ...
    return join(__builtin_shufflevector(x, y, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
                __builtin_shufflevector(x, y, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31));
  };
  const float16v x = pairs(a, b), y = pairs(c, d);
  float16v v = join(__builtin_shufflevector(x, y, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
                    __builtin_shufflevector(x, y, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31));
  v = join(v, other_lanes<8>(v));
  v = join(v, other_lanes<4>(v));
  return __builtin_shufflevector(v, v, 0, 1, 2, 3);
}
XPU_INLINE float4v sum16(float16v a, float16v b, float16v c, float16v d) {
  return fold16(a, b, c, d, [](float16v x, float16v y) __attribute__((always_inline)) { return x + y; });
}
XPU_INLINE float4v max16(float16v a, float16v b, float16v c, float16v d) {
  return fold16(a, b, c, d, [](float16v x, float16v y) __attribute__((always_inline)) { return larger(x, y); });
}

}  // namespace xpu
