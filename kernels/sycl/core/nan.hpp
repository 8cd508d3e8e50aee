// NaN tests of every element type. Nothing is NaN among integers.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/complex.hpp"

namespace xpu {

template <class T> inline bool is_nan(T v) { return v != v; }
template <class T> inline bool is_nan(cplx<T> v) { return v.re != v.re || v.im != v.im; }

// `a`, or x where that is larger (smaller); a nan where one is. A nan is put into the bits of floats: of one choice for
// both the compiler makes three instructions that wait for one another, of this one, max.
inline float nan_if(bool nan, float v) {
  return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, v) | (nan ? 0x7fc00000u : 0u));
}
inline double nan_if(bool nan, double v) {
  return __builtin_bit_cast(double, __builtin_bit_cast(uint64_t, v) | (nan ? uint64_t{0x7ff8} << 48 : uint64_t{0}));
}
template <class T> inline T larger(T a, T x) { return is_nan(x) || x > a ? x : a; }
template <class T> inline T smaller(T a, T x) { return is_nan(x) || x < a ? x : a; }
inline float larger(float a, float x) { return nan_if(is_nan(x), x > a ? x : a); }
inline float smaller(float a, float x) { return nan_if(is_nan(x), x < a ? x : a); }
inline double larger(double a, double x) { return nan_if(is_nan(x), x > a ? x : a); }
inline double smaller(double a, double x) { return nan_if(is_nan(x), x < a ? x : a); }

}  // namespace xpu
