// Quantized tensors: launches of the conversions.
#pragma once
#include "kernels/dtype.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::ops {

// Distance of the points of a grid and the place of zero: one of each, or one per channel (scales is set).
struct Grid {
  float scale = 1;
  int32_t zero = 0;
  const float* scales = nullptr;
  const void* zeros = nullptr;
  bool float_zeros = false;         // zeros are float, else int32
  bool zero_after = false;          // quantize adds the zero point after rounding
  int64_t inner = 1, channels = 1;  // element i is of channel (i / inner) % channels
};

// Launches are of this many elements at most: whole rounds of all channels.
int64_t plan_step(const Grid& grid);

// `type` is that of the integers: u8, i8 or i32. n elements of dense memory.
void quantize(runtime::Queue& queue, DType type, const float* in, void* out, int64_t n, const Grid& grid);
void dequantize(runtime::Queue& queue, DType type, const void* in, float* out, int64_t n, const Grid& grid);

}  // namespace xpu_ops::ops
