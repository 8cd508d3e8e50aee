// Exact functions that a loop of the host has in a form of its own: those of the device's headers are calls here. The
// same bits.
#pragma once
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>

#include "kernels/host/math.hpp"
#include "kernels/sycl/math/math.hpp"

namespace xpu_ops::host {

template <class T> [[gnu::always_inline]] inline bool isinf(T a) {
  return fabs(a) == std::numeric_limits<T>::infinity();
}
template <class T> [[gnu::always_inline]] inline bool isfinite(T a) {
  return fabs(a) < std::numeric_limits<T>::infinity();
}

// Without a branch: nested ones make no vectors.
template <class T> [[gnu::always_inline]] inline T maximum(T a, T b) {
  const T larger = a > b ? a : b;
  return a != a ? a : larger;
}
template <class T> [[gnu::always_inline]] inline T minimum(T a, T b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

// Of equal zeros the first, of two NaN the second, as on the device.
template <class T> [[gnu::always_inline]] inline T fmax(T a, T b) { return (a >= b) | ((b != b) & (a == a)) ? a : b; }
template <class T> [[gnu::always_inline]] inline T fmin(T a, T b) { return (a <= b) | ((b != b) & (a == a)) ? a : b; }

// Zeros are counted by a call in the device's headers.
template <class T> [[gnu::always_inline]] inline T gcd(T a, T b) {
  using U = std::make_unsigned_t<T>;
  U u = a < T(0) ? U(0) - U(a) : U(a), v = b < T(0) ? U(0) - U(b) : U(b);
  if (u == U(0) || v == U(0)) return T(u | v);
  const int twos = __builtin_ctzll(u | v);
  u >>= __builtin_ctzll(u);
  do {
    v >>= __builtin_ctzll(v);
    const U less = u < v ? u : v;
    v = u < v ? v - u : u - v;
    u = less;
  } while (v != U(0));
  return T(u << twos);
}
template <class T> [[gnu::always_inline]] inline T lcm(T a, T b) {
  using U = std::make_unsigned_t<T>;
  const T g = host::gcd(a, b);
  if (g == T(0)) return T(0);
  const T product = T(U(a / g) * U(b));
  return product < T(0) ? T(U(0) - U(product)) : product;
}

// The power of ten is looked up once for all elements.
template <class T> struct Tens {
  T power[std::numeric_limits<T>::max_exponent10 + 2];  // the last one is infinity
  constexpr Tens() : power{} {
    T ten = T(1);
    for (T& p : power) {
      p = ten;
      ten = ten > std::numeric_limits<T>::max() / T(10) ? std::numeric_limits<T>::infinity() : ten * T(10);
    }
  }
};
template <class T> inline constexpr Tens<T> kTens;
template <class T> [[gnu::always_inline]] inline T round_decimals(T a, int64_t decimals) {
  const uint64_t k = decimals < 0 ? -static_cast<uint64_t>(decimals) : static_cast<uint64_t>(decimals);
  const T ten = kTens<T>.power[k < std::size(kTens<T>.power) ? k : std::size(kTens<T>.power) - 1];
  return decimals < 0 ? rint(a / ten) * ten : rint(a * ten) / ten;
}

// Of floats by a quotient in double. A quotient of floats below 2^28 lies at least 2^-24 from an integer or is one, so
// that it is truncated as it should be, and the rest fits into a float. The C library goes bit by bit.
[[gnu::always_inline]] inline float rest(float a, float b) {
  const double q = trunc(double(a) / double(b));
  if (fabs(q) < 0x1p28) [[likely]] {
    const float r = q == 0 ? a : float(fma(-q, double(b), double(a)));
    return copysign(r, a);
  }
  return std::fmod(a, b);
}
template <class T> [[gnu::always_inline]] inline T fmod(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return rest(a, b);
  else
    return xpu::fmod(a, b);
}
template <class T> [[gnu::always_inline]] inline T remainder(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    const T r = rest(a, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
  } else {
    return xpu::remainder(a, b);
  }
}
template <class T> [[gnu::always_inline]] inline T div_floor(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    if (b == T(0)) return a / b;
    const T r = rest(a, b);
    T d = (a - r) / b;
    if (r != T(0) && (r < T(0)) != (b < T(0))) d -= T(1);
    if (d == T(0)) return copysign(T(0), a / b);
    const T f = floor(d);
    return d - f > T(0.5) ? f + T(1) : f;
  } else {
    return xpu::div_floor(a, b);
  }
}

}  // namespace xpu_ops::host
