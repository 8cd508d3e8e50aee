// convert<To>(from): what Tensor.to does to one element.
#pragma once
#include "kernels/sycl/core/float8.hpp"

namespace xpu {

template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;

// Types kept in fewer bits than they are computed in.
template <class T> inline constexpr bool is_small_float_v = !is_same_v<opmath_t<T>, T> && !is_complex_v<T>;
template <class T> inline constexpr bool is_std_float_v = is_same_v<T, float> || is_same_v<T, double>;

// The compiler does not vectorise conversions between float and 64-bit integers; these do the same in integer
// arithmetic (12x faster on the CPU device).
inline float float_from_u64(uint64_t v) {
  uint32_t zeros = static_cast<uint32_t>(sycl::clz(v));
  uint64_t m = v << (zeros & 63u), rest = m & 0xffffffffffull, half_bit = 0x8000000000ull;
  uint32_t top = static_cast<uint32_t>(m >> 40);
  uint32_t up = rest > half_bit || (rest == half_bit && (top & 1u)) ? 1u : 0u;
  uint32_t bits = ((189u - zeros) << 23) + top + up;  // top has the hidden bit, which adds one to the exponent
  return sycl::bit_cast<float>(v == 0 ? 0u : bits);
}
inline float float_from_i64(int64_t v) {
  uint64_t u = static_cast<uint64_t>(v);
  float f = float_from_u64(v < 0 ? 0 - u : u);
  return v < 0 ? -f : f;
}
// Out of range gives the most negative number, as the x86 instruction does.
inline int64_t i64_from_float(float v) {
  uint32_t u = sycl::bit_cast<uint32_t>(v);
  int32_t e = static_cast<int32_t>((u >> 23) & 255u) - 150;
  uint64_t m = (u & 0x7fffffu) | 0x800000u;
  uint64_t r = e >= 0 ? m << (e & 63) : m >> (-e & 63);
  r = e >= 40 ? uint64_t{1} << 63 : e <= -24 ? 0 : r;
  return static_cast<int64_t>(u >> 31 ? 0 - r : r);
}

inline double f64_from_i64(int64_t v) {
  return static_cast<double>(static_cast<int32_t>(v >> 32)) * 4294967296.0 +
         static_cast<double>(static_cast<uint32_t>(v));
}
inline int64_t i64_from_double(double v) {
  uint64_t u = sycl::bit_cast<uint64_t>(v);
  int32_t e = static_cast<int32_t>((u >> 52) & 2047u) - 1075;
  uint64_t m = (u & 0xfffffffffffffull) | 0x10000000000000ull;
  uint64_t r = e >= 0 ? m << (e & 63) : m >> (-e & 63);
  r = e >= 11 ? uint64_t{1} << 63 : e <= -53 ? 0 : r;
  return static_cast<int64_t>(u >> 63 ? 0 - r : r);
}

template <class To, class From>
inline To convert(From v) {
  if constexpr (is_same_v<To, From>) {
    return v;
  } else if constexpr (is_complex_v<From>) {
    if constexpr (is_same_v<To, bool>) {
      return convert<bool>(v.re) || convert<bool>(v.im);
    } else if constexpr (is_complex_v<To>) {
      using R = decltype(To::re);
      return To(convert<R>(v.re), convert<R>(v.im));
    } else {
      return convert<To>(v.re);
    }
  } else if constexpr (is_small_float_v<From>) {
    return convert<To>(static_cast<float>(v));
  } else if constexpr (is_complex_v<To>) {
    using R = decltype(To::re);
    return To(convert<R>(v), R(0.0f));
  } else if constexpr (is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (is_small_float_v<To>) {
    return To(convert<float>(v));
  } else if constexpr (is_std_float_v<From> && !is_std_float_v<To>) {
    // Out of range is undefined in C++; these routes wrap as the x86 code of the CPU build does.
    if constexpr (is_same_v<To, int64_t> && is_same_v<From, float>) {
      return i64_from_float(v);
    } else if constexpr (is_same_v<To, int64_t>) {
      return i64_from_double(v);
    } else if constexpr (is_same_v<To, uint64_t>) {
      constexpr From top = From(9223372036854775808.0f);
      return v >= top ? (uint64_t{1} << 63) ^ static_cast<uint64_t>(convert<int64_t>(v - top))
                      : static_cast<uint64_t>(convert<int64_t>(v));
    } else if constexpr (is_same_v<To, int32_t>) {
      return static_cast<To>(v);
    } else if constexpr (sizeof(To) < 4) {
      return static_cast<To>(static_cast<int32_t>(v));
    } else {
      return static_cast<To>(convert<int64_t>(v));
    }
  } else if constexpr (is_same_v<To, float> && is_same_v<From, int64_t>) {
    return float_from_i64(v);
  } else if constexpr (is_same_v<To, double> && is_same_v<From, int64_t>) {
    return f64_from_i64(v);
  } else if constexpr (is_same_v<To, float> && is_same_v<From, uint64_t>) {
    return float_from_u64(v);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace xpu
