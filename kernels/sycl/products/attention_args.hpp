// Launch arguments of the attention kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/attention.hpp"

namespace xpu_ops {

// Nothing is planned.
using AttentionArgs = ops::AttentionProblem;
using AttentionDeltaArgs = ops::AttentionDeltaProblem;

// Vectors of columns that a work-group of attention_one_mix takes for so many heads.
constexpr int one_mix_vectors(int share) { return share == 4 ? 2 : 4; }

struct AttentionOneArgs : ops::AttentionOneProblem {
  uint32_t share = 1;              // heads with the same keys that a work-group takes: 1, 2 or 4
  uint32_t blocks = 1, block = 1;  // work-groups of a plane; scores: keys of each
  uint32_t once = 1;               // see whole_or_part
};

}  // namespace xpu_ops
