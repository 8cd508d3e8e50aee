// Launch arguments of products with 8-bit and 4-bit weights.
#pragma once
#include <cstdint>

namespace xpu_ops {

constexpr uint32_t kWeightRows = 16;       // rows of the weight that share one vector of results
constexpr uint32_t kWeightSides = 4;       // such sets of rows that are read side by side
constexpr uint32_t kWeightBlocks = 16;     // and those per work-group, at most
constexpr uint32_t kWeightInputs = 16384;  // inputs that are brought into order at once, of all rows together
constexpr uint32_t kWeightChunk = 128;     // inputs per step: 64 bytes of a row of nibbles
constexpr uint32_t kWeightGroup = 32;      // the smallest group of weights with one scale

// out = a @ w.T, row by row of a. w: (n, k) int8, or (n, k / 2) bytes with value 2 i in the low half of byte i.
// int8: w * scale[row]. int4: (w - 8) * scale + zero where both come in pairs, else (w - zero) * scale; scales and
// zeros are (k / group, n).
struct WeightArgs {
  const void* a = nullptr;
  const void* w = nullptr;
  const void* scale = nullptr;
  const void* zero = nullptr;
  void* out = nullptr;
  int64_t a_row = 0;  // elements from row to row
  uint32_t m = 0, n = 0, k = 0, group = 0;
  uint32_t blocks = 0;  // sets of kWeightRows rows per work-group
};

}  // namespace xpu_ops
