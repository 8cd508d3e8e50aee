// Launch arguments of products with 8-bit and 4-bit weights.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/lowprecision.hpp"

namespace xpu_ops {

constexpr uint32_t kWeightRows = 16;       // rows of the weight that share one vector of results
constexpr uint32_t kWeightSides = 4;       // such sets of rows that are read side by side
constexpr uint32_t kWeightBlocks = 16;     // and those per work-group, at most
constexpr uint32_t kWeightInputs = 16384;  // inputs that are brought into order at once, of all rows together
constexpr uint32_t kWeightChunk = 128;     // inputs per step: 64 bytes of a row of nibbles
constexpr uint32_t kWeightGroup = 32;      // the smallest group of weights with one scale

struct WeightArgs : ops::WeightProblem {
  uint32_t blocks = 0;  // sets of kWeightRows rows per work-group
};

}  // namespace xpu_ops
