// Which kernel reduces a tensor, and how its elements are divided. Pure host code.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/sycl/reduction_args.hpp"

namespace xpu_ops::plan {

constexpr int kReductionInputDims = 64;

// All strides in elements; outputs have stride 0 or anything in reduced dimensions.
struct ReductionShape {
  int ndim = 0;
  int64_t size[kReductionInputDims], in[kReductionInputDims], out0[kReductionInputDims], out1[kReductionInputDims];
  bool reduced[kReductionInputDims];
};

struct ReductionPlan {
  enum class Kernel { row, col } kernel = Kernel::row;
  ReductionArgs args;  // without pointers; `partial` needs splits * kept_count accumulators where splits > 1
  size_t groups = 0, local = 1;
  size_t final_groups = 0, final_local = 1;  // 0 where there is one split
};

enum class ReductionFit { ok, too_many_dims };

// `ordered`: elements are numbered in the logical order of the reduced dimensions (for indices), which may then not be
// reordered. `units`: compute units of the device. No size may be 0 except in reduced dimensions.
// Throws Error{not_implemented} for a merged dimension or a number of outputs of 2^31 and more.
ReductionFit plan_reduction(const ReductionShape& shape, bool ordered, uint32_t units, ReductionPlan& plan);

}  // namespace xpu_ops::plan
