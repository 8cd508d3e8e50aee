// Activations and their derivatives. Included by math.hpp.
#pragma once
#include "device.hpp"

namespace xpu {

template <class T> inline T sigmoid(T a) { return T(1) / (T(1) + sycl::exp(-a)); }
template <class T> inline T silu(T a) { return a / (T(1) + sycl::exp(-a)); }
template <class T> inline T silu_backward(T grad, T a) {
  T s = sigmoid(a);
  return grad * s * (T(1) + a * (T(1) - s));
}

// tanh(log(1 + e)) = n / (n + 2) with n = e * (e + 2), e = exp(a): one exponential, no cancellation.
template <class T> inline T mish(T a) {
  T e = sycl::exp(a), n = e * (e + T(2));
  return a > T(20) ? a : a * (n / (n + T(2)));
}
template <class T> inline T mish_backward(T grad, T a) {
  if (a > T(20)) return grad;
  T e = sycl::exp(a), n = e * (e + T(2)), d = T(1) / (n + T(2));
  T t = n * d;
  return grad * (t + a * (e / (T(1) + e)) * (T(4) * (n + T(1)) * d * d));
}

// erf for gelu. Single precision: a minimax quotient in x^2, 6 ULP, one division and no exponential or branch.
inline double erf_fast(double x) { return sycl::erf(x); }
inline float erf_fast(float x) {
  float c = x > 3.925f ? 3.925f : x < -3.925f ? -3.925f : x, t = c * c;
  constexpr float p[] = {-1.28250143e-8f, 4.61391559e-6f, 3.76936429e-4f, 3.83937735e-3f,
                         5.42487378e-2f,  1.85141411e-1f, 1.12837917f};
  constexpr float q[] = {6.24431664e-5f, 1.30191519e-3f, 1.54321861e-2f, 1.1387978e-1f, 4.9741071e-1f, 1.0f};
  float r = c * horner(t, p) / horner(t, q);
  return r > 1.0f ? 1.0f : r < -1.0f ? -1.0f : r;
}

template <class T> inline T gelu_erf(T a) { return T(0.5) * a * (T(1) + erf_fast(a * T(0.70710678118654752440))); }
template <class T> inline T gelu_erf_backward(T grad, T a) {
  T cdf = T(0.5) * (T(1) + erf_fast(a * T(0.70710678118654752440)));
  T pdf = T(0.39894228040143267794) * sycl::exp(T(-0.5) * a * a);
  return grad * (cdf + a * pdf);
}

// 0.5 * (1 + tanh(u)) = sigmoid(2 u).
template <class T> inline T gelu_tanh(T a) {
  T u2 = T(1.59576912160573071176) * (a + T(0.044715) * a * a * a);
  return a / (T(1) + sycl::exp(-u2));
}
template <class T> inline T gelu_tanh_backward(T grad, T a) {
  T a2 = a * a;
  T u2 = T(1.59576912160573071176) * (a + T(0.044715) * a2 * a);
  T s = T(1) / (T(1) + sycl::exp(-u2));
  T du2 = T(1.59576912160573071176) * (T(1) + T(0.134145) * a2);
  // s (1 - s) is 0 where du2 may already be infinite.
  T ds = s * (T(1) - s);
  return grad * (s + (ds == T(0) ? T(0) : a * ds * du2));
}

// glu = a sigmoid(b): the gradient of b, and the tangent of glu.
template <class T> inline T glu_backward_gate(T grad, T a, T b) {
  T s = sigmoid(b);
  return (T(1) - s) * s * a * grad;  // in this order nothing overflows before the result
}
template <class T> inline T glu_jvp(T glu, T b, T da, T db) {
  T s = sigmoid(b);
  return da * s + glu * (db - s * db);  // as torch CPU, where db is infinite
}

// is_result: b is elu's result instead of its input.
template <class T> inline T elu_backward(T grad, T b, T alpha, T scale, T input_scale, bool is_result) {
  T neg = alpha * scale;
  if (b > T(0)) return grad * scale;
  return is_result ? grad * input_scale * (b + neg) : grad * input_scale * neg * sycl::exp(b * input_scale);
}

template <class T> inline T softplus_backward(T grad, T a, T beta, T threshold) {
  T z = sycl::exp(a * beta);
  return a * beta > threshold ? grad : grad * z / (z + T(1));
}

// e = exp(-|a|), which the forward saved.
template <class T> inline T log_sigmoid_backward(T grad, T a, T e) {
  T r = e / (T(1) + e);
  return grad * (a < T(0) ? T(1) - r : r);
}

}  // namespace xpu
