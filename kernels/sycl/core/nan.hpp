// NaN tests of every element type. Nothing is NaN among integers.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/complex.hpp"

namespace xpu {

template <class T> inline bool is_nan(T v) { return v != v; }
template <class T> inline bool is_nan(cplx<T> v) { return v.re != v.re || v.im != v.im; }

// `v`, or a nan where x is one. Sets the bits of the nan separately: a single `?:` compiles to three dependent
// instructions, this form to `max`. F: a float or a vector of it, U: its bits.
template <class F, class U> inline F nan_of(F v, F x, U nan) {
  return __builtin_bit_cast(F, __builtin_bit_cast(U, v) | (x != x ? nan : U(0)));
}
constexpr uint32_t kNanBits = 0x7fc00000u;
constexpr uint64_t kNanBits64 = uint64_t{0x7ff8} << 48;

// `a`, or x where that is larger (smaller); a nan where one is.
template <class T> inline T larger(T a, T x) { return is_nan(x) || x > a ? x : a; }
template <class T> inline T smaller(T a, T x) { return is_nan(x) || x < a ? x : a; }
inline float larger(float a, float x) { return nan_of(x > a ? x : a, x, kNanBits); }
inline float smaller(float a, float x) { return nan_of(x < a ? x : a, x, kNanBits); }
inline double larger(double a, double x) { return nan_of(x > a ? x : a, x, kNanBits64); }
inline double smaller(double a, double x) { return nan_of(x < a ? x : a, x, kNanBits64); }

}  // namespace xpu
