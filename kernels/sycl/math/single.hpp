// Elementary functions of float from operations that are rounded by themselves: the device and the host, which includes
// this header too, give the same bits, so that small work may run on the calling thread (tools/codegen/host.py).
// No product feeds a sum except by fma; no branch and no table, so that loops vectorise. Polynomials are minimax ones
// by Remez' exchange (1934), fitted anew after each coefficient that was rounded to float. Double goes to the library.
#pragma once
#include "kernels/sycl/core/device.hpp"

#define XPU_SINGLE [[gnu::always_inline]] inline

namespace xpu {

#ifdef __SYCL_DEVICE_ONLY__
XPU_SINGLE float fma(float a, float b, float c) { return sycl::fma(a, b, c); }
#else
XPU_SINGLE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }  // sycl::fma is a call there
#endif
XPU_SINGLE double fma(double a, double b, double c) { return sycl::fma(a, b, c); }

// Polynomial with the highest coefficient first.
template <class T, class... C> XPU_SINGLE T polynomial(T x, T first, C... rest) {
  T r = first;
  ((r = fma(r, x, rest)), ...);
  return r;
}

namespace single {

XPU_SINGLE float from_bits(int32_t i) { return sycl::bit_cast<float>(i); }
XPU_SINGLE int32_t bits(float a) { return sycl::bit_cast<int32_t>(a); }
XPU_SINGLE float magnitude(float a) { return from_bits(bits(a) & 0x7fffffff); }
XPU_SINGLE float with_sign(float a, float b) { return from_bits(bits(a) | (bits(b) & INT32_MIN)); }
XPU_SINGLE int32_t shifted(int32_t n) { return static_cast<int32_t>(static_cast<uint32_t>(n) << 23); }
XPU_SINGLE float power_of_two(int32_t n) { return from_bits(shifted(n) + 0x3f800000); }
// NaN stays.
XPU_SINGLE float at_least(float a, float low) { return a < low ? low : a; }
XPU_SINGLE float at_most(float a, float high) { return a > high ? high : a; }

constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to an integer, in the low bits

// (1 + p) 2^n with |p| <= 1/2; n plus a multiple of 512.
struct Power {
  float p;
  int32_t n;
};

// exp(x) for |x| < 2^9: x = n ln 2 + r, p = exp(r) - 1.
XPU_SINGLE Power exp_parts(float x) {
  const float s = fma(x, 1.44269502f, kRound), n = s - kRound;
  const float r = fma(n, 1.90465421e-09f, fma(n, -0.693147182f, x)), r2 = r * r;
  const float high = fma(0.00138380029f, r2, fma(0.00836916547f, r, 0.0416681021f));
  return {fma(fma(high, r2, fma(0.166665167f, r, 0.49999994f)), r2, r), bits(s)};
}

// In two steps: what is subnormal is rounded once. n in [-254, 254]; the two lowest give 0.
XPU_SINGLE float value(Power e) {
  const int32_t half = e.n >> 1;
  const float s = power_of_two(half);
  return fma(e.p, s, s) * power_of_two(e.n - half);
}
// exp(x) / 2 as a term of a sum with 1 / 2, in which nothing below 2^-126 counts: one step.
XPU_SINGLE float half_exp(float x) {
  const Power e = exp_parts(at_least(x, -86.0f));
  const float s = power_of_two(e.n - 1);
  return x > 89.0f ? __builtin_inff() : fma(e.p, s, s);
}

// a = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)].
struct Logarithm { float f, k; };
XPU_SINGLE Logarithm log_parts(float a) {
  const bool tiny = a < 1.17549435e-38f;
  const int32_t i = bits(tiny ? a * 8388608.0f : a) - (tiny ? 0x3f3504f3 + (23 << 23) : 0x3f3504f3);
  return {from_bits((i & 0x7fffff) + 0x3f3504f3) - 1.0f, static_cast<float>(i >> 23)};
}
// log(1 + f) - f.
XPU_SINGLE float log_rest(float f) {
  const float f2 = f * f;
  const float a = fma(-0.250008225f, f, 0.333333313f), b = fma(-0.166233346f, f, 0.200012609f);
  const float c = fma(-0.131594807f, f, 0.142009482f), d = fma(-0.0764298737f, f, 0.127668321f);
  return fma(fma(fma(fma(d, f2, c), f2, b), f2, a), f, -0.5f) * f2;
}
// log((1 + f) 2^k); what the constant lacks of log(2) is 1e-9 of the result.
XPU_SINGLE float log_value(float f, float k) { return fma(k, 0.693147182f, f + log_rest(f)); }
// r where a is positive and finite. Asked of the bits: LLVM makes one class test of x > 0 && x < inf, of which Debian's
// ocloc dies.
XPU_SINGLE float log_special(float a, float r) {
  const int32_t i = bits(a);
  r = i < 0x7f800000 ? r : a;  // and NaN
  r = i < 0 ? __builtin_nanf("") : r;
  return a == 0.0f ? -__builtin_inff() : r;
}

}  // namespace single

// Below -175, such as for what a mask left out, both powers of two in value() are 0: a product that underflows takes
// the processor 150 cycles for every vector.
XPU_SINGLE float exp(float a) {
  return single::value(single::exp_parts(single::at_most(single::at_least(a, -176.0f), 89.0f)));
}
XPU_SINGLE double exp(double a) { return sycl::exp(a); }

XPU_SINGLE float exp2(float a) {
  using namespace single;
  const float x = at_most(at_least(a, -254.0f), 129.0f), s = x + kRound, f = x - (s - kRound);
  const float p =
      polynomial(f, 0.000152719702f, 0.00133839634f, 0.00961848255f, 0.0555037782f, 0.240226507f, 0.693147182f);
  return value({p * f, bits(s)});
}
XPU_SINGLE double exp2(double a) { return sycl::exp2(a); }

XPU_SINGLE float expm1(float a) {
  using namespace single;
  const Power e = exp_parts(at_most(at_least(a, -30.0f), 89.0f));  // half of exp(89) is finite
  const float s = power_of_two(e.n - 1), half = fma(e.p, s, s - 0.5f);
  return magnitude(a) < 2.98023224e-8f ? a : half + half;
}
XPU_SINGLE double expm1(double a) { return sycl::expm1(a); }

XPU_SINGLE float log(float a) {
  const single::Logarithm l = single::log_parts(a);
  return single::log_special(a, single::log_value(l.f, l.k));
}
XPU_SINGLE double log(double a) { return sycl::log(a); }

XPU_SINGLE float log2(float a) {
  using namespace single;
  const Logarithm l = log_parts(a);
  return log_special(a, l.k + fma(l.f, 1.44269502f, log_rest(l.f) * 1.44269502f));
}
XPU_SINGLE double log2(double a) { return sycl::log2(a); }

XPU_SINGLE float log10(float a) {
  using namespace single;
  const Logarithm l = log_parts(a);
  const float small = fma(l.f, -1.010305e-08f, log_rest(l.f) * 0.434294492f);
  const float rest = fma(l.k, -1.43209888e-08f, small);
  return log_special(a, fma(l.k, 0.30103001f, fma(l.f, 0.434294492f, rest)));
}
XPU_SINGLE double log10(double a) { return sycl::log10(a); }

// f = (1 + a) 2^-k - 1 rounded once, by way of a / 4, so that no power of two is subnormal.
XPU_SINGLE float log1p(float a) {
  using namespace single;
  const int32_t k = (bits(1.0f + a) - 0x3f3504f3) >> 23;
  const float s4 = from_bits(0x40800000 - shifted(k)), f = fma(a * 0.25f, s4, fma(s4, 0.25f, -1.0f));
  float r = log_value(f, static_cast<float>(k));
  r = a < __builtin_inff() ? r : a;
  r = a == -1.0f ? -__builtin_inff() : r;
  r = a < -1.0f ? __builtin_nanf("") : r;
  return magnitude(a) < 2.98023224e-8f ? a : r;
}
XPU_SINGLE double log1p(double a) { return sycl::log1p(a); }

// log1p for 0 <= a <= 1, such as of exp(-|x|): no power of two to take out, nothing special.
XPU_SINGLE float log1p_unit(float a) {
  const float a2 = a * a;
  const float p = fma(-0.249750778f, a, 0.333322495f), q = fma(-0.155689999f, a, 0.197741762f);
  const float r = fma(-0.0609091185f, a, 0.110240452f), s = fma(-0.00367563916f, a, 0.0218680017f);
  return fma(fma(fma(fma(fma(s, a2, r), a2, q), a2, p), a, -0.5f), a2, a);
}
XPU_SINGLE double log1p_unit(double a) { return sycl::log1p(a); }

// With e = exp(2 |a|) - 1 it is e / (e + 2), from 1/2 on.
XPU_SINGLE float tanh(float a) {
  using namespace single;
  const float m = magnitude(a), t = a * a, t2 = t * t;
  const Power k = exp_parts(at_most(m + m, 20.0f));
  const float s = power_of_two(k.n), e = fma(k.p, s, s - 1.0f);
  const float high = fma(-0.00667962851f, t2, fma(0.0213190485f, t, -0.0539040677f));
  const float q = fma(high, t2, fma(0.133330107f, t, -0.333333284f));
  return with_sign(m < 0.5f ? fma(q * t, m, m) : e / (e + 2.0f), a);
}
XPU_SINGLE double tanh(double a) { return sycl::tanh(a); }

// a / (1 + exp(x)); halves, so that nothing overflows before the quotient is subnormal.
XPU_SINGLE float over_one_plus_exp(float a, float x) { return a * 0.5f / (0.5f + single::half_exp(x)); }
XPU_SINGLE double over_one_plus_exp(double a, double x) { return a / (1.0 + sycl::exp(x)); }

// Functions that are calls in the SYCL headers on the host.
XPU_SINGLE float fabs(float a) { return single::magnitude(a); }
XPU_SINGLE double fabs(double a) { return sycl::fabs(a); }

}  // namespace xpu
