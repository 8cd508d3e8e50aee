// Division of signed integers (and bytes) by products with a reciprocal: the CPU device takes integer division item by
// item, these in vectors. Only float is used, since not every device has fp64. The results are those of math.hpp.
#pragma once
#include "kernels/sycl/core/groups.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu {

template <class T> struct Divided {
  T quotient, rest;  // towards zero; the rest has the sign of the dividend
};

// The reciprocal is a little too small (by more than the roundings of a step), so a step never goes beyond the quotient
// and leaves less than 2^-19 of what was to divide, and 1: two steps for 32 bits, up to four for 64.
constexpr float kBelowOne = 0.99999905f;

XPU_INLINE Divided<int32_t> divide_by_product(int32_t a, int32_t b) {
  const float by = kBelowOne / static_cast<float>(b);
  uint32_t quotient = 0, rest = static_cast<uint32_t>(a);
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const uint32_t part =
        static_cast<uint32_t>(static_cast<int32_t>(static_cast<float>(static_cast<int32_t>(rest)) * by));
    quotient += part;
    rest -= part * static_cast<uint32_t>(b);
  }
  const int32_t r = static_cast<int32_t>(rest);
  const bool left = static_cast<uint32_t>(iabs(r)) >= static_cast<uint32_t>(iabs(b)), opposite = (a ^ b) < 0;
  quotient += !left ? 0u : opposite ? ~0u : 1u;
  rest -= !left ? 0u : opposite ? 0u - static_cast<uint32_t>(b) : static_cast<uint32_t>(b);
  return {static_cast<int32_t>(quotient), static_cast<int32_t>(rest)};
}

// Numbers of 64 bits as float and back, by conversions of 32 bits: those of 64 are calls, item by item.
XPU_INLINE float halves_to_float(uint32_t u) {
  return static_cast<float>(static_cast<int32_t>(u >> 16)) * 65536.f +
         static_cast<float>(static_cast<int32_t>(u & 0xffffu));
}
XPU_INLINE float word_to_float(uint64_t u) {
  return halves_to_float(static_cast<uint32_t>(u >> 32)) * 4294967296.f + halves_to_float(static_cast<uint32_t>(u));
}
XPU_INLINE uint64_t float_to_word(float f) {  // of [0, 2^63)
  const int32_t high = static_cast<int32_t>(f * 2.3283064365386963e-10f);
  f -= static_cast<float>(high) * 4294967296.f;
  const int32_t middle = static_cast<int32_t>(f * 1.52587890625e-05f);
  f -= static_cast<float>(middle) * 65536.f;
  return static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
         static_cast<uint64_t>(static_cast<uint32_t>(middle)) << 16 |
         static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(f)));
}

XPU_INLINE Divided<int64_t> divide_by_product(int64_t a, int64_t b) {
  const uint64_t size = static_cast<uint64_t>(iabs(b));
  const float by = kBelowOne / word_to_float(size);
  uint64_t quotient = 0, rest = static_cast<uint64_t>(iabs(a));
  float f = word_to_float(rest) * by;
  while (f >= 8388608.f) {  // at most twice, and for most numbers never
    const uint64_t part = float_to_word(f);
    quotient += part;
    rest -= part * size;
    f = word_to_float(rest) * by;
  }
  uint64_t part = static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(f)));
  quotient += part;
  rest -= part * size;
  part = static_cast<uint64_t>(static_cast<uint32_t>(static_cast<int32_t>(word_to_float(rest) * by)));
  quotient += part;
  rest -= part * size;
  const bool left = rest >= size;
  quotient += left ? 1 : 0;
  rest -= left ? size : 0;
  return {static_cast<int64_t>((a ^ b) < 0 ? 0 - quotient : quotient), static_cast<int64_t>(a < 0 ? 0 - rest : rest)};
}

// 0 divides to -1 and leaves 0.
template <class T> XPU_INLINE T product_trunc(T a, T b) {
  const T q = divide_by_product(a, b == T(0) ? T(1) : b).quotient;
  return b == T(0) ? T(-1) : q;
}
template <class T> XPU_INLINE T product_floor(T a, T b) {
  const Divided<T> v = divide_by_product(a, b == T(0) ? T(1) : b);
  const T q = T(v.quotient - (v.rest != T(0) && (v.rest ^ b) < T(0) ? T(1) : T(0)));
  return b == T(0) ? T(-1) : q;
}
template <class T> XPU_INLINE T product_fmod(T a, T b) { return divide_by_product(a, b == T(0) ? T(1) : b).rest; }
template <class T> XPU_INLINE T product_remainder(T a, T b) {
  const T r = divide_by_product(a, b == T(0) ? T(1) : b).rest;
  return b != T(0) && r != T(0) && (r ^ b) < T(0) ? T(r + b) : r;
}

// Functions that expressions call: these go before the templates of math.hpp.
#define XPU_DIVISION(TYPE, WIDE)                                                                     \
  XPU_INLINE TYPE div_trunc(TYPE a, TYPE b) { return static_cast<TYPE>(product_trunc<WIDE>(a, b)); } \
  XPU_INLINE TYPE div_floor(TYPE a, TYPE b) { return static_cast<TYPE>(product_floor<WIDE>(a, b)); } \
  XPU_INLINE TYPE fmod(TYPE a, TYPE b) { return static_cast<TYPE>(product_fmod<WIDE>(a, b)); }       \
  XPU_INLINE TYPE remainder(TYPE a, TYPE b) { return static_cast<TYPE>(product_remainder<WIDE>(a, b)); }
XPU_DIVISION(int8_t, int32_t)
XPU_DIVISION(uint8_t, int32_t)
XPU_DIVISION(int16_t, int32_t)
XPU_DIVISION(int32_t, int32_t)
XPU_DIVISION(int64_t, int64_t)
#undef XPU_DIVISION

}  // namespace xpu
