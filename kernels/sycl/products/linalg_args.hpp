// Launch arguments of the kernels of linear algebra; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/linalg.hpp"

namespace xpu_ops {

using PermutationArgs = ops::PermutationProblem;  // nothing is planned

struct SmallArgs : ops::SmallProblem {
  void* scratch;  // `elements` per matrix that is worked on at a time
  int32_t elements;
  uint32_t workers;  // work-groups of one item, or work-items
};

}  // namespace xpu_ops
