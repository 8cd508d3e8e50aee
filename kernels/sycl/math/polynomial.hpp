// Orthogonal polynomials of degree n at x, by their three-term recurrences. Included by math.hpp.
// A negative, NaN or unrepresentable degree gives 0 and a fractional one is truncated.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

template <class T> inline int64_t degree(T n) { return n > T(-1) && n < T(9e18) ? static_cast<int64_t>(n) : -1; }
template <class T> inline T parity(int64_t n) { return n % 2 == 0 ? T(1) : T(-1); }

// The Chebyshev kinds differ in their degree 1 and in their form for angles; large degrees inside (-1, 1) use the
// angle.
template <class T> inline T chebyshev_recurrence(T x, T first, int64_t n) {
  if (n == 0) return T(1);
  T p = T(1), q = first;
  for (int64_t k = 2; k <= n && q == q; ++k) {
    T r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T chebyshev_t(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity<T>(n);
  if (n > 6 && sycl::fabs(x) < T(1)) return sycl::cos(T(n) * sycl::acos(x));
  return chebyshev_recurrence(x, x, n);
}
template <class T> inline T chebyshev_u(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(n + 1) : parity<T>(n) * T(n + 1);
  if (n > 8 && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    return sycl::sin(T(n + 1) * angle) / sycl::sin(angle);
  }
  return chebyshev_recurrence(x, x + x, n);
}
template <class T> inline T chebyshev_v(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity<T>(n) * T(n + n + 1);
  if (n > 8 && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    if (sycl::sin(angle * T(0.5)) == T(1)) return parity<T>(n) * T(n + n + 1);
    return sycl::cos((T(n) + T(0.5)) * angle) / sycl::cos(angle * T(0.5));
  }
  return chebyshev_recurrence(x, x + x - T(1), n);
}
template <class T> inline T chebyshev_w(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(n + n + 1) : parity<T>(n);
  if (n > 8 && sycl::fabs(x) < T(1)) {
    T angle = sycl::acos(x);
    if (sycl::cos(angle * T(0.5)) == T(1)) return x > T(0) ? T(n + n + 1) : parity<T>(n);
    return sycl::sin((T(n) + T(0.5)) * angle) / sycl::sin(angle * T(0.5));
  }
  return chebyshev_recurrence(x, x + x + T(1), n);
}
template <class T> inline T shifted_chebyshev_t(T x, T n) { return chebyshev_t(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_u(T x, T n) { return chebyshev_u(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_v(T x, T n) { return chebyshev_v(x + x - T(1), n); }
template <class T> inline T shifted_chebyshev_w(T x, T n) { return chebyshev_w(x + x - T(1), n); }

// Upstream answers NaN above this degree, where the result overflows anyhow.
template <class T> inline int64_t hermite_limit() { return sizeof(T) == 4 ? 128 : 512; }
template <class T> inline T hermite_h(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (n == 0) return T(1);
  if (n > hermite_limit<T>()) return nan<T>();
  T p = T(1), q = x + x;
  for (int64_t k = 1; k < n; ++k) {
    T r = (x + x) * q - T(k + k) * p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T hermite_he(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (n == 0) return T(1);
  if (n > hermite_limit<T>()) return nan<T>();
  T p = T(1), q = x;
  for (int64_t k = 1; k < n; ++k) {
    T r = x * q - T(k) * p;
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T laguerre_l(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (n == 0 || x == T(0)) return T(1);
  T p = T(1), q = T(1) - x;
  for (int64_t k = 1; k < n && q == q; ++k) {
    T r = ((T(k + k) + (T(1) - x)) * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}
template <class T> inline T legendre_p(T x, T degree_of) {
  int64_t n = degree(degree_of);
  if (n < 0) return T(0);
  if (n == 0) return T(1);
  if (sycl::fabs(x) == T(1)) return x > T(0) ? T(1) : parity<T>(n);
  T p = T(1), q = x;
  for (int64_t k = 1; k < n && q == q; ++k) {
    T r = (T(k + k + 1) * x * q - T(k) * p) / T(k + 1);
    p = q;
    q = r;
  }
  return q;
}

}  // namespace xpu
