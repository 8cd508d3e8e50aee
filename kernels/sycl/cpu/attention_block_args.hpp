// Launch arguments of attention by blocks of queries; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/attention.hpp"

namespace xpu_ops {

// Sizes of a block.
constexpr uint32_t kBlockQueries = 32, kBlockKeys = 64;
struct AttentionBlockArgs : ops::AttentionBlockProblem {
  float* scratch = nullptr;  // `slot` elements for each work-group
  uint64_t slot = 0;
  uint32_t blocks = 0, total = 0;  // of queries: of a plane, of all planes
};

}  // namespace xpu_ops
