// Launch arguments of the normalisation kernels.
#pragma once
#include "kernels/ops/problem/normalization.hpp"
#include "kernels/sycl/core/divide.hpp"

namespace xpu_ops {

struct LayerNormArgs : ops::LayerNormProblem {
  void* partial = nullptr;  // backward with sums: [groups][2][cols]
  uint32_t team = 1;        // team: items that share a row
};

constexpr uint32_t kColumnVectors = 4;  // vectors of columns that an item of the column sums takes

struct ColumnSumArgs : ops::ColumnSumProblem {
  void* partial = nullptr;         // [batches][splits][2][cols]
  uint32_t splits = 1, block = 1;  // of one matrix; a split takes `block` rows
  uint32_t blocks = 1;             // work-groups over columns
  uint32_t once = 1;               // see whole_or_part
  Divider by_cols{};
};

struct RowSumArgs : ops::RowSumProblem {
  uint32_t team = 1;  // team: items that share a row
};

using WeightNormArgs = ops::WeightNormProblem;  // nothing is planned

struct NormApplyArgs : ops::NormApplyProblem {
  uint32_t rows_per_group = 1;
  uint32_t parts = 1;  // work-groups over the rows of one matrix
};

struct NormCoefArgs : ops::NormCoefProblem {
  Divider by_channels{}, by_group{};  // group norm: channels, and channels of a group
};

}  // namespace xpu_ops
