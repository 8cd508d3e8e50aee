// Arguments of the kernels of quantized tensors; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

// n elements of dense memory. Element i is of channel (i / inner) % channels.
struct QuantizedArgs {
  const void* in;
  void* out;
  const float* scales;  // of channels
  const void* zeros;    // of channels: int32 or float
  Divider inner, channels;
  uint32_t n;
  int32_t zero;  // of the whole tensor, as scale
  float scale;
  bool after;  // quantize adds the zero point after rounding
};

}  // namespace xpu_ops
