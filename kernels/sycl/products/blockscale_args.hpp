// Launch arguments of operands with a scale per block; shared by host and device.
#pragma once
#include <cstdint>

#include "kernels/ops/problem/blockscale.hpp"
#include "kernels/sycl/products/lowprecision_args.hpp"

namespace xpu_ops {

struct BlockScaleArgs : ops::BlockScaleProblem {
  uint32_t row_each = 1, column_each = 0;  // of a work-group; the columns are whole blocks
};

struct BlockRowsArgs {
  WeightArgs weight;
  BlockScaleArgs scales;
};

struct BlockDotsArgs {
  WeightArgs weight;
  BlockScaleArgs a, w;
  const float* factor[2] = {};
  const float* bias = nullptr;
  uint32_t type = 0;  // of out: f32, bf16, f16
};

}  // namespace xpu_ops
