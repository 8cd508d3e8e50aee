// Elementary functions of a complex argument, with the special values of C99's Annex G. Included by math.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

template <class T> inline cplx<T> conj(cplx<T> z) { return {z.re, -z.im}; }
template <class T> inline T abs(cplx<T> z) { return sycl::hypot(z.re, z.im); }
template <class T> inline T angle(cplx<T> z) {
  return z.re != z.re || z.im != z.im ? nan<T>() : sycl::atan2(z.im, z.re);
}
template <class T> inline cplx<T> scale(cplx<T> z, T s) { return {z.re * s, z.im * s}; }
// A factor with no imaginary part keeps infinities, which the whole product would turn into NaN.
template <class T> inline cplx<T> by_factor(cplx<T> s, cplx<T> z) { return s.im == T(0) ? scale(z, s.re) : s * z; }
template <class T> inline cplx<T> times_i(cplx<T> z) { return {-z.im, z.re}; }
template <class T> inline cplx<T> sgn(cplx<T> z) {
  T m = abs(z);
  return m == T(0) ? cplx<T>(T(0), T(0)) : cplx<T>(z.re / m, z.im / m);
}
template <class T> inline cplx<T> reciprocal(cplx<T> z) { return cplx<T>(T(1)) / z; }

// Largest argument of exp that is finite, rounded down.
template <class T> inline T exp_limit() { return sizeof(T) == 4 ? T(88) : T(709); }
// Above this, squares may overflow; below its reciprocal they may lose bits.
template <class T> inline T square_limit() { return sizeof(T) == 4 ? T(1e18) : T(1e150); }

template <class T> inline cplx<T> exp(cplx<T> z) {
  if (z.im == T(0)) return {sycl::exp(z.re), z.im};
  if (!isfinite(z.im) && isinf(z.re)) return z.re < T(0) ? cplx<T>(T(0), T(0)) : cplx<T>(z.re, nan<T>());
  T s = sycl::sin(z.im), c = sycl::cos(z.im);
  if (z.re > exp_limit<T>()) {  // exp(re) overflows where the product may not
    T h = sycl::exp(z.re * T(0.5));
    return {h * c * h, h * s * h};
  }
  T e = sycl::exp(z.re);
  return {e * c, e * s};
}

template <class T> inline cplx<T> expm1(cplx<T> z) {
  if (z.im == T(0)) return {sycl::expm1(z.re), z.im};
  if (!isfinite(z.re) || z.re > exp_limit<T>()) {
    cplx<T> e = exp(z);
    return {e.re - T(1), e.im};
  }
  T h = sycl::sin(z.im * T(0.5)), m = sycl::expm1(z.re);
  return {m * sycl::cos(z.im) - T(2) * h * h, (m + T(1)) * sycl::sin(z.im)};
}

// log |z|, accurate where |z| is near 1 and safe where |z| leaves the range.
template <class T> inline T log_abs(T x, T y) {
  x = sycl::fabs(x);
  y = sycl::fabs(y);
  T big = sycl::fmax(x, y), small = sycl::fmin(x, y);
  if (big == inf<T>()) return big;
  if (x != x || y != y) return nan<T>();
  if (big > T(0.5) && big < T(2)) return T(0.5) * sycl::log1p((big - T(1)) * (big + T(1)) + small * small);
  if (big > square_limit<T>()) return sycl::log(sycl::hypot(x * T(0.25), y * T(0.25))) + T(1.38629436111989061883);
  return sycl::log(sycl::hypot(x, y));
}

template <class T> inline cplx<T> log(cplx<T> z) { return {log_abs(z.re, z.im), sycl::atan2(z.im, z.re)}; }
template <class T> inline cplx<T> log2(cplx<T> z) { return scale(log(z), T(1.44269504088896340736)); }
template <class T> inline cplx<T> log10(cplx<T> z) { return scale(log(z), T(0.43429448190325182765)); }
template <class T> inline cplx<T> log1p(cplx<T> z) {
  if (sycl::fabs(z.re) < T(0.5) && sycl::fabs(z.im) < T(0.5))
    return {T(0.5) * sycl::log1p(z.re * (T(2) + z.re) + z.im * z.im), sycl::atan2(z.im, T(1) + z.re)};
  return log(cplx<T>(T(1) + z.re, z.im));
}
template <class T> inline cplx<T> exp2(cplx<T> z) { return exp(scale(z, T(0.69314718055994530942))); }

template <class T> inline cplx<T> sqrt(cplx<T> z) {
  if (z.re == T(0) && z.im == T(0)) return {T(0), z.im};
  if (isinf(z.im)) return {inf<T>(), z.im};
  if (isinf(z.re)) {
    if (z.re > T(0)) return {z.re, z.im != z.im ? z.im : sycl::copysign(T(0), z.im)};
    return {z.im != z.im ? z.im : T(0), sycl::copysign(inf<T>(), z.im)};
  }
  T x = sycl::fabs(z.re), y = sycl::fabs(z.im), unscale = T(1);
  T big = sycl::fmax(x, y);
  if (big > square_limit<T>()) {
    x *= T(0.0625);
    y *= T(0.0625);
    unscale = T(4);
  } else if (big * square_limit<T>() < T(1)) {
    T up = sizeof(T) == 4 ? T(1.8446744073709552e19) : T(1.1579208923731620e77);  // 2^64 and 2^256
    x *= up;
    y *= up;
    unscale = sizeof(T) == 4 ? T(2.3283064365386963e-10) : T(2.9387358770557188e-39);
  }
  T w = sycl::sqrt((x + sycl::hypot(x, y)) * T(0.5));
  T v = y / (w + w) * unscale;
  w *= unscale;
  return z.re < T(0) ? cplx<T>(v, sycl::copysign(w, z.im)) : cplx<T>(w, sycl::copysign(v, z.im));
}
template <class T> inline cplx<T> rsqrt(cplx<T> z) { return reciprocal(sqrt(z)); }

// The product of Annex G: infinite where a factor is, also if the other has a NaN.
template <class T> inline cplx<T> infinite_product(cplx<T> a, cplx<T> b) {
  const cplx<T> r = a * b;
  if (r.re == r.re || r.im == r.im) return r;
  auto boxed = [](cplx<T> z) {
    return cplx<T>(sycl::copysign(isinf(z.re) ? T(1) : T(0), z.re), sycl::copysign(isinf(z.im) ? T(1) : T(0), z.im));
  };
  auto without_nan = [](cplx<T> z) {
    return cplx<T>(z.re != z.re ? sycl::copysign(T(0), z.re) : z.re, z.im != z.im ? sycl::copysign(T(0), z.im) : z.im);
  };
  const bool a_is = isinf(a.re) || isinf(a.im), b_is = isinf(b.re) || isinf(b.im);
  if (!a_is && !b_is) return r;
  if (a_is) a = boxed(a), b = without_nan(b);
  if (b_is) b = boxed(b), a = without_nan(a);
  const cplx<T> s = a * b;
  return {inf<T>() * s.re, inf<T>() * s.im};
}

template <class T> inline cplx<T> pow(cplx<T> z, cplx<T> w) {
  if (w.re == T(0) && w.im == T(0)) return cplx<T>(T(1), T(0));
  if (z.re == T(0) && z.im == T(0) && w.im == T(0) && w.re > T(0)) return cplx<T>(T(0), T(0));
  if (!isfinite(z.re) || !isfinite(z.im)) {  // a whole power is a product of infinities
    const T most = T(1024);
    if (w.im == T(0) && w.re > T(0) && w.re <= most && w.re == sycl::trunc(w.re)) {
      uint32_t left = static_cast<uint32_t>(w.re);
      for (; (left & 1) == 0; left >>= 1) z = z * z;
      cplx<T> r = z;
      while (left >>= 1) {
        z = z * z;
        if (left & 1) r = r * z;
      }
      return r;
    }
  }
  return exp(infinite_product(w, log(z)));
}
template <class T> inline cplx<T> pow_scalar(cplx<T> z, cplx<T> e) {
  if (e.im == T(0)) {
    if (e.re == T(2)) return z * z;
    if (e.re == T(3)) return z * z * z;
    if (e.re == T(0.5)) return sqrt(z);
    if (e.re == T(-0.5)) return rsqrt(z);
    if (e.re == T(-1)) return reciprocal(z);
    if (e.re == T(-2)) return reciprocal(z * z);
    if (e.re == T(1)) return z;
  }
  return pow(z, e);
}

template <class T> inline cplx<T> sinh(cplx<T> z) {
  T x = z.re, y = z.im;
  if (y == T(0)) return {sycl::sinh(x), y};
  if (x == T(0)) return {x, sycl::sin(y)};
  if (isinf(x) && !isfinite(y)) return {inf<T>(), nan<T>()};  // Annex G leaves the sign open
  T s = sycl::sin(y), c = sycl::cos(y);
  if (sycl::fabs(x) > exp_limit<T>()) {
    T h = sycl::exp(sycl::fabs(x) * T(0.5));
    return {sycl::copysign(T(0.5), x) * h * c * h, T(0.5) * h * s * h};
  }
  return {sycl::sinh(x) * c, sycl::cosh(x) * s};
}
template <class T> inline cplx<T> cosh(cplx<T> z) {
  T x = z.re, y = z.im;
  if (y == T(0)) return {sycl::cosh(x), x * y == T(0) ? x * y : y};
  if (x == T(0)) return {sycl::cos(y), isfinite(y) ? x * sycl::sin(y) : T(0)};
  if (isinf(x) && !isfinite(y)) return {inf<T>(), nan<T>()};
  T s = sycl::sin(y), c = sycl::cos(y);
  if (sycl::fabs(x) > exp_limit<T>()) {
    T h = sycl::exp(sycl::fabs(x) * T(0.5));
    return {T(0.5) * h * c * h, sycl::copysign(T(0.5), x) * h * s * h};
  }
  return {sycl::cosh(x) * c, sycl::sinh(x) * s};
}
template <class T> inline cplx<T> sin(cplx<T> z) {
  if (isinf(z.im) && !isfinite(z.re)) return {nan<T>(), inf<T>()};
  cplx<T> r = sinh(cplx<T>(-z.im, z.re));
  return {r.im, -r.re};
}
template <class T> inline cplx<T> cos(cplx<T> z) { return cosh(cplx<T>(-z.im, z.re)); }

// Kahan, Branch cuts for complex elementary functions (1987).
template <class T> inline cplx<T> tanh(cplx<T> z) {
  T x = z.re, y = z.im;
  if (y == T(0)) return {sycl::tanh(x), y};
  if (isinf(x)) return {sycl::copysign(T(1), x), isfinite(y) ? sycl::copysign(T(0), sycl::sin(T(2) * y)) : T(0)};
  if (!isfinite(y)) return {x == T(0) ? x : nan<T>(), nan<T>()};
  if (sycl::fabs(x) > (sizeof(T) == 4 ? T(11) : T(22))) {
    T e = sycl::exp(-sycl::fabs(x));
    return {sycl::copysign(T(1), x), T(4) * sycl::sin(y) * sycl::cos(y) * e * e};
  }
  T t = sycl::tan(y), s = sycl::sinh(x);
  T beta = T(1) + t * t, rho = sycl::sqrt(T(1) + s * s);
  if (isinf(t)) return {rho / s, T(1) / t};
  T d = T(1) + beta * s * s;
  return {beta * rho * s / d, t / d};
}
template <class T> inline cplx<T> tan(cplx<T> z) {
  cplx<T> r = tanh(cplx<T>(-z.im, z.re));
  return {r.im, -r.re};
}

// asin and acos in the first quadrant after Hull, Fairgrieve and Tang (1997): the parts that both share.
template <class T> struct ArcParts { T asin_re, acos_re, im; };
template <class T> inline ArcParts<T> arc_parts(T x, T y) {
  if (x > square_limit<T>() || y > square_limit<T>()) {
    T im = log_abs(x, y) + T(0.69314718055994530942);
    return {sycl::atan2(x, y), sycl::atan2(y, x), im};
  }
  T r = sycl::hypot(x + T(1), y), s = sycl::hypot(x - T(1), y);
  T a = T(0.5) * (r + s), b = x / a, y2 = y * y;
  ArcParts<T> p;
  if (b <= T(0.6417)) {
    p.asin_re = sycl::asin(b);
    p.acos_re = sycl::acos(b);
  } else {
    T ax = a + x;
    T d = x <= T(1) ? sycl::sqrt(T(0.5) * ax * (y2 / (r + x + T(1)) + (s + (T(1) - x))))
                    : y * sycl::sqrt(T(0.5) * (ax / (r + x + T(1)) + ax / (s + (x - T(1)))));
    p.asin_re = sycl::atan2(x, d);
    p.acos_re = sycl::atan2(d, x);
  }
  if (a <= T(1.5)) {
    // x = 1 with y = 0 would divide 0 by 0.
    T right = x < T(1) ? y2 / (s + (T(1) - x)) : s + (x - T(1));
    T am1 = T(0.5) * (y2 / (r + x + T(1)) + right);
    p.im = sycl::log1p(am1 + sycl::sqrt(am1 * (a + T(1))));
  } else {
    p.im = sycl::log(a + sycl::sqrt((a - T(1)) * (a + T(1))));
  }
  return p;
}

template <class T> inline cplx<T> asinh(cplx<T> z) {
  T x = z.re, y = z.im;
  if (isinf(x)) {
    if (y != y) return {x, y};
    return {x, sycl::copysign(isinf(y) ? pi<T>() * T(0.25) : T(0), y)};
  }
  if (isinf(y))
    return x != x ? cplx<T>(inf<T>(), nan<T>())
                  : cplx<T>(sycl::copysign(inf<T>(), x), sycl::copysign(pi<T>() * T(0.5), y));
  if (x != x) return {x, y == T(0) ? y : x};
  if (y != y) return {y, y};
  ArcParts<T> p = arc_parts(sycl::fabs(y), sycl::fabs(x));
  return {sycl::copysign(p.im, x), sycl::copysign(p.asin_re, y)};
}
template <class T> inline cplx<T> asin(cplx<T> z) {
  if (isinf(z.re) && z.im != z.im) return {z.im, inf<T>()};
  cplx<T> r = asinh(cplx<T>(-z.im, z.re));
  return {r.im, -r.re};
}
template <class T> inline cplx<T> acos(cplx<T> z) {
  T x = z.re, y = z.im;
  if (isinf(x)) {
    if (y != y) return {y, inf<T>()};
    if (isinf(y)) return {pi<T>() * (x > T(0) ? T(0.25) : T(0.75)), -y};
    return {x > T(0) ? T(0) : pi<T>(), sycl::copysign(inf<T>(), -y)};
  }
  if (isinf(y)) return {x != x ? x : pi<T>() * T(0.5), -y};
  if (x != x) return {x, x};
  if (y != y) return {x == T(0) ? pi<T>() * T(0.5) : y, y};
  ArcParts<T> p = arc_parts(sycl::fabs(x), sycl::fabs(y));
  return {signbit(x) ? pi<T>() - p.acos_re : p.acos_re, sycl::copysign(p.im, -y)};
}
template <class T> inline cplx<T> acosh(cplx<T> z) {
  cplx<T> r = acos(z);
  if (r.re != r.re && r.im != r.im) return r;
  if (r.re != r.re) return {sycl::fabs(r.im), r.re};
  if (r.im != r.im) return {r.im, r.re};
  return {sycl::fabs(r.im), sycl::copysign(r.re, z.im)};
}

template <class T> inline cplx<T> atanh(cplx<T> z) {
  T x = z.re, y = z.im, ax = sycl::fabs(x), ay = sycl::fabs(y);
  T quarter_turn = sycl::copysign(pi<T>() * T(0.5), y);
  if (isinf(x)) return {sycl::copysign(T(0), x), y != y ? y : quarter_turn};
  if (isinf(y)) return {sycl::copysign(T(0), x), quarter_turn};
  if (x != x) return {x, x};
  if (y != y) return {x == T(0) ? x : y, y};
  if (ax > square_limit<T>() || ay > square_limit<T>()) {
    T m = sycl::hypot(ax * T(0.5), ay * T(0.5));
    return {x * T(0.25) / m / m, quarter_turn};
  }
  T d = (T(1) - ax) * (T(1) - ax) + y * y;
  T re = ax == T(1) && y == T(0) ? inf<T>() : T(0.25) * sycl::log1p(T(4) * ax / d);
  if (ax == T(1) && ay < T(1e-10) && y != T(0)) re = T(0.5) * (T(0.69314718055994530942) - sycl::log(ay));
  return {sycl::copysign(re, x), T(0.5) * sycl::atan2(T(2) * y, (T(1) - ax) * (T(1) + ax) - y * y)};
}
template <class T> inline cplx<T> atan(cplx<T> z) {
  cplx<T> r = atanh(cplx<T>(-z.im, z.re));
  return {r.im, -r.re};
}

template <class T> inline cplx<T> sigmoid(cplx<T> z) { return reciprocal(cplx<T>(T(1)) + exp(-z)); }
template <class T> inline cplx<T> silu(cplx<T> z) { return z / (cplx<T>(T(1)) + exp(-z)); }
template <class T> inline cplx<T> silu_backward(cplx<T> grad, cplx<T> z) {
  cplx<T> one(T(1)), s = sigmoid(z);
  return grad * s * (one + z * (one - s));
}
template <class T> inline cplx<T> sinc(cplx<T> z) {
  cplx<T> x = scale(z, pi<T>());
  return z.re == T(0) && z.im == T(0) ? cplx<T>(T(1)) : sin(x) / x;
}
template <class T> inline cplx<T> lerp(cplx<T> a, cplx<T> b, cplx<T> w) {
  return w.re * w.re + w.im * w.im < T(0.25) ? a + w * (b - a) : b - (b - a) * (cplx<T>(T(1)) - w);
}
template <class T> inline cplx<T> logaddexp(cplx<T> a, cplx<T> b) {
  if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) return {nan<T>(), nan<T>()};
  cplx<T> low = a.re < b.re ? a : b, high = a.re < b.re ? b : a;
  if (!isfinite(low.re) && low.re == high.re) return low.re < T(0) ? low : log(exp(low) + exp(high));
  return high + log1p(exp(low - high));
}

}  // namespace xpu
