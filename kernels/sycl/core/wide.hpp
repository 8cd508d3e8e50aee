// A number as the sum of two floats: long products of floats stay exact without double, which some GPUs lack.
// Dekker, "A floating-point technique for extending the available precision", 1971.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

template <class R> struct Wide { R hi, lo; };

inline float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// A sum without a finite error term, as one with infinity, has none.
template <class R> inline Wide<R> with_error(R value, R error) { return {value, error - error == R(0) ? error : R(0)}; }

template <class R> inline Wide<R> operator*(const Wide<R>& a, const Wide<R>& b) {
#pragma clang fp contract(off)
  const R product = a.hi * b.hi;
  return with_error(product, fused_multiply_add(a.hi, b.hi, -product) + fused_multiply_add(a.hi, b.lo, a.lo * b.hi));
}
template <class R> inline Wide<R> operator+(const Wide<R>& a, const Wide<R>& b) {
#pragma clang fp contract(off)
  const R sum = a.hi + b.hi, back = sum - a.hi;
  return with_error(sum, ((a.hi - (sum - back)) + (b.hi - back)) + (a.lo + b.lo));
}
template <class R> inline Wide<R> operator-(const Wide<R>& a) { return {-a.hi, -a.lo}; }

struct WideComplex { Wide<float> re, im; };
inline WideComplex operator*(const WideComplex& a, const WideComplex& b) {
  return {a.re * b.re + -(a.im * b.im), a.re * b.im + a.im * b.re};
}

// The state of a product of values of T.
template <class T> struct product_state { using type = T; };
template <> struct product_state<float> { using type = Wide<float>; };
template <> struct product_state<cplx<float>> { using type = WideComplex; };
template <class T> using product_state_t = typename product_state<T>::type;

template <class T> inline T widened(T v) { return v; }
inline Wide<float> widened(float v) { return {v, 0.0f}; }
inline WideComplex widened(cplx<float> v) { return {widened(v.re), widened(v.im)}; }

// A product with one more factor, to the bit v * widened(x) once it is settled(): a value that is not finite stays so,
// and what is left of its error is taken away at the end, not at every factor.
template <class T> inline T times(T v, T x) { return v * x; }
inline Wide<float> times(const Wide<float>& v, float x) {
#pragma clang fp contract(off)
  const float product = v.hi * x;
  return {product, fused_multiply_add(v.hi, x, -product) + v.lo * x};
}
inline WideComplex times(const WideComplex& v, cplx<float> x) { return v * widened(x); }

template <class T> inline T settled(T v) { return v; }
inline Wide<float> settled(const Wide<float>& v) { return with_error(v.hi, v.lo); }

template <class T> inline T narrowed(T v) { return v; }
// Without an error the sign of a zero stays.
inline float narrowed(const Wide<float>& v) { return v.lo == 0.0f ? v.hi : v.hi + v.lo; }
inline cplx<float> narrowed(const WideComplex& v) { return {narrowed(v.re), narrowed(v.im)}; }

}  // namespace xpu
