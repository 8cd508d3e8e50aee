// Arguments of the embedding kernels; shared by host and device.
#pragma once
#include "kernels/ops/problem/embedding.hpp"
#include "kernels/sycl/index/indexing_args.hpp"

namespace xpu_ops {

struct BagArgs : ops::BagProblem {
  IndexSource index;        // of `indices`
  uint32_t bags_per_group;  // that a work-group takes in turn
};

struct RenormArgs : ops::RenormProblem {
  uint8_t norm;  // 0: infinity, 1, 2, or 3: any p
};

// A work-group has a tile of columns and a part of the rows.
struct BagGradArgs : ops::BagGradProblem {
  DeviceError* error;
  int64_t rows_per_part;
  uint32_t tile, tiles;
};

struct BagSampleGradArgs : ops::BagSampleGradProblem { DeviceError* error; };

}  // namespace xpu_ops
