// Launch arguments of the softmax kernels.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/softmax.hpp"

namespace xpu_ops {

constexpr uint32_t kSoftmaxVectors = 8;  // col: vectors of columns that an item takes
constexpr uint32_t kSoftmaxRows = 4;     // of up to kSoftmaxShort elements, side by side: short, team
constexpr uint32_t kSoftmaxShort = 64;

struct SoftmaxArgs : ops::SoftmaxProblem {
  uint32_t blocks = 1;  // col: work-groups over inner
  uint32_t once = 1;    // see whole_or_part
  uint32_t team = 1;    // team: items that share a row
  uint32_t rows = 1;    // team: neighbouring rows of a sub-group, kSoftmaxRows where fours move them
};

}  // namespace xpu_ops
