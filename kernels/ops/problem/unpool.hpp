// Problem of fractional max pooling; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// Planes (n, c) of [depth, height, width]; depth 1 in two dimensions. Everything contiguous.
struct FractionalProblem {
  const void* in;
  const void* samples;  // [planes, dims]: of depth, height, width (three) or width, height (two)
  void* out;
  int64_t* indices;
  uint32_t in_size[3], out_size[3], pool[3];
  uint32_t planes, dims;
};

}  // namespace xpu_ops::ops
