// Launch arguments of the direct convolution kernels; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/convolution.hpp"

namespace xpu_ops {

struct ConvArgs : ops::DirectProblem {
  uint32_t items;         // elements written
  uint32_t rows, blocks;  // depthwise: rows of a work-group, work-groups of an image
};

}  // namespace xpu_ops
