// Error function family and the normal distribution. Included by math.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

// exp(x^2) erfc(x) for x >= 0.46875, after Cody, Rational Chebyshev approximations for the error function (1969).
template <class T> inline T erfcx_positive(T x) {
  if (x <= T(4)) {
    constexpr T p[] = {T(2.15311535474403846e-8), T(5.64188496988670089e-1), T(8.88314979438837594e0),
                       T(6.61191906371416295e1),  T(2.98635138197400131e2),  T(8.81952221241769090e2),
                       T(1.71204761263407058e3),  T(2.05107837782607147e3),  T(1.23033935479799725e3)};
    constexpr T q[] = {T(1),
                       T(1.57449261107098347e1),
                       T(1.17693950891312499e2),
                       T(5.37181101862009858e2),
                       T(1.62138957456669019e3),
                       T(3.29079923573345963e3),
                       T(4.36261909014324716e3),
                       T(3.43936767414372164e3),
                       T(1.23033935480374942e3)};
    return horner(x, p) / horner(x, q);
  }
  T y = T(1) / (x * x);
  constexpr T p[] = {T(1.63153871373020978e-2), T(3.05326634961232344e-1), T(3.60344899949804439e-1),
                     T(1.25781726111229246e-1), T(1.60837851487422766e-2), T(6.58749161529837803e-4)};
  constexpr T q[] = {T(1),
                     T(2.56852019228982242e0),
                     T(1.87295284992346725e0),
                     T(5.27905102951428412e-1),
                     T(6.05183413124413191e-2),
                     T(2.33520497626869185e-3)};
  T r = y * horner(y, p) / horner(y, q);
  return (T(0.56418958354775628695) - r) / x;
}

template <class T> inline T erfcx(T x) {
  if (x != x) return x;
  if (x < T(-27)) return inf<T>();
  if (sycl::fabs(x) < T(0.46875)) return sycl::exp(x * x) * sycl::erfc(x);
  T r = erfcx_positive(sycl::fabs(x));
  // x * x in two parts, so that the exponential keeps its relative accuracy
  if (x > T(0)) return r;
  T high = sycl::trunc(x * T(16)) * T(0.0625), low = (x - high) * (x + high);
  T e = sycl::exp(high * high) * sycl::exp(low);
  return e + e - r;
}

// Starting value of the normal quantile, 1e-9 relative: P. J. Acklam's rational approximation. q = p - 1/2, tail the
// smaller of p and 1 - p.
template <class T> inline T normal_quantile_start(T q, T tail) {
  if (tail >= T(0.02425)) {
    T r = q * q;
    constexpr T a[] = {T(-3.969683028665376e+01), T(2.209460984245205e+02),  T(-2.759285104469687e+02),
                       T(1.383577518672690e+02),  T(-3.066479806614716e+01), T(2.506628277459239e+00)};
    constexpr T b[] = {T(-5.447609879822406e+01), T(1.615858368580409e+02),  T(-1.556989798598866e+02),
                       T(6.680131188771972e+01),  T(-1.328068155288572e+01), T(1)};
    return q * horner(r, a) / horner(r, b);
  }
  T r = sycl::sqrt(T(-2) * sycl::log(tail));
  constexpr T c[] = {T(-7.784894002430293e-03), T(-3.223964580411365e-01), T(-2.400758277161838e+00),
                     T(-2.549732539343734e+00), T(4.374664141464968e+00),  T(2.938163982698783e+00)};
  constexpr T d[] = {T(7.784695709041462e-03), T(3.224671290700398e-01), T(2.445134137142996e+00),
                     T(3.754408661907416e+00), T(1)};
  T x = horner(r, c) / horner(r, d);
  return q < T(0) ? x : -x;
}

// One Halley step on the tail's logarithm-free form; x <= 0 is the quantile of `tail`.
template <class T> inline T normal_quantile_refine(T x, T tail) {
  T cdf = T(0.5) * sycl::erfc(x * T(-0.70710678118654752440));
  T u = (cdf / tail - T(1)) * sycl::exp(T(0.5) * x * x + sycl::log(tail)) * T(2.5066282746310005024);
  return x - u / (T(1) + T(0.5) * x * u);
}

template <class T> inline T ndtri(T p) {
  if (p == T(0)) return -inf<T>();
  if (p == T(1)) return inf<T>();
  if (!(p > T(0) && p < T(1))) return nan<T>();
  T q = p - T(0.5), tail = q < T(0) ? p : T(1) - p;
  T x = -sycl::fabs(normal_quantile_start(q, tail));
  x = normal_quantile_refine(x, tail);
  return q < T(0) ? x : -x;
}

// Single precision, 4 ULP: M. Giles, Approximating the erfinv function (2010). Both polynomials are computed, since
// half of the items want each.
inline float erfinv_single(float y) {
  float w = -sycl::log((1.0f - y) * (1.0f + y));
  constexpr float p[] = {2.81022636e-08f, 3.43273939e-07f,  -3.5233877e-06f, -4.39150654e-06f, 2.1858087e-04f,
                         -1.25372503e-3f, -4.17768164e-03f, 2.46640727e-01f, 1.50140941f};
  constexpr float q[] = {-2.00214257e-4f, 1.00950558e-04f, 1.34934322e-03f, -3.67342844e-03f, 5.73950773e-03f,
                         -7.6224613e-03f, 9.43887047e-03f, 1.00167406f,     2.83297682f};
  float middle = horner(w - 2.5f, p), tail = horner(sycl::sqrt(w) - 3.0f, q);
  float r = (w < 5.0f ? middle : tail) * y;
  return sycl::fabs(y) == 1.0f ? sycl::copysign(inf<float>(), y) : r;
}

template <class T> inline T erfinv(T y) {
  if constexpr (sizeof(T) == 4) return erfinv_single(y);
  T m = sycl::fabs(y);
  if (!(m <= T(1))) return nan<T>();
  if (m == T(1)) return sycl::copysign(inf<T>(), y);
  T tail = T(0.5) - T(0.5) * m;
  T x = normal_quantile_start(T(0.5) * m, tail) * T(0.70710678118654752440);
  // Halley's step; the residual is taken where it has all its digits
  T err = m < T(0.5) ? sycl::erf(x) - m : (T(1) - m) - sycl::erfc(x);
  T u = err * T(0.88622692545275801365) * sycl::exp(x * x);
  return sycl::copysign(x - u / (T(1) + x * u), y);
}

template <class T> inline T log_ndtr(T x) {
  T t = x * T(0.70710678118654752440);
  if (x < T(-1)) return sycl::log(T(0.5) * erfcx(-t)) - t * t;
  return sycl::log1p(T(-0.5) * sycl::erfc(t));
}

}  // namespace xpu
