// Launch arguments of rounding with scales; shared by host and device.
#pragma once
#include "kernels/ops/problem/rounding.hpp"

namespace xpu_ops {

struct RoundArgs : ops::RoundProblem {
  uint32_t groups = 1;  // of a row
  uint32_t each = 1;    // groups of an item
  uint32_t team = 0;    // items that share a group
};
struct ScaleArgs : ops::ScaleProblem { uint32_t chunk = 0; };  // columns of a work-group, whole groups

}  // namespace xpu_ops
