// Activations and their derivatives. Included by math.hpp.
#pragma once
#include "kernels/sycl/math/single.hpp"

namespace xpu {

template <class T> XPU_SINGLE T sigmoid(T a) { return over_one_plus_exp(T(1), -a); }
template <class T> XPU_SINGLE T silu(T a) { return over_one_plus_exp(a, -a); }
template <class T> XPU_SINGLE T silu_backward(T grad, T a) {
  T s = sigmoid(a);
  return grad * s * fma(a, T(1) - s, T(1));
}

// tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2), e = exp(a): one exponential, no cancellation.
template <class T> XPU_SINGLE T mish(T a) {
  T e = exp(a > T(20) ? T(20) : a), e2 = e + T(2);  // from 20 on the quotient is 1
  return a * (e * e2 / fma(e, e2, T(2)));
}
template <class T> XPU_SINGLE T mish_backward(T grad, T a) {
  T e = exp(a), e2 = e + T(2), n = e * e2, d = T(1) / fma(e, e2, T(2));
  T slope = fma(a * (e / (T(1) + e)), T(4) * fma(e, e2, T(1)) * d * d, n * d);
  return a > T(20) ? grad : grad * slope;
}

// erf for gelu. Single precision: a minimax quotient in x^2, 6 ULP, one division and no exponential or branch.
XPU_SINGLE double erf_fast(double x) { return sycl::erf(x); }
XPU_SINGLE float erf_fast(float x) {
  float c = single::at_most(single::at_least(x, -3.925f), 3.925f), t = c * c;
  float p = polynomial(t, -1.28250143e-8f, 4.61391559e-6f, 3.76936429e-4f, 3.83937735e-3f, 5.42487378e-2f,
                       1.85141411e-1f, 1.12837917f);
  float q = polynomial(t, 6.24431664e-5f, 1.30191519e-3f, 1.54321861e-2f, 1.1387978e-1f, 4.9741071e-1f, 1.0f);
  return single::at_most(single::at_least(c * p / q, -1.0f), 1.0f);
}

template <class T> XPU_SINGLE T gelu_erf(T a) { return T(0.5) * a * (T(1) + erf_fast(a * T(0.70710678118654752440))); }
template <class T> XPU_SINGLE T gelu_erf_backward(T grad, T a) {
  T cdf = T(0.5) * (T(1) + erf_fast(a * T(0.70710678118654752440)));
  T pdf = T(0.39894228040143267794) * exp(T(-0.5) * a * a);
  return grad * fma(a, pdf, cdf);
}

// 0.5 * (1 + tanh(u)) = sigmoid(2 u).
template <class T> XPU_SINGLE T gelu_tanh(T a) {
  T minus_u2 = a * fma(T(-0.07135481627260025), a * a, T(-1.59576912160573071176));
  return over_one_plus_exp(a, minus_u2);
}
template <class T> XPU_SINGLE T gelu_tanh_backward(T grad, T a) {
  T a2 = a * a;
  T u2 = T(1.59576912160573071176) * fma(T(0.044715) * a2, a, a);
  T s = sigmoid(u2);
  T du2 = T(1.59576912160573071176) * fma(T(0.134145), a2, T(1));
  // s (1 - s) is 0 where du2 may already be infinite.
  T ds = s * (T(1) - s);
  T slope = ds == T(0) ? T(0) : a * ds * du2;
  return grad * (s + slope);
}

// glu = a sigmoid(b): the gradient of b, and the tangent of glu.
template <class T> XPU_SINGLE T glu_backward_gate(T grad, T a, T b) {
  T s = sigmoid(b);
  return (T(1) - s) * s * a * grad;  // in this order nothing overflows before the result
}
template <class T> XPU_SINGLE T glu_jvp(T glu, T b, T da, T db) {
  T s = sigmoid(b);
  return fma(da, s, glu * fma(-s, db, db));  // as torch CPU, where db is infinite
}

template <class T> XPU_SINGLE T elu(T a, T alpha, T scale, T input_scale) {
  T below = expm1(a * input_scale) * (alpha * scale);
  return a <= T(0) ? below : a * scale;
}

// is_result: b is elu's result instead of its input.
template <class T> XPU_SINGLE T elu_backward(T grad, T b, T alpha, T scale, T input_scale, bool is_result) {
  T neg = alpha * scale;
  T below = is_result ? grad * input_scale * (b + neg) : grad * input_scale * neg * exp(b * input_scale);
  return b > T(0) ? grad * scale : below;
}

// log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)).
XPU_SINGLE float log_one_plus_exp(float x) { return single::at_least(x, 0.0f) + log1p_unit(exp(-fabs(x))); }
XPU_SINGLE double log_one_plus_exp(double x) { return sycl::log1p(sycl::exp(x)); }

template <class T> XPU_SINGLE T softplus(T a, T beta, T threshold) {
  T r = log_one_plus_exp(a * beta) / beta;
  return a * beta > threshold ? a : r;
}
template <class T> XPU_SINGLE T softplus_backward(T grad, T a, T beta, T threshold) {
  T z = exp(a * beta);
  T below = grad * z / (z + T(1));
  return a * beta > threshold ? grad : below;
}

// e = exp(-|a|), which the forward saved.
template <class T> XPU_SINGLE T log_sigmoid_backward(T grad, T a, T e) {
  T r = e / (T(1) + e);
  return grad * (a < T(0) ? T(1) - r : r);
}

}  // namespace xpu
