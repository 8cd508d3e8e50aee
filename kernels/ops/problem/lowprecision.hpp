// Problems of products with 8-bit and 4-bit weights; no type of the device, no torch.
#pragma once
#include <cstdint>

namespace xpu_ops::ops {

// out = a @ w.T, row by row of a. w: (n, k) int8, or (n, k / 2) bytes with value 2 i in the low half of byte i.
// int8: w * scale[row]. int4: (w - 8) * scale + zero where both come in pairs, else (w - zero) * scale; scales and
// zeros are (k / group, n).
struct WeightProblem {
  const void* a = nullptr;
  const void* w = nullptr;
  const void* scale = nullptr;
  const void* zero = nullptr;
  void* out = nullptr;
  int64_t a_row = 0;  // elements from row to row
  uint32_t m = 0, n = 0, k = 0, group = 0;
};

}  // namespace xpu_ops::ops
