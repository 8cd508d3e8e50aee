// Functions of CUDA's libdevice for kernels lowered from Triton IR, special values as NVIDIA's documents have them: the
// CUDA Math API for functions, the PTX ISA for conversions and integer instructions.
#pragma once
#include "kernels/sycl/core/convert.hpp"
#include "kernels/sycl/math/bessel.hpp"
#include "kernels/sycl/math/math.hpp"
#include "kernels/sycl/math/special.hpp"

namespace xpu::tri {

#define TRI __attribute__((always_inline)) inline

// ---- conversions of a float that is rounded already: they saturate; NaN is 0, or where 64 bits take part the lowest
// signed number

template <class To, class V> TRI To to_integer(V v) {
  using U = unsigned_of_t<To>;
  constexpr bool has_sign = is_signed_v<To>;
  constexpr U half = U(U(1) << (sizeof(To) * 8 - 1));
  constexpr V top = V(half) * V(has_sign ? 1 : 2), bottom = has_sign ? -top : V(0);
  constexpr To most = has_sign ? To(U(half - 1)) : To(U(~U(0))), least = has_sign ? To(half) : To(0);
  constexpr To none = sizeof(V) == 4 && sizeof(To) == 4 ? To(0) : To(half);
  const To inside = convert<To>(v >= bottom && v < top ? v : V(0));
  return v != v ? none : v >= top ? most : v < bottom ? least : inside;
}

// ---- rounding and exponents

template <class T> TRI T round_away(T a) {
  const T whole = sycl::trunc(a);
  return sycl::fabs(a - whole) >= T(0.5f) ? whole + sycl::copysign(T(1), a) : whole;
}
template <class T> TRI int32_t ilogb(T a) {
  if (a == T(0) || a != a) return INT32_MIN;
  return isinf(a) ? INT32_MAX : frexp_exponent(a) - 1;
}
template <class T> TRI T logb(T a) {
  if (a == T(0)) return -inf<T>();
  return isfinite(a) ? T(frexp_exponent(a) - 1) : a * a;
}

// ---- functions

// An exponent that float does not hold is taken in two parts of one sign.
template <class T> TRI T powi(T a, int32_t n) {
  const bool exact = sizeof(T) == 8 || (n >= -(1 << 24) && n <= (1 << 24));
  const int32_t low = n % 4096, high = n - low;
  return exact ? sycl::pow(a, T(n)) : sycl::pow(a, T(high)) * sycl::pow(a, T(low));
}
// erfc(t) / 2 with the rounding error of t = -a / sqrt(2), which the tail multiplies by t^2.
template <class T> TRI T normcdf(T a) {
#pragma clang fp contract(off)
  constexpr T high = sizeof(T) == 4 ? T(0.70710677f) : T(0.70710678118654757),
              low = sizeof(T) == 4 ? T(1.21016175e-8f) : T(-4.8336466567264567e-17);
  const T t = -a * high, error = sycl::fma(-a, low, sycl::fma(-a, high, -t)), r = T(0.5) * sycl::erfc(t);
  return t > T(1) && r > T(0) ? sycl::fma(T(-2) * t * error, r, r) : r;
}
// The quantile of the normal distribution; near the middle by its series, as 1/2 has no digits beside the result there.
template <class T> TRI T normcdfinv(T p) {
  const T a = (p - T(0.5)) * T(2.5066282746310005), s = a * a;
  return sycl::fabs(a) < T(2e-3) ? a + a * s * (T(1.0 / 6) + s * (T(7.0 / 120) + s * T(127.0 / 5040))) : ndtri(p);
}
// exp(|a|) is the square of a number that does not overflow before the result does.
template <class T> TRI T bessel_i0(T a) {
  const T e = sycl::exp(T(0.5) * sycl::fabs(a));
  return isinf(a) ? inf<T>() : e * xpu::i0e(a) * e;
}
template <class T> TRI T bessel_i1(T a) {
  const T e = sycl::exp(T(0.5) * sycl::fabs(a));
  return isinf(a) ? a : a == T(0) ? a : e * xpu::i1e(a) * e;
}

// ---- operations that no fused one may swallow

template <class T> TRI T add_rn(T a, T b) {
#pragma clang fp contract(off)
  return a + b;
}
template <class T> TRI T sub_rn(T a, T b) {
#pragma clang fp contract(off)
  return a - b;
}
template <class T> TRI T mul_rn(T a, T b) {
#pragma clang fp contract(off)
  return a * b;
}

// ---- integers

// Products of the low 24 bits.
TRI int32_t mul24(int32_t a, int32_t b) {
  const int64_t x = static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8,
                y = static_cast<int32_t>(static_cast<uint32_t>(b) << 8) >> 8;
  return static_cast<int32_t>(x * y);
}
TRI int32_t umul24(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint64_t>(a & 0xffffff) * static_cast<uint64_t>(b & 0xffffff));
}
TRI int32_t sad(int32_t a, int32_t b, int32_t c) {
  const uint32_t x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
  return static_cast<int32_t>((a < b ? y - x : x - y) + static_cast<uint32_t>(c));
}
TRI int32_t usad(int32_t a, int32_t b, int32_t c) {
  const uint32_t x = static_cast<uint32_t>(a), y = static_cast<uint32_t>(b);
  return static_cast<int32_t>((x < y ? y - x : x - y) + static_cast<uint32_t>(c));
}
// Means without overflow, rounded down or up.
TRI int32_t hadd(int32_t a, int32_t b) { return (a & b) + ((a ^ b) >> 1); }
TRI int32_t rhadd(int32_t a, int32_t b) { return (a | b) - ((a ^ b) >> 1); }
TRI int32_t uhadd(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a & b) + (static_cast<uint32_t>(a ^ b) >> 1));
}
TRI int32_t urhadd(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a | b) - (static_cast<uint32_t>(a ^ b) >> 1));
}
// A byte by two products (S. E. Anderson's Bit Twiddling Hacks): the compiler knows shifts and masks as
// llvm.bitreverse, which its translation to SPIR-V cannot write.
TRI uint32_t reversed_byte(uint32_t b) {
  return static_cast<uint32_t>((((b * 0x80200802ull) & 0x0884422110ull) * 0x0101010101ull) >> 32) & 0xffu;
}
template <class U> TRI U reversed(U v) {
  U out = 0;
#pragma unroll
  for (uint32_t i = 0; i < sizeof(U); ++i)
    out = static_cast<U>(out << 8) | static_cast<U>(reversed_byte(static_cast<uint32_t>(v >> (8 * i)) & 0xffu));
  return out;
}
// Four of the eight bytes of b, a; three bits of a digit of `which` say which.
TRI int32_t byte_perm(int32_t a, int32_t b, int32_t which) {
  const uint64_t bytes = static_cast<uint32_t>(a) | static_cast<uint64_t>(static_cast<uint32_t>(b)) << 32;
  uint32_t r = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i)
    r |= static_cast<uint32_t>(bytes >> ((static_cast<uint32_t>(which) >> (4 * i) & 7u) * 8) & 0xffu) << (8 * i);
  return static_cast<int32_t>(r);
}

#undef TRI

}  // namespace xpu::tri
