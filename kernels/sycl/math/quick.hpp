// Activations whose error is lost where the result is rounded to bfloat16: by the device's own exponential and
// quotient. Rows with `quick` take them, for elements that are moved by fours: there memory waits for the functions of
// activation.hpp, by 1.7 times.
#pragma once
#include <sycl/builtins.hpp>

#include "kernels/sycl/math/math.hpp"

namespace xpu::quick {

XPU_SINGLE float exp(float x) { return sycl::native::exp2(x * 1.44269504f); }

XPU_SINGLE float silu(float a) { return sycl::native::divide(a, 1.0f + exp(-a)); }

// 1 / y, to float32's last places below 1e30. Of a processor's own quotient 11 bits are right (AVX2), and a result
// that is near zero as the difference of two terms shows the rest.
XPU_SINGLE float inverse(float y) {
  const float r = sycl::native::recip(y);
  return fma(y < 1e30f ? fma(-y, r, 1.0f) : 0.0f, r, r);
}

// 1 / (1 + exp(-x)) and what it lacks of one, which a difference of rounded numbers would not give.
struct Sigmoid { float value, rest; };
XPU_SINGLE Sigmoid sigmoid(float x) {
  const float e = exp(-x), s = inverse(1.0f + e);
  return {s, e < 1e30f ? e * s : 1.0f};
}
XPU_SINGLE float silu_backward(float grad, float a) {
  const Sigmoid s = sigmoid(a);
  return grad * s.value * fma(a, s.rest, 1.0f);
}

// The normal distribution by Abramowitz and Stegun 26.2.17, which shares its exponential with the density.
XPU_SINGLE float gelu_erf_backward(float grad, float a) {
  const float t = inverse(fma(fabs(a), 0.2316419f, 1.0f));
  const float pdf = 0.398942280f * sycl::native::exp2(a * a * -0.721347520f);
  const float tail = pdf * t * polynomial(t, 1.330274429f, -1.821255978f, 1.781477937f, -0.356563782f, 0.319381530f);
  return grad * fma(a, pdf, a > 0.0f ? 1.0f - tail : tail);
}

XPU_SINGLE float gelu_tanh_backward(float grad, float a) {
  const float a2 = a * a;
  const float u2 = 1.59576912160573071176f * fma(0.044715f * a2, a, a);
  const Sigmoid s = sigmoid(u2);
  const float ds = s.value * s.rest;
  const float du2 = 1.59576912160573071176f * fma(0.134145f, a2, 1.0f);
  // The product is 0 where du2 may already be infinite.
  return grad * (s.value + (ds == 0.0f ? 0.0f : a * ds * du2));
}

}  // namespace xpu::quick
