// Scalar functions of the pointwise operators, over float and double (the compute types) and the integers.
// This header has the basics and names the others; the semantics, special values included, are those of torch on CPU.
#pragma once
#include "kernels/sycl/core/device.hpp"
#include "kernels/sycl/math/single.hpp"

namespace xpu {

template <class T> inline T inf() { return T(__builtin_inff()); }
template <class T> inline T nan() { return T(__builtin_nanf("")); }
template <class T> inline T pi() { return T(3.14159265358979323846); }
template <class T> inline bool isnan(T a) { return a != a; }
template <class T> inline bool isinf(T a) { return sycl::fabs(a) == inf<T>(); }
template <class T> inline bool isfinite(T a) { return sycl::fabs(a) < inf<T>(); }

// The unsigned type with the bits of a floating type, and its layout.
template <class T> struct float_bits;
template <> struct float_bits<half> {
  using type = uint16_t;
  static constexpr int mantissa = 10, bias = 15;
};
template <> struct float_bits<bf16> {
  using type = uint16_t;
  static constexpr int mantissa = 7, bias = 127;
};
template <> struct float_bits<float> {
  using type = uint32_t;
  static constexpr int mantissa = 23, bias = 127;
};
template <> struct float_bits<double> {
  using type = uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
};
template <class T> using float_bits_t = typename float_bits<T>::type;

template <class T> inline bool signbit(T a) { return (sycl::bit_cast<float_bits_t<T>>(a) >> (sizeof(T) * 8 - 1)) != 0; }

// Polynomial with the highest coefficient first.
template <class T, int N> inline T horner(T x, const T (&c)[N]) {
  T r = c[0];
#pragma unroll
  for (int i = 1; i < N; ++i) r = r * x + c[i];
  return r;
}

// Chebyshev series sum c[k] T_k(x / 2) with the highest order first and twice the constant term last, by Clenshaw.
// Single precision starts at c[skip].
template <class T, int N> inline T chebyshev_sum(T x, const T (&c)[N], int skip) {
  int first = sizeof(T) == 4 ? skip : 0;
  T b0 = T(0), b1 = T(0), b2 = T(0);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < first) continue;
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + c[i];
  }
  return T(0.5) * (b0 - b2);
}

// ---- integers

template <class T> struct unsigned_of { using type = T; };
template <> struct unsigned_of<int8_t> { using type = uint8_t; };
template <> struct unsigned_of<int16_t> { using type = uint16_t; };
template <> struct unsigned_of<int32_t> { using type = uint32_t; };
template <> struct unsigned_of<int64_t> { using type = uint64_t; };
template <class T> using unsigned_of_t = typename unsigned_of<T>::type;
template <class T> inline constexpr bool is_signed_v = T(-1) < T(0);

template <class T> inline T iabs(T a) {
  using U = unsigned_of_t<T>;
  return a < T(0) ? T(U(0) - U(a)) : a;
}

// Integer division traps on the CPU device for 0 and for lowest / -1: neither may reach the instruction.
template <class T> inline T div_trunc(T a, T b) {
  if constexpr (is_float_v<T>) {
    return sycl::trunc(a / b);
  } else {
    using U = unsigned_of_t<T>;
    if (b == T(0)) return T(-1);
    if (is_signed_v<T> && b == T(-1)) return T(U(0) - U(a));
    return a / b;
  }
}

template <class T> inline T fmod(T a, T b) {
  if constexpr (is_float_v<T>) {
    return sycl::fmod(a, b);
  } else {
    if (b == T(0) || (is_signed_v<T> && b == T(-1))) return T(0);
    return a % b;
  }
}

template <class T> inline T remainder(T a, T b) {
  T r = fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}

template <class T> inline T div_floor(T a, T b) {
  if constexpr (is_float_v<T>) {
    // Python's floor division: exact remainder first, so that a - b * floor(a / b) stays in [0, b).
    if (b == T(0)) return a / b;
    T r = sycl::fmod(a, b);
    T d = (a - r) / b;
    if (r != T(0) && (r < T(0)) != (b < T(0))) d -= T(1);
    if (d == T(0)) return sycl::copysign(T(0), a / b);
    T f = sycl::floor(d);
    return d - f > T(0.5) ? f + T(1) : f;
  } else {
    T q = div_trunc(a, b);
    if (b == T(0)) return q;
    return (a < T(0)) != (b < T(0)) && fmod(a, b) != T(0) ? T(q - 1) : q;
  }
}

// Euclid's with the signs that torch CPU gives for the lowest number, which has no absolute value.
// By halving (Stein 1967): shifts vectorise, divisions do not.
template <class T> inline T gcd(T a, T b) {
  using U = unsigned_of_t<T>;
  U u = U(iabs(a)), v = U(iabs(b));  // of the lowest number the magnitude has no place in T
  if (u == U(0) || v == U(0)) return T(u | v);
  const U twos = U(sycl::ctz(U(u | v)));
  u = U(u >> sycl::ctz(u));
  while (v != U(0)) {
    v = U(v >> sycl::ctz(v));
    const U less = u < v ? u : v;
    v = u < v ? U(v - u) : U(u - v);
    u = less;
  }
  return T(U(u << twos));
}

// Small types multiply as int, as in C++: the absolute value is taken before the result wraps.
template <class T> inline T lcm(T a, T b) {
  T g = gcd(a, b);
  if (g == T(0)) return T(0);
  if constexpr (sizeof(T) < 4)
    return T(iabs(int32_t(div_trunc(a, g)) * int32_t(b)));
  else
    return iabs(T(div_trunc(a, g) * b));
}

template <class T> inline T shift_left(T a, T b) {
  using U = unsigned_of_t<T>;
  constexpr int bits = sizeof(T) * 8;
  return b < T(0) || U(b) >= U(bits) ? T(0) : T(U(a) << (U(b) & U(bits - 1)));
}

template <class T> inline T shift_right(T a, T b) {
  using U = unsigned_of_t<T>;
  constexpr int most = sizeof(T) * 8 - (is_signed_v<T> ? 1 : 0);
  constexpr int last = sizeof(T) * 8 - 1;
  if (b < T(0) || U(b) >= U(most)) return is_signed_v<T> ? T(a >> last) : T(0);
  return T(a >> (U(b) & U(last)));
}

// ---- comparisons and rounding

// A NaN in either operand is the result.
template <class T> XPU_SINGLE T maximum(T a, T b) { return a != a || a > b ? a : b; }
template <class T> XPU_SINGLE T minimum(T a, T b) { return a != a || a < b ? a : b; }

template <class T> inline T sign(T a) { return T((a > T(0)) - (a < T(0))); }

template <class T> inline T round_decimals(T a, int64_t decimals) {
  T ten = T(1);
  for (int64_t k = decimals < 0 ? -decimals : decimals; k > 0 && ten < inf<T>(); --k) ten *= T(10);
  return decimals < 0 ? sycl::rint(a / ten) * ten : sycl::rint(a * ten) / ten;
}

template <class T> inline T nan_to_num(T a, T nan_value, T posinf, T neginf) {
  if (a != a) return nan_value;
  if (a == inf<T>()) return posinf;
  return a == -inf<T>() ? neginf : a;
}

// The next value after a in the direction of b, in the storage type.
template <class T> inline T nextafter(T a, T b) {
  using U = float_bits_t<T>;
  constexpr U sign_bit = U(U(1) << (sizeof(T) * 8 - 1));
  opmath_t<T> x = a, y = b;
  if (x != x) return a;
  if (y != y || x == y) return b;
  U u = sycl::bit_cast<U>(a);
  if (x == 0) return sycl::bit_cast<T>(U((sycl::bit_cast<U>(b) & sign_bit) | U(1)));
  bool up = (x < y) == ((u & sign_bit) == 0);
  return sycl::bit_cast<T>(U(up ? u + 1 : u - 1));
}

// a = mantissa * 2^exponent with mantissa in [0.5, 1); 0, inf and NaN have exponent 0.
template <class T> inline int32_t frexp_exponent(T a) {
  using U = float_bits_t<T>;
  constexpr int m = float_bits<T>::mantissa, bias = float_bits<T>::bias;
  if (a == T(0) || !isfinite(a)) return 0;
  int32_t extra = 0;
  if (sycl::fabs(a) < sycl::bit_cast<T>(U(U(1) << m))) {
    a *= T(1ull << (m + 1));
    extra = m + 1;
  }
  return int32_t((sycl::bit_cast<U>(a) >> m) & U(2 * bias + 1)) - (bias - 1) - extra;
}

template <class T> inline T frexp_mantissa(T a) {
  using U = float_bits_t<T>;
  constexpr int m = float_bits<T>::mantissa, bias = float_bits<T>::bias;
  if (a == T(0) || !isfinite(a)) return a;
  if (sycl::fabs(a) < sycl::bit_cast<T>(U(U(1) << m))) a *= T(1ull << (m + 1));
  U u = sycl::bit_cast<U>(a);
  return sycl::bit_cast<T>(U((u & ~(U(2 * bias + 1) << m)) | (U(bias - 1) << m)));
}

// ---- powers

template <class T> inline T pow(T a, T b) {
  if constexpr (is_float_v<T>) {
    return sycl::pow(a, b);
  } else {
    if (is_signed_v<T> && b < T(0)) {
      if (a == T(1)) return T(1);
      return a == T(-1) ? (b & T(1) ? T(-1) : T(1)) : T(0);
    }
    using U = unsigned_of_t<T>;
    U base = U(a), e = U(b), r = 1;
    while (e != 0) {
      if (e & 1) r = U(uint64_t(r) * base);
      base = U(uint64_t(base) * base);
      e >>= 1;
    }
    return T(r);
  }
}

// One exponent for all elements: the branches are uniform. Upstream names the same special exponents.
template <class T> inline T pow_scalar(T a, T e) {
  if (e == T(2)) return a * a;
  if (e == T(3)) return a * a * a;
  if (e == T(0.5)) return sycl::sqrt(a);
  if (e == T(-0.5)) return T(1) / sycl::sqrt(a);
  if (e == T(-1)) return T(1) / a;
  if (e == T(-2)) return T(1) / (a * a);
  if (e == T(1)) return a;
  return sycl::pow(a, e);
}

// Of half at::pow computes no root, which would keep the sign of -0 and refuse -infinity.
template <class T> inline T pow_scalar_half(T a, T e) {
  if (e == T(0.5)) return sycl::sqrt(a == -inf<T>() ? inf<T>() : a) + T(0);
  if (e == T(-0.5)) return T(1) / (sycl::sqrt(a == -inf<T>() ? inf<T>() : a) + T(0));
  return pow_scalar(a, e);
}

// ---- logarithms of sums and products

template <class T> XPU_SINGLE T logaddexp(T a, T b) {
  T far = a == b ? T(0) : fabs(a - b);  // also where both are one infinity
  return maximum(a, b) + log1p_unit(exp(-far));
}
template <class T> XPU_SINGLE T logaddexp2(T a, T b) {
  T far = a == b ? T(0) : fabs(a - b);
  return fma(T(1.44269504088896340736), log1p_unit(exp2(-far)), maximum(a, b));
}
template <class T> XPU_SINGLE T xlogy(T a, T b) {
  T r = a * log(b);
  return b == b && a == T(0) ? T(0) : r;
}
template <class T> XPU_SINGLE T xlog1py(T a, T b) {
  T r = a * log1p(b);
  return b == b && a == T(0) ? T(0) : r;
}
template <class T> XPU_SINGLE T entr(T a) {
  T r = -a * log(a);  // NaN below 0
  r = a == T(0) ? T(0) : r;
  return a < T(0) ? -inf<T>() : r;
}

// eps < 0 stands for none.
template <class T> XPU_SINGLE T logit(T a, T eps) {
  if (eps >= T(0)) a = a < eps ? eps : a > T(1) - eps ? T(1) - eps : a;
  return log(a / (T(1) - a));
}
template <class T> inline T logit_backward(T grad, T a, T eps) {
  if (eps < T(0) ? a < T(0) || a > T(1) : a < eps || a > T(1) - eps) return eps < T(0) ? nan<T>() : T(0);
  return grad / (a * (T(1) - a));
}

template <class T> inline T angle(T a) { return a != a ? a : a < T(0) ? pi<T>() : T(0); }

template <class T> inline T sinc(T a) {
  T x = pi<T>() * a;
  return a == T(0) ? T(1) : sycl::sin(x) / x;
}

// From the nearer end, rounded once, as torch's vectors do. The end is chosen by bits: of a weight that is a number the
// compiler makes a branch for each element otherwise, which costs four times the time.
template <class T> inline T lerp(T a, T b, T weight) {
  using Bits = float_bits_t<T>;
  const T far = sycl::fmin(sycl::floor(sycl::fabs(weight) * T(2)), T(1));  // 1 from a half on
  const Bits near = static_cast<Bits>(static_cast<int32_t>(far) - 1);
  const Bits end = (sycl::bit_cast<Bits>(a) & near) | (sycl::bit_cast<Bits>(b) & ~near);
  return sycl::fma(weight - far, b - a, sycl::bit_cast<T>(end));
}

}  // namespace xpu

#include "kernels/sycl/math/activation.hpp"
#include "kernels/sycl/math/bessel.hpp"
#include "kernels/sycl/math/complex.hpp"
#include "kernels/sycl/math/gamma.hpp"
#include "kernels/sycl/math/polynomial.hpp"
#include "kernels/sycl/math/special.hpp"
