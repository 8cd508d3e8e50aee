// Problems of counts and of reductions of segments; no type of the device, no torch.
#pragma once
#include <cstdint>

#include "kernels/sycl/core/real_args.hpp"

namespace xpu_ops {

enum class SegmentOp : uint32_t { max = 0, mean = 1, min = 2, sum = 3, prod = 4 };

namespace ops {

struct CountProblem {
  const void* index;  // int64 or int32, contiguous; negative: left out
  int64_t* out;       // bins
  uint32_t n, bins;
  uint8_t is32;
};

// data viewed as [outer, axis, inner]; offsets [outer, segments + 1].
struct SegmentProblem {
  const void* data;
  const void* offsets;  // int64 or int32
  void* out;            // [outer, segments, inner]
  const void* grad;     // backward: gradient of out; `out` is the forward result, `result` receives data's gradient
  void* result;
  Real initial;
  uint32_t outer, axis, segments, inner;
  SegmentOp op;
  uint8_t is32, has_initial;
};

}  // namespace ops
}  // namespace xpu_ops
