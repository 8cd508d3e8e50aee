// Orthogonal polynomials of degree n at x, by their three-term recurrences. Included by math.hpp.
// A negative, NaN or unrepresentable degree gives 0 and a fractional one is truncated.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

// Degrees stay in T, and steps are counted in 32 bits: with AVX2 a 64-bit integer becomes a float item by item.
template <class T> inline T degree(T n) { return n > T(-1) && n < T(9e18) ? sycl::trunc(n) : T(-1); }
template <class T> inline T parity(T n) {
  const T half = n * T(0.5);
  return half == sycl::trunc(half) ? T(1) : T(-1);
}
// The steps of a recurrence up to degree n; 2^30 of them take seconds.
template <class T> inline int32_t steps(T n) { return n < T(1 << 30) ? static_cast<int32_t>(n) : 1 << 30; }

// The Chebyshev kinds differ in their degree 1 and in their form for angles; large degrees inside (-1, 1) use the
// angle.
template <class T> inline T chebyshev_recurrence(T x, T first, T n) {
  if (n == T(0)) return T(1);
  const int32_t last = steps(n);
  T p = T(1), q = first;
  for (int32_t k = 2; k <= last && q == q; ++k) {
    T r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T chebyshev_t(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity(n);
  if (n > T(6) && sycl::fabs(x) < T(1)) return sycl::cos(n * sycl::acos(x));
  return chebyshev_recurrence(x, x, n);
}
template <class T> inline T chebyshev_u(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? n + T(1) : parity(n) * (n + T(1));
  if (n > T(8) && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    return sycl::sin((n + T(1)) * angle) / sycl::sin(angle);
  }
  return chebyshev_recurrence(x, x + x, n);
}
template <class T> inline T chebyshev_v(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity(n) * (n + n + T(1));
  if (n > T(8) && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    if (sycl::sin(angle * T(0.5)) == T(1)) return parity(n) * (n + n + T(1));
    return sycl::cos((n + T(0.5)) * angle) / sycl::cos(angle * T(0.5));
  }
  return chebyshev_recurrence(x, x + x - T(1), n);
}
template <class T> inline T chebyshev_w(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? n + n + T(1) : parity(n);
  if (n > T(8) && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    if (sycl::cos(angle * T(0.5)) == T(1)) return x > T(0) ? n + n + T(1) : parity(n);
    return sycl::sin((n + T(0.5)) * angle) / sycl::sin(angle * T(0.5));
  }
  return chebyshev_recurrence(x, x + x + T(1), n);
}
template <class T> inline T shifted_chebyshev_t(T x, T n) { return chebyshev_t(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_u(T x, T n) { return chebyshev_u(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_v(T x, T n) { return chebyshev_v(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_w(T x, T n) { return chebyshev_w(x + x - T(1), n); }

// Upstream answers NaN above this degree, where the result overflows anyhow.
template <class T> inline T hermite_limit() { return sizeof(T) == 4 ? T(128) : T(512); }
template <class T> inline T hermite_h(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (n == T(0)) return T(1);
  if (n > hermite_limit<T>()) return nan<T>();
  const int32_t last = steps(n);
  T p = T(1), q = x + x;
  for (int32_t k = 1; k < last; ++k) {
    T r = (x + x) * q - T(k + k) * p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T hermite_he(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (n == T(0)) return T(1);
  if (n > hermite_limit<T>()) return nan<T>();
  const int32_t last = steps(n);
  T p = T(1), q = x;
  for (int32_t k = 1; k < last; ++k) {
    T r = x * q - T(k) * p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T laguerre_l(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (n == T(0) || x == T(0)) return T(1);
  const int32_t last = steps(n);
  T p = T(1), q = T(1) - x;
  for (int32_t k = 1; k < last && q == q; ++k) {
    T r = ((T(k + k) + (T(1) - x)) * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T legendre_p(T x, T degree_of) {
  const T n = degree(degree_of);
  if (n < T(0)) return T(0);
  if (n == T(0)) return T(1);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity(n);
  const int32_t last = steps(n);
  T p = T(1), q = x;
  for (int32_t k = 1; k < last && q == q; ++k) {
    T r = (T(k + k + 1) * x * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}

}  // namespace xpu
