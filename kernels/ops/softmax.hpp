// Softmax: plan (pure host code) and launches.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"
#include "kernels/runtime/device/policy.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "kernels/sycl/reduction_args.hpp"
#include "kernels/sycl/softmax_args.hpp"

namespace xpu_ops::plan::inline softmax_family {

struct SoftmaxPlan {
  enum class Kernel : uint8_t { fours, row, team, columns };  // all but the last along the innermost dimension
  Kernel kernel = Kernel::columns;
  uint32_t blocks = 1;  // work-groups over columns
  uint32_t team = 1;    // items that share a row
  size_t groups = 0, local = kLanes;
};
SoftmaxPlan plan_softmax(DType from, const SoftmaxArgs& args, const runtime::Policy& policy);

// The gradient where `y` is given. `blocks` and `team` of the arguments are left as they are.
void softmax(runtime::Queue& queue, bool log, DType from, DType to, SoftmaxArgs args);

}  // namespace xpu_ops::plan::inline softmax_family
