// Gamma function family. Included by math.hpp.
#pragma once
#include "kernels/sycl/core/device.hpp"

namespace xpu {

template <class T> inline T epsilon() { return sizeof(T) == 4 ? T(5.9604645e-8) : T(1.1102230246251565e-16); }

inline double lgamma(double x) { return isinf(x) ? inf<double>() : sycl::lgamma(x); }

// Without a loop or a branch, since sycl::lgamma does not become vector code: a minimax quotient with the factors
// (x - 1)(x - 2) on [0.5, 3], Stirling's formula with a minimax remainder above, reflection below.
inline float lgamma(float a) {
  bool reflect = a < 0.5f;
  float x = reflect ? 1.0f - a : a;
  float u = x - 1.75f, y = 1.0f / (x * x);
  constexpr float p[] = {1.77302458e-4f, 1.80429449e-2f, 1.70987671e-1f, 4.98070185e-1f, 4.5013931e-1f};
  constexpr float q[] = {6.47490235e-3f, 1.17955311e-1f, 6.45101397e-1f, 1.3719126f, 1.0f};
  constexpr float r[] = {-4.55678653e-4f, 7.84928174e-4f, -2.77759506e-3f, 8.33333327e-2f};
  float near = 0.0f + (x - 1.0f) * (x - 2.0f) * horner(u, p) / horner(u, q);
  float far = (x - 0.5f) * (sycl::log(x) - 1.0f) + (0.41893853320467274178f + horner(y, r) / x);
  float g = x < 3.0f ? near : far;
  // sin(pi d) / pi is d where d is tiny; a product with pi would round what is subnormal.
  float d = a - sycl::rint(a);
  bool tiny = sycl::fabs(d) < 0x1p-40f;
  float sine = sycl::fabs(tiny ? d : sycl::sin(pi<float>() * d));
  float mirrored = (tiny ? 0.0f : 1.14472988584940017414f) - sycl::log(sine) - g;
  // Far out every negative number is an integer, a pole, and g is infinite.
  if (sycl::fabs(a) == inf<float>() || (reflect && d == 0.0f)) return inf<float>();
  return reflect ? mirrored : g;
}

// Recurrence up to 10, then the asymptotic series (DLMF 5.11.2); reflection for negative arguments.
template <class T> inline T digamma(T x) {
  if (x == T(0)) return sycl::copysign(inf<T>(), -x);
  T reflected = T(0);
  if (x < T(0)) {
    T whole = sycl::trunc(x);
    if (x == whole) return nan<T>();
    reflected = -pi<T>() / sycl::tan(pi<T>() * (x - sycl::rint(x)));
    x = T(1) - x;
  }
  T below = T(0);
  for (int i = 0; i < 10; ++i) {
    if (x < T(10)) {
      below -= T(1) / x;
      x += T(1);
    }
  }
  T y = T(1) / (x * x);
  constexpr T c[] = {T(8.33333333333333333333e-2),  T(-2.10927960927960927961e-2), T(7.57575757575757575758e-3),
                     T(-4.16666666666666666667e-3), T(3.96825396825396825397e-3),  T(-8.33333333333333333333e-3),
                     T(8.33333333333333333333e-2)};
  T tail = x > T(1e17) ? T(0) : y * horner(y, c);
  return reflected + (sycl::log(x) - T(0.5) / x - tail + below);
}

// Second derivative of log gamma: recurrence and asymptotic series (DLMF 5.15.8).
template <class T> inline T trigamma(T x) {
  T sign = T(1), r = T(0);
  if (x < T(0.5)) {
    T s = sycl::sin(pi<T>() * x);
    r = -pi<T>() * pi<T>() / (s * s);
    sign = T(-1);
    x = T(1) - x;
  }
  for (int i = 0; i < 8; ++i) {
    r += T(1) / (x * x);
    x += T(1);
  }
  T y = T(1) / (x * x);
  constexpr T c[] = {T(7.0 / 6),  T(-691.0 / 2730), T(5.0 / 66), T(-1.0 / 30),
                     T(1.0 / 42), T(-1.0 / 30),     T(1.0 / 6),  T(1)};
  r += (horner(y, c) + T(0.5) / x) / x;
  return sign * r;
}

// Hurwitz zeta by Euler-Maclaurin summation (DLMF 25.11.5).
template <class T> inline T zeta(T x, T q) {
  if (x == T(1)) return inf<T>();
  if (x < T(1)) return nan<T>();
  if (q <= T(0)) {
    if (q == sycl::floor(q)) return inf<T>();
    if (x != sycl::floor(x)) return nan<T>();
  }
  if (!(q < inf<T>()) || x != x) return nan<T>();
  // With the rounding error of the sum: terms of negative q cancel. at::special_zeta sums floats in double.
  T sum = sycl::pow(q, -x), lost = T(0), a = q, b = T(0);
  auto add = [&](T v) {
    const T next = sum + v, back = next - sum;
    lost += (sum - (next - back)) + (v - back);
    sum = next;
  };
  auto total = [&] { return isfinite(lost) ? sum + lost : sum; };
  for (int i = 0; i < 9 || a <= T(9); ++i) {
    a += T(1);
    b = sycl::pow(a, -x);
    add(b);
    if (sycl::fabs(b) < epsilon<T>() * sycl::fabs(total())) return total();
    // All terms from here on are 0, or the last ones of a float that only a double would hold. The powers of x below
    // would overflow.
    if (b == T(0) && a > T(1)) break;
  }
  if (b == T(0)) {
    if (x > T(2.4e13)) return nan<T>();  // there they overflow at::special_zeta's double
    return sizeof(T) == 4 ? total() + sycl::pow(a, T(1) - x) / (x - T(1)) : total();
  }
  add((sizeof(T) == 4 && b < T(1e-36f) ? sycl::pow(a, T(1) - x) : b * a) / (x - T(1)));
  add(T(-0.5) * b);
  // (2 k)! / B_2k
  constexpr T denominators[] = {T(12.0),
                                T(-720.0),
                                T(30240.0),
                                T(-1209600.0),
                                T(47900160.0),
                                T(-1.8924375803183791606e9),
                                T(7.47242496e10),
                                T(-2.950130727918164224e12),
                                T(1.1646782814350067249e14),
                                T(-4.5979787224074726105e15),
                                T(1.8152105401943546773e17),
                                T(-7.1661652561756670113e18)};
  T factor = T(1), k = T(0);
#pragma unroll
  for (int i = 0; i < 12; ++i) {
    factor *= x + k;
    b /= a;
    T t = factor * b / denominators[i];
    add(t);
    if (sycl::fabs(t) < epsilon<T>() * sycl::fabs(total())) return total();
    k += T(1);
    factor *= x + k;
    b /= a;
    k += T(1);
  }
  return total();
}

// One order for all elements.
template <class T> inline T polygamma(int64_t n, T x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  T sign = n % 2 == 0 ? T(-1) : T(1);
  T factorial = T(1);
  for (int64_t k = 2; k <= n && factorial < inf<T>(); ++k) factorial *= T(k);
  return sign * factorial * zeta(T(n + 1), x);
}

namespace incomplete {

// log(1 + m) - m
template <class T> inline T log1p_minus(T m) {
  if (sycl::fabs(m) > T(0.5)) return sycl::log1p(m) - m;
  T r = m / (T(2) + m), r2 = r * r, sum = T(0);
#pragma unroll
  for (int k = sizeof(T) == 4 ? 15 : 35; k >= 3; k -= 2) sum = sum * r2 + T(2) / T(k);
  return r * (r2 * sum - m);
}

// x^a exp(-x) / gamma(a), without the cancellation that large a would bring.
template <class T> inline T factor(T a, T x) {
  if (a < T(10)) return sycl::exp(a * sycl::log(x) - x - lgamma(a));
  T y = T(1) / (a * a);
  constexpr T c[] = {T(1.0 / 1188), T(-1.0 / 1680), T(1.0 / 1260), T(-1.0 / 360), T(1.0 / 12)};
  const T m = (x - a) / a;  // 1 + m has no digits left where x is small
  const T l = m < T(-0.5) ? sycl::log(x / a) - m : log1p_minus(m);
  return sycl::exp(a * l - horner(y, c) / a) * sycl::sqrt(a / (T(2) * pi<T>()));
}

// P by its power series (DLMF 8.11.4)
template <class T> inline T lower_series(T a, T x) {
  T sum = T(1), term = T(1), n = a;
  for (int i = 0; i < 2000; ++i) {
    n += T(1);
    term *= x / n;
    sum += term;
    if (term <= epsilon<T>() * sum) break;
  }
  return factor(a, x) * sum / a;
}

// Q by its power series for small x: 1 - x^a / gamma(1 + a) (1 + sum), each part free of cancellation (DLMF 8.7.1)
template <class T> inline T upper_series(T a, T x) {
  T sum = T(0), term = T(1);
  for (int i = 1; i < 2000; ++i) {
    term *= -x / T(i);
    T part = term / (a + T(i));
    sum += part;
    if (sycl::fabs(part) <= epsilon<T>() * sycl::fabs(sum)) break;
  }
  T l = a * sycl::log(x) - lgamma(a + T(1));
  return -sycl::expm1(l) - a * sycl::exp(l) * sum;
}

// Q by its continued fraction (DLMF 8.9.2), evaluated after Lentz
template <class T> inline T upper_fraction(T a, T x) {
  constexpr T tiny = sizeof(T) == 4 ? T(1e-30) : T(1e-290);
  T b = x + T(1) - a, c = T(1) / tiny, d = T(1) / b, h = d;
  for (int i = 1; i < 2000; ++i) {
    T an = -T(i) * (T(i) - a);
    b += T(2);
    d = an * d + b;
    d = T(1) / (sycl::fabs(d) < tiny ? tiny : d);
    c = b + an / c;
    if (sycl::fabs(c) < tiny) c = tiny;
    T step = d * c;
    h *= step;
    if (sycl::fabs(step - T(1)) <= T(2) * epsilon<T>()) break;
  }
  return factor(a, x) * h;
}

// Large a, x near a: Temme's uniform expansion (DLMF 8.12); P for upper = false.
template <class T> inline T uniform(T a, T x, bool upper) {
  constexpr T c[7][18] = {
      {-0.33333333333333331, 0.083333333333333329, -0.014814814814814815, 0.0011574074074074073, 0.00035273368606701942,
       -0.0001787551440329218, 3.9192631785224377e-05, -2.185448510679992e-06, -1.85406221071516e-06,
       8.2967113409530865e-07, -1.7665952736826078e-07, 6.7078535434014984e-09, 1.0261809784240309e-08,
       -4.3820360184533529e-09, 9.1476995822367902e-10, -2.5514193994946248e-11, -5.8307721325504256e-11,
       2.4361948020667415e-11},
      {-0.0018518518518518519, -0.003472222222222222, 0.0026455026455026454, -0.00099022633744855963,
       0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.6491609160811098e-06,
       -1.6120900894563446e-06, 4.647127802807434e-09, 1.3786334469157209e-07, -5.7525456035177047e-08,
       1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09, 4.1627929918425828e-10,
       -8.5639070264929801e-11, 6.0672151016047582e-14},
      {0.0041335978835978834, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
       -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.4235787340961378e-08,
       1.3721957309062934e-06, -6.2989921383800548e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
       -1.409252991086752e-08, 6.2289740849220218e-09, -1.3670488396617114e-09, 9.428356159014678e-13,
       1.2872252400089318e-10, -5.5645956134363323e-11},
      {0.00064943415637860077, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
       -7.5618016718839766e-05, -2.3965051138672968e-07, 1.1082654115347302e-05, -5.6749528269915965e-06,
       1.4230900732435883e-06, -2.7861080291528143e-11, -1.6958404091930278e-07, 8.0994649053880827e-08,
       -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09, -9.460496661855133e-10,
       2.1541049775774907e-10, -1.388823336813903e-14},
      {-0.00086188829091671173, 0.00078403922172006662, -0.00029907248030319018, -1.4638452578843418e-06,
       6.6414982154651219e-05, -3.9683650471794347e-05, 1.1375726970678419e-05, 2.5074972262375329e-10,
       -1.6954149536558305e-06, 8.9075075322053094e-07, -2.2929348340008049e-07, 2.9567941375440492e-11,
       2.8865829742708783e-08, -1.4189739437803219e-08, 3.4463580499464896e-09, -2.3024517174528067e-13,
       -3.9409233028046403e-10, 1.8602338968504501e-10},
      {-0.00033679855336635813, -6.9728137583658571e-05, 0.00027727532449593918, -0.00019932570516188847,
       6.797780477937208e-05, 1.4190629206439671e-07, -1.3594048189768693e-05, 8.018470256334202e-06,
       -2.2914811765080952e-06, -3.2524735512984538e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
       4.8240967037894184e-08, -1.7989466721743514e-14, -6.3061945000135231e-09, 3.1624176287745678e-09,
       -7.8409242536974288e-10, 5.1926791652540408e-15},
      {0.00053130793646399225, -0.00059216643735369393, 0.0002708782096718045, 7.9023532326603281e-07,
       -8.1539693675619691e-05, 5.6116827531062497e-05, -1.8329116582843375e-05, -3.0796134506033047e-09,
       3.4651553688036091e-06, -2.0291327396058603e-06, 5.7887928631490039e-07, 2.3386306738266568e-13,
       -8.828600746330484e-08, 4.7435958880408125e-08, -1.2545415020710383e-08, 8.6496488580102926e-14,
       1.6846058979264062e-09, -8.5754928235775943e-10}};
  constexpr int orders = sizeof(T) == 4 ? 3 : 7, terms = sizeof(T) == 4 ? 12 : 18;
  T l = log1p_minus((x - a) / a);
  T eta = sycl::copysign(sycl::sqrt(T(-2) * l), x - a);
  T sum = T(0);
#pragma unroll
  for (int k = orders - 1; k >= 0; --k) {
    T ck = T(0);
#pragma unroll
    for (int n = terms - 1; n >= 0; --n) ck = ck * eta + c[k][n];
    sum = sum / a + ck;
  }
  T rest = sycl::exp(a * l) * sum / sycl::sqrt(T(2) * pi<T>() * a);
  T z = eta * sycl::sqrt(T(0.5) * a);
  return upper ? T(0.5) * sycl::erfc(z) + rest : T(0.5) * sycl::erfc(-z) - rest;
}

template <class T> inline bool use_uniform(T a, T x) { return a > T(200) && sycl::fabs(x - a) < T(0.3) * a; }

}  // namespace incomplete

// Regularised lower incomplete gamma function P(a, x). A limit holds for NaN too, as in at::igamma.
template <class T> inline T igamma(T a, T x) {
  if (x < T(0) || a < T(0)) return nan<T>();
  if (a == T(0)) return x > T(0) ? T(1) : nan<T>();
  if (x == T(0)) return T(0);
  if (isinf(a)) return isinf(x) ? nan<T>() : T(0);
  if (isinf(x)) return T(1);
  if (a != a || x != x) return nan<T>();
  if (incomplete::use_uniform(a, x)) return incomplete::uniform(a, x, false);
  if (x > T(1) && x > a) return T(1) - incomplete::upper_fraction(a, x);
  return incomplete::lower_series(a, x);
}

// Regularised upper incomplete gamma function Q(a, x).
template <class T> inline T igammac(T a, T x) {
  if (x < T(0) || a < T(0)) return nan<T>();
  if (a == T(0)) return x > T(0) ? T(0) : nan<T>();
  if (x == T(0)) return T(1);
  if (isinf(a)) return isinf(x) ? nan<T>() : T(1);
  if (isinf(x)) return T(0);
  if (a != a || x != x) return nan<T>();
  if (incomplete::use_uniform(a, x)) return incomplete::uniform(a, x, true);
  if (x > T(1.1)) return x < a ? T(1) - incomplete::lower_series(a, x) : incomplete::upper_fraction(a, x);
  bool lower = x <= T(0.5) ? T(-0.4) / sycl::log(x) < a : x * T(1.1) < a;
  return lower ? T(1) - incomplete::lower_series(a, x) : incomplete::upper_series(a, x);
}

}  // namespace xpu
