// Problems of convolutions with own kernels; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops {

// The activation of a depthwise convolution, with oneDNN's meaning of alpha and beta.
enum class ConvActivation : uint32_t {
  none,
  relu,
  linear,
  clip,
  hardswish,
  hardsigmoid,
  swish,
  logistic,
  gelu_tanh,
  gelu_erf,
};

// The cheap ones as one expression: (v or 1) * clip(scale * v + shift, low, high). As it stands: v, a -0 too.
struct ConvGate {
  float scale = 1.0f, shift = -0.0f, low = -__builtin_inff(), high = __builtin_inff();
  uint32_t times = 0;  // v * clip(...)
};

namespace ops {

// A convolution from src (n, ci, in...) to dst (n, co, out...) with weights (co, ci / groups, kernel...). Axes are
// depth, height, width, missing ones of size 1. A transposed convolution is the backward one with src and dst
// exchanged.
struct DirectProblem {
  const void* src;      // backward data: written
  const void* weights;  // backward weights: written
  const void* bias;     // may be null
  const void* dst;      // forward: written
  uint32_t n, ci, co, groups;
  int32_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  ConvGate gate;                                              // depthwise
  ConvActivation activation;                                  // depthwise: what is no gate
  float alpha, beta;                                          // of it
  float in_low, in_high;                                      // depthwise, channels last: bounds of what is read
  int64_t src_strides[5], weight_strides[5], dst_strides[5];  // in elements
};

}  // namespace ops
}  // namespace xpu_ops
